"""Commands are read completely or not at all, and written again with the same meaning."""

import shlex
import subprocess
from shutil import which

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gonogo.domain.paths import doubtful, spoofing
from gonogo.policy import ParsedCommand, Unparsed, check_command, parse_command, read_contexts
from gonogo.policy.shell import MAX_LENGTH

CONTEXT = read_contexts(
    {"A": {"allow": ["ls", "cat", "grep", "rg", "diff", "git status", "git diff"]}}
)["A"]
STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}

VISIBLE = st.characters(codec="utf-8", exclude_categories=("C", "Z"))
WORD = st.text(VISIBLE, max_size=12).filter(lambda text: not (spoofing(text) or doubtful(text)))
ANY_WORD = st.one_of(WORD, st.text(st.sampled_from("ab '\"\\$`!*?[]{}~#=-;|&<>()\n\t"), max_size=8))
PART = st.sampled_from(
    """ls;ls -la;cat a.txt;cat .env;cat /etc/passwd;grep -n x a;rm -rf /;rm x;curl x;echo $(id);
    git status;git push;ls 2>/dev/null;git -c a=b status;cat src/*.py;id;sudo ls""".split(";")
).map(str.strip)


def _quoted(word):
    """As `shlex.quote` does, but always: the reader does not know a bare `==`."""
    return "'" + word.replace("'", "'\\''") + "'"


def _parts(text):
    command = parse_command(text)
    assert isinstance(command, ParsedCommand), command
    return [part.argv for part in command.parts]


def test_a_compound_command_is_read_part_by_part():
    command = parse_command("ls -l && ! grep -q x a | cat\n# note\npwd; true 2>&1 > /dev/null")
    assert isinstance(command, ParsedCommand)
    assert [part.joined_by for part in command.parts] == ["", "&&", "|", ";", ";"]
    assert command.parts[1].negated
    assert command.render() == "ls -l && ! grep -q x a | cat; pwd; true 2>&1 >/dev/null"


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("echo 'O'\"'\"'Brien'", ("echo", "O'Brien")),
        ('echo "a \\"b\\" \\$c \\n"', ("echo", 'a "b" $c \\n')),
        ("echo a\\ b", ("echo", "a b")),
        ('echo "a\\\nb"', ("echo", "ab")),
        ("echo ''", ("echo", "")),
        ("ls \\\n -l", ("ls", "-l")),
        ("e'ch'o a#b {} @{u} HEAD~1", ("echo", "a#b", "{}", "@{u}", "HEAD~1")),
        ("grep --include=*.py x", ("grep", "--include=*.py", "x")),
    ],
)
def test_words_are_read_as_bash_reads_them(text, argv):
    assert _parts(text) == [argv]


def test_a_glob_stays_a_glob_behind_its_literal_start():
    command = parse_command("ls 'my dir'/*.py src/[a-z]?.c")
    assert isinstance(command, ParsedCommand)
    assert command.render() == "ls 'my dir/'*.py src/[a-z]?.c"
    assert command.parts[0].words[1].is_glob


@pytest.mark.parametrize(
    "text",
    [
        "ls &", "ls |& cat", "a=1 ls", "(ls)", "{ ls; }", "ls $x", "ls `x`", "ls <(x)", "ls < x",
        "ls > x", "ls <<< x", "ls &&", "ls;;ls", "if a; then b; fi", "a() { b; }", "[[ a ]]",
        "export A=1", "ls 'x", "ls \"x", "echo $'x'", 'echo $"x"', "ls ~", "ls a{1..2}", "ls *.py",
        "ls\\", "ls a\\\nb", "ls 3>/dev/null", "ls | ! cat", "ls >/dev/null -l",
        "echo a\\\n#b", "ls\\\n 2>/dev/null", "ls\\\n#x", "ls |\\\ncat", "!\\\nls", "!''ls",
        '!"ls"', "ls 0>/dev/null", "ls x2>/dev/null", "ls 2\\\n>/dev/null", "ls {fd}>/dev/null",
        "ls é1>&2", "ls -*", "ls -[a]x", "ls --*=x", "ls --[a]=x",
        'ls 1\\\t"y"', "\\\t=\n",
        "\x00", "ls \u200b", "ls\u00a0", "x" * 9_000, "true;" * 40,
    ],
)  # fmt: skip
def test_what_is_outside_the_grammar_is_not_understood(text):
    assert isinstance(parse_command(text), Unparsed)


