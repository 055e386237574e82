"""What lies behind each kind of failure, and what to do about it: for whoever plans anew.

Key of the hint → the root cause, and the way out.
"""

ENGLISH_CAUSES: dict[str, tuple[str, str]] = {
    "failure_hint_environment": (
        "something outside the plan is missing or does not answer",
        "check what the step needs from its surroundings first, or reach the goal without it",
    ),
    "failure_hint_dependency": (
        "the step needs something that is not there",
        "add a step that provides it, or take the step out that needs it",
    ),
    "failure_hint_validation": (
        "what was produced, or what the step was given, is not as it has to be",
        "correct the input, or add a step that puts the result right before it is checked again",
    ),
    "failure_hint_logic": (
        "the step itself is wrong: it cannot reach what it is for in this way",
        "describe the step anew, with another way of doing it",
    ),
    "failure_hint_timeout": (
        "the step took longer than it may",
        "split it into smaller steps, or give it a longer `timeout`",
    ),
    "failure_hint_resource": (
        "the machine could not give what the step asked for",
        "do less at once: smaller steps, fewer in parallel",
    ),
    "failure_hint_quota": (
        "a limit of use was reached",
        "do with fewer requests, or wait until the limit is lifted",
    ),
    "failure_hint_permission": (
        "the step may not do what it tried",
        "reach the goal inside what is permitted, or declare in `scope` what it needs",
    ),
    "failure_hint_policy": (
        "the policy denies what the step tried",
        "find a way that the policy allows; asking again does not help",
    ),
    "failure_hint_network": (
        "something could not be reached over the network",
        "retry later with a `retry_policy`, or do without the network",
    ),
    "failure_hint_cancelled": (
        "somebody stopped the step",
        "leave it out, unless the goal cannot be reached without it",
    ),
    "failure_hint_no_work": (
        "the agent said that it was done and had changed nothing, or gave no answer",
        "say in the description what has to be in which file, or leave the step out if it is done",
    ),
    "failure_hint_unknown": (
        "not known; read the message",
        "find out more first, with a small step that looks and changes nothing",
    ),
    "failure_hint_unknown_agent": (
        "the step names an agent that there is not",
        "give the step to an agent that exists",
    ),
    "failure_hint_unknown_tool": (
        "the step uses a tool that there is not",
        "use a tool that exists, or give the step to an agent that has it",
    ),
    "failure_hint_memory": (
        "the step ran out of memory",
        "work on less at once: parts of the data, fewer parallel steps",
    ),
    "failure_hint_disk": (
        "there is no space left on the disk",
        "write less, or clear away first what the plan itself has made and no longer needs",
    ),
    "failure_hint_missing_program": (
        "a program or module that the step uses is not installed",
        "use what is installed, or add a step that installs it if that is permitted",
    ),
    "failure_hint_missing_file": (
        "a file or folder that the step uses is not there",
        "look where it is, or add a step before that makes it",
    ),
}

RUSSIAN_CAUSES: dict[str, tuple[str, str]] = {
    "failure_hint_environment": (
        "чего-то вне плана нет, или оно не отвечает",
        "сначала проверить, что шагу нужно от окружения, или обойтись без этого",
    ),
    "failure_hint_dependency": (
        "шагу нужно то, чего нет",
        "добавить шаг, который это создаст, или убрать шаг, которому это нужно",
    ),
    "failure_hint_validation": (
        "результат или входные данные шага не такие, как нужно",
        "исправить входные данные или добавить шаг, который исправит результат перед проверкой",
    ),
    "failure_hint_logic": (
        "неверен сам шаг: так цели не достичь",
        "описать шаг заново, с другим способом",
    ),
    "failure_hint_timeout": (
        "шаг длился дольше, чем можно",
        "разбить его на меньшие или увеличить `timeout`",
    ),
    "failure_hint_resource": (
        "машина не смогла дать то, что просил шаг",
        "делать меньше за раз: меньшие шаги, меньше параллельных",
    ),
    "failure_hint_quota": (
        "исчерпан лимит использования",
        "обойтись меньшим числом запросов или подождать снятия лимита",
    ),
    "failure_hint_permission": (
        "шагу нельзя то, что он попытался сделать",
        "достичь цели в пределах разрешённого или объявить нужное в `scope`",
    ),
    "failure_hint_policy": (
        "политика запрещает то, что попытался сделать шаг",
        "найти разрешённый путь; спрашивать ещё раз бесполезно",
    ),
    "failure_hint_network": (
        "что-то не удалось достать по сети",
        "повторить позже с `retry_policy` или обойтись без сети",
    ),
    "failure_hint_cancelled": (
        "шаг кто-то остановил",
        "убрать его, если без него можно достичь цели",
    ),
    "failure_hint_no_work": (
        "агент сказал, что всё готово, но ничего не изменил, или не ответил",
        "написать в описании, что должно быть в каком файле, или убрать шаг, если всё уже сделано",
    ),
    "failure_hint_unknown": (
        "неизвестно; смотрите сообщение",
        "сначала узнать больше небольшим шагом, который только смотрит",
    ),
    "failure_hint_unknown_agent": (
        "шаг называет агента, которого нет",
        "отдать шаг существующему агенту",
    ),
    "failure_hint_unknown_tool": (
        "шаг использует инструмент, которого нет",
        "взять существующий инструмент или отдать шаг агенту, у которого он есть",
    ),
    "failure_hint_memory": (
        "шагу не хватило памяти",
        "обрабатывать меньше за раз: частями, с меньшим числом параллельных шагов",
    ),
    "failure_hint_disk": (
        "на диске не осталось места",
        "писать меньше или сначала убрать то, что создал сам план и что больше не нужно",
    ),
    "failure_hint_missing_program": (
        "программа или модуль, нужные шагу, не установлены",
        "взять установленное или добавить шаг установки, если она разрешена",
    ),
    "failure_hint_missing_file": (
        "файла или папки, нужных шагу, нет",
        "посмотреть, где они, или добавить перед этим шаг, который их создаст",
    ),
}
