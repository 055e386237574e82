"""What may stand where in the words of known programs: each kind of word, and what it refuses."""

import pytest
from msgspec.structs import replace

from gonogo.policy import check_command, read_contexts

PROGRAMS = [
    "ls", "cat", "echo", "tr", "basename", "find", "grep", "diff", "tar", "which", "jq", "mypy",
    "pytest", "eslint", "git log", "git show", "git diff", "git blame", "ruff check", "npm test",
    "sed", "cut", "tree", "uniq",
]  # fmt: skip
CONTEXT = read_contexts({"A": {"allow": PROGRAMS}})["A"]

ASKED = [
    # Paths.
    ("cat '~/x'", "'~/x' leaves the workspace"),
    ("cat src/../../x", "'src/../../x' leaves the workspace"),
    ("cat /ws/.env", "'/ws/.env' may contain secrets"),
    ("cat /ws/secrets/x", "'/ws/secrets/x' may contain secrets"),
    ("cat /wsx/a", "'/wsx/a' leaves the workspace"),
    ("cat src/.n*", "'src/.n*' may match files that contain secrets"),
    ("cat src/*.p?m", "'src/*.p?m' may match files that contain secrets"),
    # Paths, and what some programs take them for.
    ("find /etc -name x", "'/etc' leaves the workspace"),
    ("find ../x", "'../x' leaves the workspace"),
    ("find secrets", "'secrets' may contain secrets"),
    ("mypy @args", "'@args' hides arguments"),
    ("mypy src/.e*", "'src/.e*' may match files that contain secrets"),
    ("ruff check @args", "'@args' hides arguments"),
    ("pytest .env::test_x", "'.env' may contain secrets"),
    ("pytest @x::test_x", "'@x' hides arguments"),
    ("pytest tests/.e*", "'tests/.e*' may match files that contain secrets"),
    ("tar -tf host:x.tar", "'host:x.tar' may be on another host"),
    ("tar tf host:x.tar", "'host:x.tar' may be on another host"),
    ("tar -tf a.tar src/*", "'src/*' may be on another host"),
    ("tar -tf ../a.tar", "'../a.tar' leaves the workspace"),
    ("npm test a=b", "'a=b' may not be harmless"),
    ("npm test http://x", "'http://x' may not be harmless"),
    ("npm test ../x", "'../x' leaves the workspace"),
    ("eslint -x", "'-x' may not be harmless"),
    ("eslint a=b", "'a=b' may not be harmless"),
    ("eslint http://x", "'http://x' may not be harmless"),
    ("eslint src/.e*", "'src/.e*' may match files that contain secrets"),
    # Revisions.
    ("git diff HEAD..id_rsa", "'id_rsa' may contain secrets"),
    ("git diff HEAD...../x", "'/x' leaves the workspace"),
    ("git diff src/../../x", "'src/../../x' leaves the workspace"),
    ("git diff src/.e*", "'src/.e*' may match files that contain secrets"),
    ("git log -L 1,2:.env", "'.env' may contain secrets"),
    ("git log --format='%(signature)'", "'%(signature)' may run gpg"),
    (f"git diff a{':a' * 17}", f"'a{':a' * 17}' is a pathspec or a revision that is not known"),
    # Scripts.
    ("sed -n '1p\n' a", "'1p\\n' does more than print lines"),
    # Plain words.
    ("pytest -W -p", "'-p' is not a plain name"),
    ("tr src/* x", "'src/*' is a pattern of files"),
    ("which a/b", "'a/b' is not a plain name"),
    ("ls -I /etc", "'/etc' is not a pattern of names"),
    ("ls -I '~'", "'~' is not a pattern of names"),
    # What may be the value of an option, or a file.
    ("cut -f1 a -d /etc", "'-d' may come only before the operands"),
    ("uniq a -c", "'-c' may come only before the operands"),
    # More words from a file, wherever they are asked for.
    ("pytest -k @args", "'@args' hides arguments"),
    ("pytest -- @args", "'@args' hides arguments"),
    ("mypy --exclude @args", "'@args' hides arguments"),
    ("ruff check --select @args", "'@args' hides arguments"),
    # What a program without a table is told.
    ("eslint +x", "'+x' may not be harmless"),
    ("eslint @x", "'@x' may not be harmless"),
    ("eslint '!x'", "'!x' may not be harmless"),
    ("eslint 'a b'", "'a b' may not be harmless"),
    ("eslint 'a\nb'", "'a\\nb' may not be harmless"),
    ("eslint 'a;b'", "'a;b' may not be harmless"),
    ("eslint 'a`b'", "'a`b' may not be harmless"),
    ("eslint '$(b)'", "'$(b)' may not be harmless"),
    (
        "eslint sub/Dockerfile",
        "'sub/Dockerfile' is run or read by other programs, or contains secrets",
    ),
    (
        "eslint /ws/conftest.py",
        "'conftest.py' is run or read by other programs, or contains secrets",
    ),
    (
        "npm test package.json",
        "'package.json' is run or read by other programs, or contains secrets",
    ),
    # Letters that have no words to be their values, and words that are no letters.
    ("tar If x a.tar -t", "'If' is not a listing of an archive"),
    ("tar tfI a.tar x", "'tfI' is not a listing of an archive"),
    ("tar t* -f a", "'t*' is not a listing of an archive"),
    ("tree -Io x out", "'-o' is not a known option"),
    ("tree -LI 2", "'-I' needs a value"),
    ("tree -L2 3", "'-2' is not a known option"),
    ("diff --color=.env a b", "'.env' may contain secrets"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "reason"), ASKED)
