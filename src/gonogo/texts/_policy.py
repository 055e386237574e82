"""What people read about rules and verdicts, in both languages."""

ENGLISH_POLICY = {
    "cli_rules_read": "Rules: {rules}, rules of review: {reviews}, from {files}. Changes count from the next start on.",  # noqa: E501
    "cli_rules_none": "No rules yet: whatever changes something asks. They go into {file}.",
    "cli_server_fault": "The MCP server {name} cannot be used; everything else works. {fault}",
    "finding_review_nobody": "{rule}: {field} names {name}, and nobody is called that. Make a token: gonogo token create --name {name} --role {role}",  # noqa: E501
    "finding_review_weak": "{rule}: {field} names {name}, who has not the role {role} that this needs.",  # noqa: E501
    "finding_review_too_few": "{rule}: {needed} approvals are needed, and {able} people at most could give one, whoever asks.",  # noqa: E501
    "finding_review_too_few_when": "{rule}: {needed} approvals are needed, and fewer people could give one when one of these asks: {names}.",  # noqa: E501
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
    "cli_server_fault": "MCP-сервер {name} использовать нельзя, остальное работает. {fault}",
    "finding_review_nobody": "{rule}: в {field} назван {name}, а такого нет. Токен делает: gonogo token create --name {name} --role {role}",  # noqa: E501
    "finding_review_weak": "{rule}: в {field} назван {name}, у кого нет нужной здесь роли {role}.",
    "finding_review_too_few": "{rule}: нужно одобрений: {needed}, а дать их могли бы самое большее {able}, кто бы ни спросил.",  # noqa: E501
    "finding_review_too_few_when": "{rule}: нужно одобрений: {needed}, а дать их могут не столько, когда спрашивает один из этих: {names}.",  # noqa: E501
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
