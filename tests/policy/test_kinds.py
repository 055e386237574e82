"""What may stand where in the words of known programs: each kind of word, and what it refuses."""

import pytest

from gonogo.policy import check_command, read_contexts

PROGRAMS = [
    "ls", "cat", "echo", "tr", "basename", "find", "grep", "diff", "tar", "which", "jq", "mypy",
    "pytest", "eslint", "git log", "git show", "git diff", "git blame", "ruff check", "npm test",
    "sed",
]  # fmt: skip
CONTEXT = read_contexts({"A": {"allow": PROGRAMS}})["A"]

ASKED = [
    # Paths.
    ("cat '~/x'", "'~/x' leaves the workspace"),
    ("cat src/../../x", "'src/../../x' leaves the workspace"),
    ("cat /ws/.env", "'/ws/.env' may hold secrets"),
    ("cat /ws/secrets/x", "'/ws/secrets/x' may hold secrets"),
    ("cat /wsx/a", "'/wsx/a' leaves the workspace"),
    ("cat src/.n*", "'src/.n*' may match files that hold secrets"),
    ("cat src/*.p?m", "'src/*.p?m' may match files that hold secrets"),
    # Paths, and what some programs take them for.
    ("find /etc -name x", "'/etc' leaves the workspace"),
    ("find ../x", "'../x' leaves the workspace"),
    ("find secrets", "'secrets' may hold secrets"),
    ("mypy @args", "'@args' hides arguments"),
    ("mypy src/.e*", "'src/.e*' may match files that hold secrets"),
    ("ruff check @args", "'@args' hides arguments"),
    ("pytest .env::test_x", "'.env' may hold secrets"),
    ("pytest @x::test_x", "'@x' hides arguments"),
    ("pytest tests/.e*", "'tests/.e*' may match files that hold secrets"),
    ("tar -tf host:x.tar", "'host:x.tar' may be on another host"),
    ("tar tf host:x.tar", "'host:x.tar' may be on another host"),
    ("tar -tf a.tar src/*", "'src/*' may be on another host"),
    ("tar -tf ../a.tar", "'../a.tar' leaves the workspace"),
    ("npm test a=b", "'a=b' is not known to be harmless"),
    ("npm test http://x", "'http://x' is not known to be harmless"),
    ("npm test ../x", "'../x' leaves the workspace"),
    ("eslint -x", "'-x' is not known to be harmless"),
    ("eslint a=b", "'a=b' is not known to be harmless"),
    ("eslint http://x", "'http://x' is not known to be harmless"),
    ("eslint src/.e*", "'src/.e*' may match files that hold secrets"),
    # Revisions.
    ("git diff HEAD..id_rsa", "'id_rsa' may hold secrets"),
    ("git diff HEAD...../x", "'/x' leaves the workspace"),
    ("git diff src/../../x", "'src/../../x' leaves the workspace"),
    ("git diff src/.e*", "'src/.e*' may match files that hold secrets"),
    ("git log -L 1,2:.env", "'.env' may hold secrets"),
    ("git log --format='%(signature)'", "'%(signature)' may run gpg"),
    # Scripts.
    ("sed -n '1p\n' a", "'1p\\n' does more than print lines"),
    # Plain words.
    ("pytest -W -p", "'-p' is not a plain name"),
    ("tr src/* x", "'src/*' is a pattern of files"),
    ("which a/b", "'a/b' is not a plain name"),
    ("diff --color=.env a b", "'.env' may hold secrets"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "reason"), ASKED)
def test_a_word_that_is_not_of_its_kind_asks_and_is_named(command, reason):
    found = check_command(command, CONTEXT)
    assert (found.decision, found.rule, found.reason) == ("ask", "default:other", reason)


ALLOWED = [
    "cat -",
    "cat /ws",
    "cat /ws/src/a.py",
    "cat src/*mrc",
    "ls src/.e*",
    "echo src/*",
    "basename src/*",
    "find . -name a",
    "find . \\( -name a -o -name b \\)",
    "find . ! -name a",
    "find . -name a , -name b",
    "pytest 'tests/a.py::test_x[x/../y]::z'",
    "tar -tf a.tar",
    "tar tf a.tar src",
    "npm test src",
    "eslint src/a.js",
    "git log main..HEAD",
    "git diff v1...v2 src",
    "git log --format=%H",
    "git log -L 1,2:src/a.py",
]


@pytest.mark.parametrize("command", ALLOWED)
def test_what_is_of_its_kind_needs_no_question(command):
    assert check_command(command, CONTEXT).decision == "allow"