@given(st.lists(ANY_WORD, min_size=1, max_size=6))
@example(["if"])
@example(["a=b", "!"])
@example(["=="])
def test_rendered_words_are_the_same_words_to_another_reader(words):
    command = parse_command(" ".join(["echo", *map(_quoted, words)]))
    assert isinstance(command, ParsedCommand), command
    assert command.parts[0].argv == ("echo", *words)
    assert shlex.split(command.render()) == ["echo", *words]


@settings(max_examples=40, deadline=None)
@given(st.lists(ANY_WORD, min_size=1, max_size=6))
def test_rendered_words_are_the_same_words_to_bash(words):
    command = parse_command(" ".join(["printf", "'%s\\0'", *map(_quoted, words)]))
    assert isinstance(command, ParsedCommand), command
    shell = ["bash", "--noprofile", "--norc", "-c", command.render()]
    done = subprocess.run(
        shell, capture_output=True, timeout=60, check=True, stdin=subprocess.DEVNULL
    )
    assert done.stdout.decode().split("\0")[:-1] == words


@given(st.text(st.sampled_from("ab /.-_'\"\\$`!*?[]{}~#=;|&<>()\n\t2>&1"), max_size=30))
def test_a_rendered_command_reads_as_itself(text):
    command = parse_command(text)
    if isinstance(command, Unparsed) or not command.parts:
        return
    again = parse_command(command.render())
    assert isinstance(again, ParsedCommand), (command.render(), again)
    assert again.render() == command.render()
    assert [part.argv for part in again.parts] == [part.argv for part in command.parts]


@example([("ls", " | "), ("ls", " | "), ("ls", "\n"), ("rm -rf /", " && "), ("ls", "")])
@given(st.lists(st.tuples(PART, st.sampled_from([" && ", " || ", "; ", " | ", "\n"])), min_size=1))
def test_a_compound_is_never_more_allowed_than_its_strictest_part(parts):
    whole = "".join(part + operator for part, operator in parts[:-1]) + parts[-1][0]
    strictest = max(STRICTNESS[check_command(part, CONTEXT).decision] for part, _ in parts)
    assert STRICTNESS[check_command(whole, CONTEXT).decision] >= strictest


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text):
    verdict = check_command(text, CONTEXT)
    assert verdict.decision == "allow" or verdict.run_as is None


@pytest.mark.parametrize(
    "text",
    [
        "\u00ae\u00bc\u00c3Q\U000b0049(\u00c0\u00fd\u00ba{3\U000a308e\u00fc:",
        "{\U000a308e",
        "ls \U000b0049{",
    ],
)
def test_a_sign_of_any_plane_is_a_letter_and_does_not_end_the_process(text):
    for _ in range(50):
        assert check_command(text, CONTEXT).decision != "allow"
    assert check_command("ls \U0001f600", CONTEXT).run_as == "ls '\U0001f600'"


@pytest.mark.parametrize(
    ("command", "run_as"),
    [
        ("grep -r -e -- .", "grep -r -e -- . {}"),
        ("grep -re -- -- .", "grep -re -- {} -- ."),
        ("grep -r --include -- x -- -a", "grep -r --include -- x {} -- -a"),
        ("diff -r -x -- a b", "diff -r -x -- a b {}"),
        ("diff -x -- -- a b", "diff -x -- {} -- a b"),
        ("rg -e -- src", "rg --no-config -e -- src {}"),
        ("rg -g -- -- x", "rg --no-config -g -- {} -- x"),
    ],
)
def test_the_guards_stand_before_the_terminator_and_not_before_a_value_that_looks_like_it(
    command, run_as
):
    found = check_command(command, CONTEXT).run_as or ""
    before, after = run_as.split("{}")
    guards = found.removeprefix(before).removesuffix(after)
    assert (found.startswith(before), found.endswith(after)) == (True, True)
    assert all(word.startswith(("--exclude", "--iglob", "--no-dereference"))
               for word in shlex.split(guards))  # fmt: skip
    assert len(shlex.split(guards)) > 15


