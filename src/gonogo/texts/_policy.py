"""What people read about rules and verdicts, in both languages."""

ENGLISH_POLICY = {
    "cli_rules_read": "Rules: {rules}, rules of review: {reviews}, from {files}. Changes count from the next start on.",  # noqa: E501
    "cli_rules_none": "No rules yet: whatever changes something asks. They go into {file}.",
    "cli_matched": "it fits",
    "cli_not_considered": "not considered: decided before",
    "cli_stands_back": "stands back: a rule of review speaks of this call",
    "cli_replay_disk": "not judged again: the disk decided, or what the agent wrote could not be read",  # noqa: E501
    "cli_replay_server": "not judged again: its server was not there, or did not list the tool",
    "cli_replay_session": "not judged again: a rule of the session decided",
    "cli_replay_limits": "{judged} calls were judged again, by what they name: links, the kinds of files and the sandbox of then are not known.",  # noqa: E501
    "cli_suggested": "Rules for what was approved at least {least} times and never rejected.\nRead and edit them before you save them: each stands for calls that nobody will see.",  # noqa: E501
    "cli_nothing_suggested": "Nothing was approved {least} times that a rule can stand for.",
}

RUSSIAN_POLICY = {
    "cli_rules_read": "Правил: {rules}, правил проверки: {reviews}, из {files}. Изменения действуют со следующего запуска.",  # noqa: E501
    "cli_rules_none": "Правил ещё нет: о каждом изменении будет вопрос. Их место в {file}.",
    "cli_matched": "подходит",
    "cli_not_considered": "не рассматривалось: решено раньше",
    "cli_stands_back": "не действует: об этом вызове есть правило согласования",
    "cli_replay_disk": "не пересмотрено: решил диск, или написанное агентом не читается",
    "cli_replay_server": "не пересмотрено: сервера не было, или он не предлагал этот инструмент",
    "cli_replay_session": "не пересмотрено: решило правило сессии",
    "cli_replay_limits": "Пересмотрено вызовов: {judged}, по тому, что в них названо: ссылки, виды файлов и тогдашняя песочница не известны.",  # noqa: E501
    "cli_suggested": "Правила для того, что одобряли не меньше {least} раз и ни разу не отклонили.\nПрочтите и поправьте их, прежде чем сохранить: за каждым стоят вызовы, которых никто не увидит.",  # noqa: E501
    "cli_nothing_suggested": "Ничто не одобряли {least} раз так, чтобы это могло заменить правило.",
}
