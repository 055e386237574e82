"""Who writes what no longer reads as its name says is told where; it is written all the same."""

import pytest

from gonogo.tools.edits import broken


@pytest.mark.parametrize(
    ("path", "text", "where"),
    [
        ("a.py", "def f(:\n    pass\n", "Python any more: line 1: invalid syntax"),
        ("a.py", "if x:\nprint()\n", "Python any more: line 2: expected an indented block"),
        ("a/b.pyi", "x = 'a\n", "Python any more: line 1: unterminated string literal"),
        (
            "a.py",
            "x = 1\0\n",
            "Python any more: line 1: source code string cannot",
        ),
        ("a.json", '{"a": 1,\n}', "JSON any more: line 2: "),
        ("a.toml", "a = \n", "TOML any more: Invalid value (at line 1, column 5)"),
        ("a.yaml", "a: 1\nb: [1\nc: 2\n", "YAML any more: line 3: "),
        ("a.yml", "a: \x07\n", "YAML any more: "),
        ("a.json", "\udcff", "JSON any more: byte 0 is not UTF-8"),
    ],
)
@pytest.mark.feature(228)
def test_what_does_not_read_any_more_says_where(path, text, where):
    sound = b"0" if path.endswith("json") else b""
    said = broken(path, sound, text.encode(errors="surrogateescape"))["problem"]

    assert said.startswith(f"{path!r} is not valid {where}")


def test_what_is_new_has_never_read_otherwise():
    assert broken("a.py", None, b"(")["problem"].startswith("'a.py' is not valid Python: line 1: ")


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.py", None, b"x = '\\d'\n"),
        ("a.py", None, "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1")),
        ("a.json", None, b"\xef\xbb\xbf{}"),
        ("a.yaml", None, b"a: *b\n---\nc: &d 1\n"),
        ("tsconfig.json", b"{} // why", b"{} // why not"),
        ("a.txt", None, b"def ("),
        ("py", None, b"def ("),
        ("a.py", None, b"(" + b" " * (1 << 18)),
        ("a.json", None, b"[" * 100_000),
        ("a.toml", None, b"a = " + b"[" * 100_000),
        ("a.yaml", None, b"- " * 1_000 + b"a"),
        ("a.py", None, b"-" * 100_000 + b"1"),
    ],
    ids=["a warning", "its own encoding", "a mark of byte order", "any events", "never did",
         "any text", "no name", "large", "deep JSON", "deep TOML", "deep YAML", "deep Python"],
)  # fmt: skip
def test_nothing_is_said_of_what_reads_or_never_did_or_cannot_be_looked_at(path, before, after):
    assert broken(path, before, after) == {}
