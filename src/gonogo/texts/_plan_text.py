"""What stands in a plan that a person edits as a text, and is said about it."""

ENGLISH_PLAN_TEXT = {
    "cli_plan_help_markdown": 'Change the plan, save it and leave the editor. You are shown what is otherwise before it is sent.\nA heading (##) begins a subtask and is its id. Below it: what is to be done, and its fields as a list.\nTo add a subtask, copy a section; to leave one out, delete its section. The title stays as it is.\nFields: {fields}\nA list is a, b or ["a", "b"]; inputs are JSON. A field that is left out is taken as usual.\nA line of text like a heading, a field or a comment begins with a backslash: \\## or \\- agent:\nCharacters that could deceive stand as \\x1b or \\u202e; such an escape itself as \\\\x1b.\nComments like this one are not read.',  # noqa: E501
    "cli_plan_help_yaml": "Change the plan, save it and leave the editor. You are shown what is otherwise before it is sent.\nTo add a subtask, copy one; to leave one out, delete it. The goal stays as it is.\nFields: {fields}\nNumbers, true, false and null are as in JSON; every other plain word is text. No anchors, no tags.\nComments are not read.",  # noqa: E501
    "cli_plan_flaws": "This cannot be sent yet:",
    "cli_plan_flaws_end": "Correct it and save. Saved as it is, nothing is sent and your text is kept.",  # noqa: E501
    "cli_plan_notes": "Worth knowing:",
    "cli_plan_goal": "the goal is not changed by an edit; put the title back as it was",
    "cli_plan_empty": "there is no subtask; to stop the plan, reject it",
    "cli_plan_too_many": "a plan has at most {most} subtasks",
    "cli_plan_too_large": "the text has more than {most} characters",
    "cli_plan_unknown_field": "there is no field {name}; fields are: {fields}",
    "cli_plan_twice": "{name} stands twice; keep one",
    "cli_plan_no_part": "not a part of {name}; write one of its fields as a list below it, two blanks to the right: {fields}",  # noqa: E501
    "cli_plan_empty_part": "{name} has nothing below it; say what, write {{}} for all as usual, or delete the line",  # noqa: E501
    "cli_plan_no_json": "{name}: {detail}",
    "cli_plan_no_subtask": "this belongs to no subtask; a subtask begins with a heading: ## its-id",
    "cli_plan_open_comment": "this comment does not end; close it with -->",
    "cli_plan_no_yaml": "not valid YAML: {detail}",
    "cli_plan_anchor": "anchors and aliases are not read; write the value out",
    "cli_plan_tag": "tags are not read; write the value alone",
    "cli_plan_deep": "nested deeper than {most}",
    "cli_plan_shape": "expected goal, and subtasks as a list of objects with fields",
    "cli_plan_key": "a name of a field is text; put it in quotes",
    "cli_plan_found": "{count} to correct; the editor is opened again. The first: {first}",
    "cli_plan_unchanged": "Nothing was changed; nothing is sent.",
    "cli_plan_kept": "Nothing is sent. Your text is kept in {file}; go on with: gonogo plans edit {plan_id} --from {file}",  # noqa: E501
    "cli_plan_not_utf8": "{file} is not UTF-8; save it as UTF-8",
    "cli_plan_order": "The same subtasks in another order.",
    "cli_plan_send_question": "Approve the plan as you have edited it?",
    "cli_plan_send": "approve and send",
    "cli_plan_again": "edit again",
    "cli_plan_discard": "do not send",
    "cli_plan_not_waiting": "Plan {plan_id} waits for no decision; it is {status}",
    "cli_plan_no_terminal": "There is no terminal to ask at: add --yes, and give the edited plan with --from FILE",  # noqa: E501
}

