"""`gonogo changes`: what agents did to files, as a person reads it."""

from typing import Any

import pytest

from gonogo.cli.commands.changes import _lines
from gonogo.domain.plan_views import ChangedFile, Changes, ChangesBy


def changes(*files: ChangedFile, **more: Any) -> Changes:
    given = {
        "session_id": "s", "files": files, "total": len(files), "lines_added": 7,
        "lines_removed": 8, "by": [],
    }  # fmt: skip
    return Changes(**given | more)


def told(found: Changes, locale: str = "ru", *, stat: bool = False) -> list[tuple[str, str]]:
    return [(text.plain, str(text.style)) for text in _lines(found, locale, stat=stat)]


DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\x07\n same\n"
FILES = (
    ChangedFile(
        path="a\u202e.txt", status="modified", lines_added=1, lines_removed=2,
        subtasks=["fix", "do\nit"], diff=DIFF,
    ),
    ChangedFile(path="b", status="added", lines_added=0, subtasks=[], withheld="secret"),
    ChangedFile(path="c", status="deleted", lines_removed=0, subtasks=[], withheld="no_text"),
    ChangedFile(path="d\x07", status="unknown", subtasks=[], withheld="more"),
)  # fmt: skip
BY = [
    ChangesBy(plan_id="p", subtask_id="fix\n1", files=2, lines_added=3, lines_removed=4),
    ChangesBy(files=1, lines_added=5, lines_removed=6),
]
HEADS = [
    ("изменён  a\\u202e.txt  +1 −2  fix, do\\x0ait", "bold"),
    ("добавлен  b", "bold"),
    ("удалён  c", "bold"),
    ("неизвестно  d\\x07", "bold"),
]
FIRST = [
    ("файлов: 4  +7 −8", "bold"),
    ("  fix ⏎ 1  файлов: 2  +3 −4", ""),
    ("  (вне планов)  файлов: 1  +5 −6", ""),
    ("", ""),
]


def test_each_file_is_told_with_its_difference_in_colours_or_why_there_is_none():
    first, second, third, fourth = HEADS
    assert told(changes(*FILES, by=BY)) == [
        *FIRST,
        first,
        ("--- a/x", "red"),
        ("+++ b/x", "green"),
        ("@@ -1 +1 @@", "cyan"),
        ("-old", "red"),
        ("+new\\x07", "green"),
        (" same", ""),
        ("", ""),
        second,
        ("В этом файле могут быть секреты, поэтому его текст не показан.", "italic"),
        ("", ""),
        third,
        (
            "Показать нечего: файл двоичный или слишком длинный, или его содержимое больше не"
            " хранится.",
            "italic",
        ),
        ("", ""),
        fourth,
        ("Это не всё; полный текст покажет --file d\\x07", "italic"),
        ("", ""),
    ]


def test_only_names_and_numbers_are_told_where_that_is_wanted():
    assert told(changes(*FILES, by=BY), stat=True) == [*FIRST, *HEADS]


@pytest.mark.parametrize(
    ("locale", "none", "more"),
    [
        (
            "ru", "Агенты не изменили ни одного файла, или их изменения отменены.",
            "Показаны не все файлы, осталось: 5. Чтобы увидеть один из них, укажите --file ПУТЬ.",
        ),
        (
            "en", "Agents changed no files, or their changes were rolled back.",
            "Files not shown: 5. To see one: --file PATH.",
        ),
    ],
)  # fmt: skip
def test_that_there_is_nothing_or_more_is_said(locale, none, more):
    assert told(changes(), locale) == [(none, "")]
    assert told(changes(FILES[1], total=6), locale, stat=True)[-1] == (more, "")
    assert told(changes(FILES[1], total=1), locale, stat=True)[-1][1] == "bold"