def test_what_runs_is_hardened():
    lint = read_contexts({"A": {"allow": ["ruff check", "ruff check --fix"]}})["A"]
    told = "ruff check --no-fix --no-fix-only --no-cache"
    assert check_command("ruff check src", lint).run_as == f"{told} src"
    assert check_command("ruff check --no-fix -q", lint).run_as == (
        "ruff check --no-fix-only --no-cache --no-fix -q"
    )
    assert check_command("ruff check --fix src", lint).run_as == "ruff check --fix src"
    assert "--no-max-parents" in (check_command("git diff a b", CONTEXT).run_as or "")
    assert (check_command("git status", CONTEXT).run_as or "").startswith("git --no-pager")
    assert "core.fsmonitor=false" in (check_command("git status", CONTEXT).run_as or "")
    recursive = check_command("! grep -rn KEY -- . 2>/dev/null", CONTEXT).run_as or ""
    assert recursive.startswith("! grep -rn KEY '--exclude='{'.[eE][nN][vV]',")
    assert recursive.endswith("-- . 2>/dev/null")
    assert (check_command("diff -r a b", CONTEXT).run_as or "").startswith("diff -r a b --no-deref")
    assert check_command("grep -n KEY a", CONTEXT).run_as == "grep -n KEY a"
    assert "'--iglob=!'{.env," in (check_command("rg KEY", CONTEXT).run_as or "")


@pytest.mark.parametrize(
    ("command", "run_as"),
    [
        ("grep -R x a", "grep -r x a"),
        ("grep -nRi x a", "grep -nri x a"),
        ("grep -RR -e R a", "grep -rr -e R a"),
        ("grep -iReR a", "grep -ireR a"),
        ("grep --dereference-recursive x a", "grep --recursive x a"),
    ],
)
def test_a_recursive_search_does_not_follow_links(command, run_as):
    assert (check_command(command, CONTEXT).run_as or "").startswith(run_as + " '--exclude='{")


@pytest.mark.parametrize("command", ["grep -r KEY .", "grep -R KEY .", "rg KEY ."])
def test_a_recursive_search_does_not_show_secrets(tmp_path, command):
    if which(command.split()[0]) is None:
        pytest.skip("it is not installed here")
    seen = ("src/a.py", "notes 2", "Copy of x", "b.bak", "c.py~", "#d#", "e (copy).json")
    secret = (
        ".env",
        "server.pem",
        "secrets/db",
        "ID_RSA (Copy)",
        "secrets (copy).json",
        "x.KEY~",
        "new\nline.key",
        "\udcff.pem",
        "\udcff.pem (copy)",
        "new\nline.env.bak",
    )
    for name in (*secret, *seen):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("KEY\n")
    (tmp_path / "link").symlink_to(".env")
    run_as = check_command(command, CONTEXT).run_as
    shell = ["bash", "--noprofile", "--norc", "-c", run_as]
    done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert sorted(done.stdout.splitlines()) == sorted(f"./{name}:KEY" for name in seen)


def test_a_command_that_is_too_long_is_told_how_long_it_may_be():
    assert isinstance(parse_command("echo " + "x" * (MAX_LENGTH - 5)), ParsedCommand)
    found = parse_command("echo " + "x" * (MAX_LENGTH - 4))
    assert isinstance(found, Unparsed)
    assert found.reason == f"longer than {MAX_LENGTH} characters"