RUSSIAN_PLAN_TEXT = {
    "cli_plan_help_markdown": 'Измените план, сохраните и выйдите из редактора. Перед отправкой вы увидите, что изменилось.\nЗаголовок (##) начинает подзадачу, это её id. Под ним: что нужно сделать, и поля списком.\nЧтобы добавить подзадачу, скопируйте раздел; чтобы убрать, удалите его. Название плана остаётся как есть.\nПоля: {fields}\nСписок пишется как a, b или ["a", "b"]; inputs — это JSON. Пропущенное поле берётся как обычно.\nСтрока текста, похожая на заголовок, поле или комментарий, начинается с обратной черты: \\## или \\- agent:\nЗнаки, которые могут обмануть, видны как \\x1b или \\u202e; сама такая запись — как \\\\x1b.\nКомментарии вроде этого не читаются.',  # noqa: E501
    "cli_plan_help_yaml": "Измените план, сохраните и выйдите из редактора. Перед отправкой вы увидите, что изменилось.\nЧтобы добавить подзадачу, скопируйте одну из них; чтобы убрать, удалите её. Цель остаётся как есть.\nПоля: {fields}\nЧисла, true, false и null — как в JSON; любое другое слово — текст. Без якорей и тегов.\nКомментарии не читаются.",  # noqa: E501
    "cli_plan_flaws": "Отправить это пока нельзя:",
    "cli_plan_flaws_end": "Исправьте и сохраните. Если сохранить как есть, ничего не отправится, а текст останется.",  # noqa: E501
    "cli_plan_notes": "Полезно знать:",
    "cli_plan_goal": "цель правкой не меняется; верните название, каким оно было",
    "cli_plan_empty": "здесь нет ни одной подзадачи; чтобы остановить план, отклоните его",
    "cli_plan_too_many": "в плане не больше {most} подзадач",
    "cli_plan_too_large": "в тексте больше {most} знаков",
    "cli_plan_unknown_field": "поля {name} нет; поля: {fields}",
    "cli_plan_twice": "{name} стоит дважды; оставьте одно",
    "cli_plan_no_part": "это не часть {name}; её поля пишутся списком под ней, на два пробела правее: {fields}",  # noqa: E501
    "cli_plan_empty_part": "под {name} ничего нет; напишите что-нибудь, {{}} для обычных значений, или удалите строку",  # noqa: E501
    "cli_plan_no_json": "{name}: {detail}",
    "cli_plan_no_subtask": "это не относится ни к одной подзадаче; подзадачу начинает заголовок: ## её-id",  # noqa: E501
    "cli_plan_open_comment": "этот комментарий не кончается; закройте его: -->",
    "cli_plan_no_yaml": "это не YAML: {detail}",
    "cli_plan_anchor": "якоря и ссылки на них не читаются; напишите значение целиком",
    "cli_plan_tag": "теги не читаются; напишите одно значение",
    "cli_plan_deep": "вложено глубже {most}",
    "cli_plan_shape": "нужны goal и subtasks — список объектов с полями",
    "cli_plan_key": "имя поля — это текст; поставьте кавычки",
    "cli_plan_found": "Исправить: {count}; редактор открывается снова. Первое: {first}",
    "cli_plan_unchanged": "Ничего не изменилось; ничего не отправлено.",
    "cli_plan_kept": "Ничего не отправлено. Ваш текст лежит в {file}; продолжить: gonogo plans edit {plan_id} --from {file}",  # noqa: E501
    "cli_plan_not_utf8": "{file}: это не UTF-8; сохраните его в UTF-8",
    "cli_plan_order": "Те же подзадачи в другом порядке.",
    "cli_plan_send_question": "Подтвердить план в вашей правке?",
    "cli_plan_send": "подтвердить и отправить",
    "cli_plan_again": "править дальше",
    "cli_plan_discard": "не отправлять",
    "cli_plan_not_waiting": "План {plan_id} не ждёт решения; его состояние: {status}",
    "cli_plan_no_terminal": "Спросить негде, терминала нет: добавьте --yes и дайте план файлом, --from ФАЙЛ",  # noqa: E501
}
