"""Where in the workspace the words of a command may lead, word by word."""

import pytest

from gonogo.policy.reviewers import places
from gonogo.policy.shell import UNKNOWN

ANYWHERE = ["**"]


@pytest.mark.parametrize(
    ("word", "cwd", "found"),
    [
        ("a/b", ".", ["a/b"]),
        ("a/../b", ".", ["b"]),
        ("b", "a", ["a/b"]),
        ("../b", "a", ["b"]),
        ("", ".", []),
        # Out of the workspace, or nobody knows where to.
        ("..", ".", ANYWHERE), ("../x", ".", ANYWHERE), ("../../x", "a", ANYWHERE),
        ("~/x", ".", ANYWHERE), ("/srv/x", ".", ANYWHERE), ("/x", "a", ANYWHERE),
        (UNKNOWN, ".", ANYWHERE), (f"a/{UNKNOWN}", ".", ANYWHERE),
        (f"/etc/{UNKNOWN}", ".", ANYWHERE),
        ("..x", ".", ["..x"]), ("a~", ".", ["a~"]),
        # Where no workspace lies.
        ("/etc/hosts", ".", []), ("/usr", "a", []), ("/dev/null", ".", []), ("/lib64/x", ".", []),
        ("/etcetera", ".", ANYWHERE), ("/usr/../srv", ".", ANYWHERE),
        # What a pattern matches may be a folder.
        ("d*", ".", ["d*", "d*/**"]), ("d?", ".", ["d?", "d?/**"]),
        ("[ab]c", ".", ["?c", "?c/**"]), ("a[", ".", ["a["]), ("a[/]", ".", ["a[/]"]),
        # Braces may hold anything from where they begin.
        ("{a,b}", ".", ["**", "**/**"]), ("src/a{b,c}/{d}", ".", ["src/**", "src/**/**"]),
        ("src/{a,../..}", ".", ["**", "**/**"]), ("src/{a..c}", "x", ["x/**", "x/**/**"]),
        # Behind an option or the name of an operand.
        ("-Cdb", ".", ["-Cdb", "db"]), ("-C", ".", ["-C"]), ("-1db", ".", ["-1db"]),
        ("--dir=db", ".", ["--dir=db", "db"]), ("of=a:b", ".", ["of=a:b", "a", "b"]),
        ("https://x.org/db", ".", ["https:/x.org/db"]), ("--x=", ".", ["--x="]),
    ],
)  # fmt: skip
def test_a_word_may_lead_here(word, cwd, found):
    assert list(places([word], cwd)) == found


def test_every_word_is_looked_at():
    assert list(places(["a", "", "/etc/x", "b"], ".")) == ["a", "b"]
