"""What file tools are told where they are refused: the whole sentence, with what it is about."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gonogo.domain.base import content_hash
from gonogo.domain.errors import ToolFailed
from gonogo.workspace import Query, Workspace, elsewhere, matching_lines
from gonogo.workspace.files import search
from gonogo.workspace.files.safe_open import join, split, told
from gonogo.workspace.files.search import compile_glob, printable

Attempt = Callable[[Workspace], object]
BELOW_FILE = "'f/x' has a file where a folder is needed"
LINES = "A pattern is one line of 1 to 2000 characters"
MISLEADS = "The name {!a} has characters that mislead readers"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "ws"
    (root / "d").mkdir(parents=True)
    (root / "f").write_text("one\n")
    (root / "second").write_text("two\n")
    os.link(root / "second", root / "d/hard")
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to("f")
    (root / "to-d").symlink_to("d")
    (root / "out").symlink_to("/etc")
    (root / "up").symlink_to("../..")
    (root / "round").symlink_to("round")
    return Workspace(root)


def refusal(attempt: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(ToolFailed) as refused:
        attempt()
    return refused.value.kind, str(refused.value)


@pytest.mark.parametrize(
    ("attempt", "kind", "said"),
    [
        (lambda w: w.read("none"), "file_not_found", "'none' does not exist"),
        (lambda w: w.read("f/x"), "not_a_regular_file", BELOW_FILE),
        (lambda w: w.read("pipe"), "not_a_regular_file", "'pipe' is not a regular file"),
        (lambda w: w.read("d"), "not_a_regular_file", "'d' is not a regular file"),
        (lambda w: w.read("d/"), "not_a_regular_file", "'d/' names a folder"),
        (lambda w: w.read("."), "not_a_regular_file", "'.' names a folder"),
        (lambda w: w.read("d/hard"), "hardlink",
         "'d/hard' has a second name, perhaps outside the workspace"),
        (lambda w: w.read("f", limit=3), "too_large", "'f' has more than 3 bytes"),
        (lambda w: w.read("link", follow=False), "symlink_escape",
         "'link' goes through a symbolic link"),
        (lambda w: w.read("out/passwd"), "symlink_escape",
         "The link 'out' leads out of the workspace"),
        (lambda w: w.read("up/x"), "symlink_escape", "A link leads out of the workspace"),
        (lambda w: w.read("round"), "symlink_escape", "The link 'round' goes in circles"),
        (lambda w: w.read("to-d/../f"), "symlink_escape",
         "'to-d' is a link: no `..` may follow it"),
        (lambda w: w.write("./.git/x", b"", base=None), "protected_path",
         "'.git/x' is protected: tools never change it"),
        (lambda w: w.write(".", b"", base=None), "not_a_regular_file",
         "The root of the workspace cannot be changed"),
        (lambda w: w.write("f", b"", base=None), "changed_since_approval",
         "'f' was created after it was approved"),
        (lambda w: w.write("f", b"", base="sha256:0"), "changed_since_approval",
         "'f' has changed since it was approved"),
        (lambda w: w.write("none", b"", base="sha256:0"), "changed_since_approval",
         "'none' was deleted after it was approved"),
        (lambda w: w.delete("none", base="any"), "file_not_found", "'none' does not exist"),
        (lambda w: w.delete("none", base="sha256:0"), "changed_since_approval",
         "'none' was deleted after it was approved"),
        (lambda w: w.move("f", "link", base="any"), "file_exists", "'link' already exists"),
        (lambda w: w.move("none", "x", base="any"), "file_not_found", "'none' does not exist"),
        (lambda w: w.mkdir("f"), "not_a_regular_file", "'f' has a file where a folder is needed"),
        (lambda w: w.list("f", depth=1, limit=1), "not_a_regular_file",
         "'f' has a file where a folder is needed"),
        (lambda w: w.stat("f/x"), "not_a_regular_file", BELOW_FILE),
        (lambda w: w.hash("link"), "symlink_escape", "'link' goes through a symbolic link"),
        (lambda w: w.search(Query(pattern="")), "invalid_arguments", LINES),
        (lambda w: w.search(Query(pattern="a\nb")), "invalid_arguments", LINES),
        (lambda w: w.search(Query(pattern="(")), "invalid_arguments",
         "The pattern cannot be read: missing ), unterminated subpattern at position 0"),
        (lambda w: w.search(Query(pattern="x"), path="pipe"), "not_a_regular_file",
         "'pipe' is not a regular file"),
        (lambda w: w.search(Query(pattern="x"), path="d/hard"), "hardlink",
         "'d/hard' has a second name, perhaps outside the workspace"),
        (lambda w: w.normal(""), "not_a_regular_file", "The path is empty"),
        (lambda w: w.normal("x" * 4097), "bad_path", "A path has at most 4096 characters"),
        (lambda w: w.normal("../x"), "path_outside_workspace", "'../x' leads out of the workspace"),
        (lambda w: w.normal("/dev/null"), "not_a_regular_file",
         "'/dev/null' is not a file of the workspace"),
        (lambda w: w.normal("/proc/self/mem"), "not_a_regular_file",
         "'/proc/self/mem' is not a file of the workspace"),
        (lambda w: w.normal("/sys"), "not_a_regular_file", "'/sys' is not a file of the workspace"),
        (lambda w: w.normal("/"), "path_outside_workspace", "'/' is outside the workspace"),
        (lambda w: w.normal("/etc/passwd"), "path_outside_workspace",
         "'/etc/passwd' is outside the workspace"),
        (lambda w: w.normal("a/b\tc"), "bad_path", MISLEADS.format("b\tc")),
        (lambda w: w.normal("a\u202eb"), "bad_path", MISLEADS.format("a\u202eb")),
        (lambda w: w.normal("d/" * 100 + "x"), "bad_path", "A path has at most 100 levels"),
        (lambda w: w.normal("é" * 128), "bad_path", "A name has at most 255 bytes"),
        (lambda w: w.normal("a::$DATA"), "bad_path",
         "The name 'a::$DATA' is an alias of another file"),
    ],
)  # fmt: skip
def test_who_is_refused_is_told_why(
    workspace: Workspace, attempt: Attempt, kind: str, said: str
) -> None:
    assert refusal(lambda: attempt(workspace)) == (kind, said)


def test_what_is_at_the_limit_is_still_a_path(workspace: Workspace) -> None:
    longest = "/".join(["a" * 250] * 16 + ["b" * 80])
    assert len(longest) == 4096
    for path in (longest, "d/" * 99 + "x", "x" * 255, "é" * 127 + "x", "a::b", "a:$DATA"):
        assert workspace.normal(path) == path


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (OSError(2, "No such file"), "file_not_found", "'p' does not exist"),
        (OSError(18, "Cross-device"), "symlink_escape", "'p' leads out of the workspace"),
        (OSError(40, "Too many"), "symlink_escape", "'p' goes through a symbolic link"),
        (OSError(21, "Is"), "not_a_regular_file", "'p' is a folder"),
        (OSError(6, "No device"), "not_a_regular_file", "'p' is not a regular file"),
        (OSError(19, "No device"), "not_a_regular_file", "'p' is not a regular file"),
        (OSError(36, "Long"), "bad_path", "'p' is too long"),
        (OSError(28, "No space left"), "io_error", "'p': No space left"),
        (OSError("odd"), "io_error", "'p': odd"),
    ],
)
def test_what_the_system_says_is_told_in_words(error: OSError, kind: str, said: str) -> None:
    def fails() -> None:
        with told("p"):
            raise error

    assert refusal(fails) == (kind, said)


@pytest.mark.parametrize(
    ("glob", "kind", "said"),
    [
        ("", "invalid_arguments", "'' is not a glob of files to search"),
        ("!x", "invalid_arguments", "'!x' is not a glob of files to search"),
        ("a\u200b", "invalid_arguments", "'a\\u200b' is not a glob of files to search"),
        ("/x", "path_outside_workspace", "The glob '/x' leads out of the workspace"),
        ("a/..", "path_outside_workspace", "The glob 'a/..' leads out of the workspace"),
        ("{a", "invalid_arguments", "The braces of '{a' do not match"),
        ("a}", "invalid_arguments", "The braces of 'a}' do not match"),
        ("{" * 9 + "}" * 9, "invalid_arguments",
         "The braces of '{{{{{{{{{}}}}}}}}}' do not match"),
        *((glob, "invalid_arguments",
           f"The glob {glob!r} has too many wildcards; use a simpler one")
          for glob in ("*a*a*a*b", "x/{*a*,*b*}", "**/a/**/b/**/c/**/d", "{a,aa}" * 13)),
        ("[z-a]", "invalid_arguments",
         "The glob '[z-a]' cannot be read: bad character range z-a at position 14"),
    ],
)  # fmt: skip
def test_a_glob_that_cannot_be_used_is_told(glob: str, kind: str, said: str) -> None:
    assert refusal(lambda: compile_glob(glob)) == (kind, said)


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.py", ["a.py", "x/a.py", ".py"], ["a.pyc", "a.py/x"]),
        ("x/*.py", ["x/a.py"], ["a.py", "y/x/a.py", "x/y/a.py"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["xa", "a/x"]),
        ("**/" * 200 + "a", ["a", "x/a", "x/y/a"], ["xa", "b/" * 200 + "x"]),
        ("a/" + "*" * 200 + "b", ["a/b", "a/x/b"], ["a/" + "a" * 200]),
        ("x/**", ["x/a", "x/y/a"], ["x", "y"]),
        ("a?c", ["abc", "x/a.c"], ["ac", "a/c"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "x"]),
        ("[!a-c]x", ["dx", "^x"], ["ax", "/x"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]a]x", ["]x", "ax"], ["bx"]),
        ("[a&&b~|]x", ["&x", "|x", "~x"], ["cx"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"], ["b", "ab", "a,b"]),
        ("a,b", ["a,b"], ["a", "b"]),
        (r"\*", ["*"], ["a", r"\*"]),
        ("a.b", ["a.b"], ["axb"]),
        ("[ab", ["[ab"], ["a"]),
        ("{" * 8 + "a" + "}" * 8, ["a"], []),
    ],
)
def test_a_glob_is_read_as_gitignore_reads_it(glob: str, yes: list[str], no: list[str]) -> None:
    pattern = compile_glob(glob)

    assert [path for path in (*yes, *no) if pattern.fullmatch(path)] == yes


@pytest.mark.parametrize("path", ["~/x", "C:x", "c:/x", "a\\b", "x/\\y"])
def test_a_path_that_some_systems_read_otherwise_is_none_elsewhere(path: str) -> None:
    assert elsewhere("a/./b/../c~") == "a/c~"
    assert refusal(lambda: elsewhere(path)) == (
        "bad_path", f"{path!r} means different files on different systems",
    )  # fmt: skip


def test_a_path_is_taken_apart_below_its_root() -> None:
    assert split("/a/b/c/../d", "/a/b") == ("c", "..", "d")
    assert split("/a/b", "/a/b") == ()
    assert (join(("a", "..", "b")), join(())) == ("b", ".")


def test_lines_are_found_in_given_text_by_their_numbers() -> None:
    assert matching_lines(["ab", "b", "äb", "\ud800"], "^.b$") == [1, 3]
    assert matching_lines([], "x") == []
    assert refusal(lambda: matching_lines(["a"], "(")) == (
        "invalid_arguments",
        "The pattern cannot be read: missing ), unterminated subpattern at position 0",
    )


def test_a_search_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "TIME_LIMIT", 0.3)

    assert refusal(lambda: matching_lines(["a" * 60 + "!"], "(a+)+$")) == (
        "timeout", "The search took too long: narrow the path or the pattern",
    )  # fmt: skip


def test_an_engine_that_ends_by_itself_is_told() -> None:
    with search._running(["true"], Path("/"), 30) as engine:
        assert refusal(engine.answer) == ("io_error", "The search ended unexpectedly")


def test_a_change_of_nothing_is_none(workspace: Workspace) -> None:
    before = (workspace.root / "f").stat().st_ino
    workspace.write("f", b"one\n", base=content_hash(b"one\n"))

    assert (workspace.root / "f").stat().st_ino == before
    assert printable("a\udcff") == "a\ufffd"


def test_a_chain_of_links_is_followed_up_to_its_fortieth(workspace: Workspace) -> None:
    for number in range(41):
        (workspace.root / f"l{number}").symlink_to(f"l{number - 1}" if number else "f")

    assert workspace.read("l39") == b"one\n"
    assert refusal(lambda: workspace.read("l40")) == (
        "symlink_escape", "The link 'l0' goes in circles",
    )  # fmt: skip


def test_a_file_of_up_to_eight_mebibytes_is_read(workspace: Workspace) -> None:
    big = workspace.root / "big"
    big.touch()
    os.truncate(big, 8 << 20)
    assert len(workspace.read("big")) == 8 << 20
    os.truncate(big, (8 << 20) + 1)
    assert refusal(lambda: workspace.read("big")) == (
        "too_large", "'big' has more than 8388608 bytes",
    )  # fmt: skip
