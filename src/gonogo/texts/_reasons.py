"""What the policy says of a call, in other languages than the one it says it in."""

from collections.abc import Mapping

from gonogo.domain.errors import Reason
from gonogo.texts._language import DEFAULT, resolve


def told(reason: str, locale: str | None) -> str:
    """A reason in that language; what a person wrote, and what is not known, stands as it is."""
    table = _REASONS.get(resolve(locale, DEFAULT))
    if table is None:
        return str(reason)
    if not isinstance(reason, Reason):
        return reason if "{" in reason else table.get(reason, reason)
    template = table.get(reason.template, reason.template)
    return template.format(**{name: _field(f, locale) for name, f in reason.fields.items()})


def _field(value: object, locale: str | None) -> object:
    return told(value, locale) if isinstance(value, Reason) else value


RUSSIAN_REASONS: Mapping[str, str] = {
    "{first}; {then}": "{first}; {then}",
    # Steps of a verdict
    "built-in deny": "встроенные запреты",
    "deny rules": "правила, которые запрещают",
    "built-in ask": "встроенные вопросы",
    "ask rules": "правила, которые спрашивают",
    "allow rules": "правила, которые разрешают",
    "grant": "разрешение плана",
    "readers": "команды, которые только читают",
    "default": "по умолчанию",
    "unattended": "без людей",
    # Writing in a repository
    "git runs it without hooks, filters, an editor or a signature": "git выполнит её без хуков, фильтров, редактора и подписи",  # noqa: E501
    "git writes in the repository only where nothing else runs: run 'git add' and 'git commit' by themselves": "git пишет в репозиторий только там, где больше ничего не выполняется: запускайте 'git add' и 'git commit' отдельно",  # noqa: E501
    "it writes in the repository, which only a plan or a person allows": "она пишет в репозиторий, а это разрешает только план или человек",  # noqa: E501
    "{word!r} is more to git than a path": "{word!r} для git больше, чем путь",
    # Calls of which nobody knows what came
    "gonogo stopped while it ran": "gonogo остановился, пока она шла",
    "its client has not told the result in time": "клиент не сообщил результат вовремя",
    "its server timed out: no answer within {seconds:g} s": "сервер не ответил за {seconds:g} с",
    "its server timed out: no answer within {seconds:g} s that can be read, and {lines} lines that are no messages": "сервер за {seconds:g} с не дал ответа, который можно прочитать; строк, которые не сообщения: {lines}",  # noqa: E501
    "its server was ended: {why}": "сервер был остановлен: {why}",
    "its server ended: {why}": "сервер завершился: {why}",
    "its server's answer cannot be read: {why}": "ответ сервера нельзя прочитать: {why}",
    # Calls
    "{cwd!r} is outside the workspace": "{cwd!r} вне рабочей папки",
    "{path!r} is protected": "{path!r} под защитой",
    "{path!r} is run or read by others, or holds secrets": "{path!r} запускают или читают другие, или там секреты",  # noqa: E501
    "{path!r} may hold secrets, and a model would see them": "в {path!r} могут быть секреты, и их увидит модель",  # noqa: E501
    "{reason}; look twice: {letters}": "{reason}; присмотритесь: {letters}",
    "{word!r} is {script} with {letters}": "{word!r} — это {script}, но с {letters}",
    "a path contains {odd}": "в пути есть {odd}",
    "and {count} more such words": "и ещё таких слов: {count}",
    "it changes nothing": "ничего не меняет",
    "it only speaks to the runtime": "обращается только к самой среде",
    "nobody can be asked": "спросить некого",
    "the agent {agent!r} may not write {path!r}": "агенту {agent!r} нельзя писать в {path!r}",
    "there is no tool {tool!r}": "нет инструмента {tool!r}",
    "the same call has begun before in this plan, and only a person can say whether it is done": "такой же вызов в этом плане уже начинали, и только человек может сказать, выполнен ли он",  # noqa: E501
    "{name} has changed since it was accepted: its {what}": "{name} изменился с тех пор, как его приняли: {what}",  # noqa: E501
    # Rules and plans
    "it covers none of {paths}": "не охватывает ничего из {paths}",
    "it does not begin {written!r}": "не начинается с {written!r}",
    "it does not cover {path!r}": "не охватывает {path!r}",
    "it is about commands": "говорит о командах",
    "it is about the agent {agent!r}": "говорит об агенте {agent!r}",
    "it is about the tool {tool!r}": "говорит об инструменте {tool!r}",
    "it names no command": "не называет команды",
    "it names nothing that {path!r} covers": "не называет ничего, что охватывает {path!r}",
    "it needs no grant": "разрешения плана не требует",
    "it asks for the network": "просит доступ в сеть",
    "it only reads, and runs where nothing else can be done": "команда только читает и выполняется там, где ничего другого сделать нельзя",  # noqa: E501
    "no rule allows {subject}": "ни одно правило не разрешает {subject}",
    "nothing in it {begins}": "ничто в ней {begins}",
    "begins with {words!r}": "не начинается с {words!r}",
    "is just {words!r}": "не есть в точности {words!r}",
    "rule {rule}: {decision} {subject}": "правило {rule}: {decision} {subject}",
    "the approved plan allows it to subtask {subtask!r}": "одобренный план разрешает это подзадаче {subtask!r}",  # noqa: E501
    "the approved plan allows {written!r} to subtask {subtask!r}": "одобренный план разрешает {written!r} подзадаче {subtask!r}",  # noqa: E501
    "the call touches no path": "вызов не касается никакого пути",
    "the plan declares no commands": "план не объявляет команд",
    "the plan does not declare {path!r}": "план не объявляет {path!r}",
    "the plan does not declare {tool!r}": "план не объявляет {tool!r}",
    "{part!r} is not known to only read": "неизвестно, только ли читает {part!r}",
    "{part!r} may show a secret by another name": "{part!r} может показать секрет под другим именем",  # noqa: E501
    "{part!r} does not fit: nothing in it {begins}": "{part!r} не подходит: ничто в ней {begins}",
    "{subject} asks each time, whatever the plan allows": "{subject} спрашивает каждый раз, что бы ни разрешал план",  # noqa: E501
    "{subject} is outside the scope of subtask {subtask!r}": "{subject} вне границ подзадачи {subtask!r}",  # noqa: E501
    # Commands as a whole
    "git in a subfolder may find another repository's settings": "git в подпапке может найти настройки другого репозитория",  # noqa: E501
    "git would obey the settings of a repository not vetted": "git послушался бы настроек непроверенного репозитория",  # noqa: E501
    "it may reach the network, and without a sandbox nothing limits what it reaches": "команда может выйти в сеть, а без песочницы ничто не ограничит, куда именно",  # noqa: E501
    "it would reach {hosts}, which no plan allows": "команда обратилась бы к {hosts}, чего не разрешает ни один план",  # noqa: E501
    "not understood: {why}": "не понято: {why}",
    "the command contains {odd}": "в команде есть {odd}",
    "the command is empty": "команда пуста",
    "the command is longer than any command": "команда длиннее любой команды",
    "there is no command in it": "команды в этом нет",
    "{part!r}: {reason}": "{part!r}: {reason}",
    "{path!r} leads out of the workspace, to a secret or to no file at all": "{path!r} ведёт за пределы рабочей папки, к секрету или вовсе не к файлу",  # noqa: E501
    "the workspace has too many files to see which of them are to be protected; not looked at: {folders}": "в рабочей папке слишком много файлов, чтобы увидеть, какие из них защищать; не просмотрено: {folders}",  # noqa: E501
    "{program!r}, a program of the workspace itself,": "программа самой рабочей папки {program!r}",
    "{program!r} may write where the agent {agent!r} may not": "{program!r} может писать туда, куда агенту {agent!r} нельзя",  # noqa: E501
    "{program!r} runs the repository's code, and there is no sandbox": "{program!r} запускает код репозитория, а песочницы нет",  # noqa: E501
    # What nobody can allow
    "a fork bomb": "форк-бомба",
    "an agent may not command gonogo": "агенту нельзя командовать gonogo",
    "an agent may not read or change gonogo's records": "агенту нельзя читать и менять записи gonogo",  # noqa: E501
    "an agent may not speak to gonogo's own API": "агенту нельзя обращаться к API самого gonogo",
    "an agent may not speak to local sockets": "агенту нельзя обращаться к локальным сокетам",
    "an agent may not touch gonogo's own files": "агенту нельзя трогать файлы самого gonogo",
    "changes git's configuration outside this repository": "меняет настройки git за пределами этого репозитория",  # noqa: E501
    "changes the mode or owner of {operand}": "меняет права или владельца {operand}",
    "deletes below {word}": "удаляет внутри {word}",
    "ends every process, or the one that holds this place together": "завершает все процессы или тот, на котором здесь всё держится",  # noqa: E501
    "ends processes by name": "завершает процессы по имени",
    "makes git run {key!r} by itself": "git стал бы сам запускать {key!r}",
    "moves {operand}": "перемещает {operand}",
    "removes everything, should the variable not be set": "удаляет всё, если переменная не задана",
    "removes the protected {operand}": "удаляет {operand}, что под защитой",
    "removes {operand}": "удаляет {operand}",
    "touches the keys in {word}": "касается ключей в {word}",
    "touches the raw device {word}": "касается самого устройства {word}",
    "writes to the device {target}": "пишет на устройство {target}",
    "writes to the protected {target}": "пишет в {target}, что под защитой",
    "writes to the system file {target}": "пишет в системный файл {target}",
    "{program} attaches to another process": "{program} подключается к чужому процессу",
    "{program} changes the host": "{program} меняет саму машину",
    "{program} changes who runs the command": "{program} меняет того, от чьего имени идёт команда",
    # The shell
    "'!' inside a pipeline": "«!» внутри конвейера",
    "'!' that touches a word": "«!» вплотную к слову",
    "a word before '>'": "слово перед «>»",
    "a word that goes on in the next line": "слово продолжается на следующей строке",
    "an operator without a command after it": "после оператора нет команды",
    "contains {odd}": "содержит {odd}",
    "has more than {most} parts": "в команде больше {most} частей",
    "longer than {most} characters": "длиннее {most} знаков",
    "not valid shell syntax, or syntax that is not known": "не синтаксис оболочки или синтаксис, который не известен",  # noqa: E501
    "parts that touch": "части стоят вплотную",
    "redirects: {text!r}": "перенаправляет: {text!r}",
    "text that belongs to no command": "текст не относится ни к одной команде",
    "the program's name is not plain": "имя программы — не простое слово",
    "two commands without an operator": "две команды без оператора",
    "uses {kind!r}, which is not in the grammar": "использует {kind!r}, чего нет в грамматике",
    "words that touch": "слова стоят вплотную",
    "{operator!r} without a command before it": "перед {operator!r} нет команды",
    "{text!r} could match a name that starts with '-'": "{text!r} может совпасть с именем, которое начинается с «-»",  # noqa: E501
    "{text!r} is computed by the shell": "{text!r} вычислит оболочка",
    "{text!r} is expanded by the shell": "{text!r} раскроет оболочка",
    "{text!r} mixes a pattern and '..'": "{text!r} смешивает шаблон и «..»",
    # Words of programs
    "a format that starts with '+'": "формат, который начинается с «+»",
    "a listing": "вывод списка",
    "a listing of an archive": "вывод списка файлов архива",
    "a number": "число",
    "a number or size": "число или размер",
    "a pattern stands among the words that are allowed": "среди разрешённых слов стоит шаблон",
    "a pattern of names": "шаблон имён",
    "a plain name": "простое имя",
    "a version": "версия",
    "an empty path": "пустой путь",
    "it is only known with an operand": "известно только с операндом",
    "it is only known with {options}": "известно только с {options}",
    "name the program {program!r} without its folder": "назовите программу {program!r} без её папки",  # noqa: E501
    "{command!r} is not in the closed set of git commands": "{command!r} нет в закрытом наборе команд git",  # noqa: E501
    "{name!r} is not a known option": "{name!r} — неизвестный параметр",
    "{name!r} lacks a value": "у {name!r} нет значения",
    "{name!r} may only stand before the operands": "{name!r} может стоять только перед операндами",
    "{name!r} takes no value": "{name!r} не принимает значения",
    "{name!r} takes words of their own": "{name!r} принимает значения отдельными словами",
    "{option!r} of {program!r} runs other commands": "{option!r} у {program!r} запускает другие команды",  # noqa: E501
    "{program!r} reaches the network: name what it may be told": "{program!r} выходит в сеть: назовите, с чем её можно запускать",  # noqa: E501
    "{program!r} runs any code: name what": "{program!r} запускает любой код: назовите какой",
    "{program!r} runs any module: name which": "{program!r} запускает любой модуль: назовите какой",
    "{program!r} runs other commands": "{program!r} запускает другие команды",
    "{program!r} runs other commands: name which": "{program!r} запускает другие команды: назовите какие",  # noqa: E501
    "{program!r} runs other commands: name which, without {option!r} before it": "{program!r} запускает другие команды: назовите какие, без {option!r} перед ними",  # noqa: E501
    "{word!r} does more than print lines": "{word!r} не только выводит строки",
    "{word!r} hides arguments": "{word!r} прячет аргументы",
    "{word!r} is a pathspec or a revision that is not known": "{word!r} — путь или ревизия в неизвестной записи",  # noqa: E501
    "{word!r} is a pattern of files": "{word!r} — шаблон имён файлов",
    "{word!r} is not a range of lines": "{word!r} — не диапазон строк",
    "{word!r} is not known to be harmless": "{word!r}: неизвестно, безвредно ли это",
    "{word!r} is not {what}": "{word!r} — не {what}",
    "{word!r} is one operand too many": "{word!r} — лишний операнд",
    "{word!r} leaves the workspace": "{word!r} выходит за пределы рабочей папки",
    "{word!r} loads a plugin": "{word!r} загружает плагин",
    "{word!r} may be on another host": "{word!r} может быть на другой машине",
    "{word!r} may be several words where one is meant": "{word!r} может стать несколькими словами там, где нужно одно",  # noqa: E501
    "{word!r} may hold secrets": "в {word!r} могут быть секреты",
    "{word!r} may look at more than its input": "{word!r} может смотреть не только на свой ввод",
    "{word!r} may match files that hold secrets": "{word!r} может совпасть с файлами, где секреты",
    "{word!r} may run gpg": "{word!r} может запустить gpg",
    "{word!r} may wait for ever": "{word!r} может ждать вечно",
    "{written!r} is not one simple command": "{written!r} — не одна простая команда",
    "{written!r} is not plain words": "{written!r} — не простые слова",
}

_REASONS: Mapping[str, Mapping[str, str]] = {"ru": RUSSIAN_REASONS}
