"""What people read in editors, through `gonogo acp`."""

ENGLISH_EDITOR = {
    "editor_approve": "Approve",
    "editor_approve_session": "Approve, and allow this for the session",
    "editor_approve_plan": "Approve, and allow these words for this plan",
    "editor_hold": "Approve, and start later",
    "editor_revise": "Ask for changes",
    "editor_edit": "Approve with changes…",
    "editor_reject": "Reject",
    "editor_changes": "What should change?",
    "editor_why": "why",
    "editor_say_changes": "Say in your next message what should change in the plan.",
    "editor_left": "Not decided. It waits: answer with /approve or /reject, or from any other client.",  # noqa: E501
    "editor_nothing_asked": "Nothing waits for a decision here.",
    "editor_many_asked": "{count} questions wait; answer them one by one where they are shown.",
    "editor_no_plan": "There is no plan in this session.",
    "editor_other_roots": "Start the agent in that folder (gonogo acp -C DIR), or name it in GONOGO_ROOTS where the server is started.",  # noqa: E501
    "editor_servers": "The MCP servers that this editor offers are not used: {names}. They would run with your rights, outside of the sandbox; name those that you trust in mcp.toml.",  # noqa: E501
    "editor_do_approve": "Approve the plan, or the one question that waits",
    "editor_do_hold": "Approve the plan and start it later",
    "editor_do_reject": "Reject the plan, or the one question that waits",
    "editor_do_revise": "Have the plan changed by its planner",
    "editor_do_start": "Start a plan that was approved to start later",
    "editor_do_pause": "Let nothing new of the plan start",
    "editor_do_resume": "Go on with a paused plan",
}

RUSSIAN_EDITOR = {
    "editor_approve": "Одобрить",
    "editor_approve_session": "Одобрить и разрешить это до конца сессии",
    "editor_approve_plan": "Одобрить и разрешить эту команду до конца плана",
    "editor_hold": "Одобрить, но начать позже",
    "editor_revise": "Попросить изменить",
    "editor_edit": "Одобрить с изменениями…",
    "editor_reject": "Отклонить",
    "editor_changes": "Что изменить?",
    "editor_why": "почему",
    "editor_say_changes": "Напишите следующим сообщением, что изменить в плане.",
    "editor_left": "Не решено. Вопрос ждёт: ответьте /approve или /reject либо из любого другого клиента.",  # noqa: E501
    "editor_nothing_asked": "Здесь ничто не ждёт решения.",
    "editor_many_asked": "Ждут вопросов: {count}. Ответьте на каждый там, где он показан.",
    "editor_no_plan": "В этой сессии нет плана.",
    "editor_other_roots": "Запустите агента в этой папке (gonogo acp -C DIR) или укажите её в GONOGO_ROOTS там, где запускается сервер.",  # noqa: E501
    "editor_servers": "Серверы MCP, которые предлагает редактор, не используются: {names}. Они работали бы с вашими правами, вне песочницы; впишите в mcp.toml те, которым доверяете.",  # noqa: E501
    "editor_do_approve": "Одобрить план или единственный вопрос, который ждёт",
    "editor_do_hold": "Одобрить план и начать его позже",
    "editor_do_reject": "Отклонить план или единственный вопрос, который ждёт",
    "editor_do_revise": "Попросить составителя изменить план",
    "editor_do_start": "Начать план, одобренный с отложенным началом",
    "editor_do_pause": "Не начинать ничего нового из плана",
    "editor_do_resume": "Продолжить приостановленный план",
}