def test_a_word_that_is_not_of_its_kind_asks_and_is_named(command, reason):
    found = check_command(command, CONTEXT)
    assert (found.decision, found.rule, found.reason) == ("ask", "default:other", reason)


ALLOWED = [
    "cat -",
    "cat /ws",
    "cat -",
    "ls -I '*.pyc'",
    "cut -d/ -f1 a",
    "uniq -c a",
    "pytest -k a@b",
    "eslint 'src/**/*.{js,ts}'",
    "eslint .",
    "eslint a:b",
    "tar vtzf a.tar b",
    "tree -aLI 2 x src",
    "tree -L 2 -- -o",
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
    "git diff a" + ":a" * 16,
    "git log --format=%H",
    "git log -L 1,2:src/a.py",
]


@pytest.mark.parametrize("command", ALLOWED)
def test_what_is_of_its_kind_needs_no_question(command):
    assert check_command(command, CONTEXT).decision == "allow"


def test_a_pattern_that_stands_for_what_others_run_asks_where_a_program_is_not_known():
    found = {"src/*.js": ["src/a.js", "src/jest.setup.js"], "docs/*.js": ["docs/a.js"]}
    look = replace(CONTEXT.conditions, matching=lambda pattern: found.get(pattern, ()))
    here = replace(CONTEXT, conditions=look)

    assert check_command("eslint docs/*.js", here).decision == "allow"
    assert check_command("cat src/*.js", here).decision == "allow"
    asked = check_command("eslint src/*.js", here)
    assert (
        asked.reason == "'src/jest.setup.js' is run or read by other programs, or contains secrets"
    )


VOUCHED = [
    # An option that a rule vouches for may have any of the words behind it for its value.
    ("grep --file", "grep --file /etc/passwd src", "'/etc/passwd' leaves the workspace"),
    (
        "sort -o",
        "sort -o Makefile a",
        "'Makefile' is run or read by other programs, or contains secrets",
    ),
    ("sort -o", "sort -o 'a b' c", "'a b' may not be harmless"),
    ("sort -o", "sort -T /x", "no rule allows 'sort'"),
    ("tar xf", "tar xf a.tar -C x", "'-C' is not a known option"),
    (
        "tar xf",
        "tar xf a.tar conftest.py",
        "'conftest.py' is run or read by other programs, or contains secrets",
    ),
    ("sed -i", "sed -i s/a/b/ x", "'s/a/b/' does more than print lines"),
    ("ruff check --fix", "ruff check --fix --add-noqa", "'--add-noqa' is not a known option"),
]


@pytest.mark.parametrize(("rule", "command", "reason"), VOUCHED)
def test_behind_an_option_that_no_table_knows_no_word_is_surely_of_its_kind(rule, command, reason):
    context = read_contexts({"A": {"allow": [rule]}})["A"]
    found = check_command(command, context)
    assert (found.decision, found.reason) == ("ask", reason)


@pytest.mark.parametrize(
    ("rule", "command"),
    [("sort -o", "sort -o a b"), ("find . -delete", "find . -delete"), ("tar xf", "tar xf a.tar b"),
     ("ruff check --fix", "ruff check --fix src"), ("sed -i", "sed -i p a")],
)  # fmt: skip
def test_what_a_rule_vouches_for_beyond_the_table_needs_the_sandbox(rule, command):
    context = read_contexts({"A": {"allow": [rule]}})["A"]
    plainly = replace(context, conditions=replace(context.conditions, sandboxed=False))
    limited = replace(context, conditions=replace(context.conditions, max_write_globs=("docs",)))
    program = command.split()[0]

    assert check_command(command, context).decision == "allow"
    assert check_command(command, plainly).decision == "ask"
    assert check_command(command, plainly).reason == (
        f"'{program}' runs the repository's code, and there is no sandbox"
    )
    assert check_command(command, limited).decision == "ask"
