"""A unified diff is read as it was meant and applied where it fits, or refused with the reason."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.errors import ToolFailed
from gonogo.tools.base import difference
from gonogo.tools.patch import Hunk, apply_hunks, parse_patch

ONE_SIDE = "a created file cannot have old lines, and a deleted file cannot have new ones"
OLD = "one\ntwo\nthree\nfour\nfive\n"


def patch(body: str, path: str = "f") -> str:
    return f"--- a/{path}\n+++ b/{path}\n{body}"


def applied(text: str, body: str) -> str:
    (file,) = parse_patch(patch(body))
    return apply_hunks("f", text, file.hunks).text


def refused(kind: str, why: str | None = None):
    return pytest.raises(ToolFailed, check=lambda failure: failure.kind == kind, match=why)


def test_a_line_is_replaced() -> None:
    assert applied(OLD, "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n") == OLD.replace("two", "2")


def test_two_hunks_use_the_numbers_of_the_old_file() -> None:
    body = "@@ -1 +1,2 @@\n-one\n+1\n+1.5\n@@ -5,1 +6,1 @@\n-five\n+5\n"

    assert applied(OLD, body) == "1\n1.5\ntwo\nthree\nfour\n5\n"


def test_lines_are_added_after_the_line_that_is_named() -> None:
    assert applied("a\nb\n", "@@ -1,0 +2,1 @@\n+x\n") == "a\nx\nb\n"


def test_a_hunk_with_a_wrong_number_fits_at_the_only_place() -> None:
    assert applied(OLD, "@@ -1,1 +1,1 @@\n-four\n+4\n") == OLD.replace("four", "4")


def test_a_hunk_that_fits_at_several_places_is_refused() -> None:
    why = "^'f' contains the old lines of hunk @@ -2 at 2 places, and none is where the hunk says$"
    with refused("not_unique", why):
        applied("a\nx\na\n", "@@ -2,1 +2,1 @@\n-a\n+b\n")


def test_a_hunk_that_fits_nowhere_is_refused() -> None:
    with refused("not_found_in_file", "^'f' does not contain the old lines of hunk @@ -1$"):
        applied(OLD, "@@ -1,1 +1,1 @@\n-uno\n+1\n")


def test_lines_cannot_be_added_after_a_line_that_is_not_there() -> None:
    assert applied(OLD, "@@ -5,0 +6,1 @@\n+six\n") == OLD + "six\n"
    with refused("not_found_in_file", "^'f' has no line 6 to add after$"):
        applied(OLD, "@@ -6,0 +7,1 @@\n+seven\n")


def test_a_missing_line_end_is_kept_and_can_be_mended() -> None:
    mark = "\\ No newline at end of file\n"

    assert applied("a\nb", f"@@ -1,2 +1,2 @@\n-a\n+A\n b\n{mark}") == "A\nb"
    assert applied("a\nb", f"@@ -2,1 +2,1 @@\n-b\n{mark}+b\n") == "a\nb\n"
    assert applied("a\nb\n", f"@@ -2,1 +2,1 @@\n-b\n+b\n{mark}") == "a\nb"


def test_files_are_created_and_deleted_and_git_headers_are_understood() -> None:
    text = (
        "diff --git a/new.txt b/new.txt\nnew file mode 100644\nindex 000..111\n"
        "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hi\n"
        "diff --git a/old.txt b/old.txt\ndeleted file mode 100644\n"
        "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n"
    )

    created, deleted = parse_patch(text)

    assert (created.path, created.creates, created.deletes) == ("new.txt", True, False)
    assert (deleted.path, deleted.creates, deleted.deletes) == ("old.txt", False, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "The patch changes nothing: it has no `---` line"),
        ("just words\n", "The patch changes nothing: it has no `---` line"),
        ("--- a/f\n", "The patch ends in the middle of a file"),
        ("--- a/f\n+++ b/f\n", "Line 2 of the patch: this file has no hunk"),
        (
            "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
            "Line 5 of the patch: the two names differ: renames are not supported",
        ),
        (
            "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n",
            "Line 5 of the patch: the two names differ: renames are not supported",
        ),
        ("--- a/f\n+++ b/f\n@@ -1,2 +1,1 @@\n", "The patch ends in the middle of a file"),
        (
            "--- a/f\n+++ b/f\n@@ -1,2 +1,1 @@\n+b\n",
            "Line 4 of the patch: no line of this hunk says where in the file it belongs",
        ),
        (
            "--- a/f\n+++ b/f\n@@ @@\n+b\n",
            "Line 4 of the patch: no line of this hunk says where in the file it belongs",
        ),
        (
            "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+c\nd\n",
            "Line 7 of the patch: each line of a hunk must begin with a space, `-`, `+` or a "
            "backslash",
        ),
        (
            "--- a/f\n+++ b/f\n@@ nonsense @@\n-a\n+b\n",
            "Line 3 of the patch: a hunk header must have the form `@@ -1,2 +1,2 @@`",
        ),
        (
            "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n*a\n",
            "Line 4 of the patch: each line of a hunk must begin with a space, `-`, `+` or a "
            "backslash",
        ),
        (
            "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
            "The patch names a file twice",
        ),
        (
            "@@ -1 +1 @@\n-a\n+b\n",
            "Line 1 of the patch: the `---` and `+++` lines of this hunk's file are missing",
        ),
        (
            "diff --git a/f b/g\nrename from f\nrename to g\n",
            "Line 2 of the patch: renames, copies, modes and binary files are not supported",
        ),
        (
            "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
            "Line 2 of the patch: renames, copies, modes and binary files are not supported",
        ),
        (
            "diff --git a/f b/f\nnew file mode 100644\n",
            "Line 2 of the patch: the last file has no hunk",
        ),
        (
            "diff --git a/f b/f\nBinary files a/f and b/f differ\n",
            "Line 2 of the patch: renames, copies, modes and binary files are not supported",
        ),
        (
            "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n",
            "Line 2 of the patch: renames, copies, modes and binary files are not supported",
        ),
        (
            "diff --git a/f b/f\nnew file mode 160000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n",
            "Line 2 of the patch: renames, copies, modes and binary files are not supported",
        ),
        (
            '--- "a/\\321\\204"\n+++ "b/\\321\\204"\n@@ -1 +1 @@\n-a\n+b\n',
            "The patch has a name that is not plain: '--- \"a/\\\\321\\\\204\"'",
        ),
        (
            "--- /dev/null\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
            f"Line 5 of the patch: {ONE_SIDE}",
        ),
        (
            "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\nindex 1\n+++ b/g\n",
            "Line 7 of the patch: the `---` and `+++` lines of this hunk's file are missing",
        ),
        (
            "diff --git a/f b/f\ndiff --git a/g b/g\n",
            "Line 2 of the patch: the file before it has no hunk",
        ),
        ("--- a/f\nwords\n", "Line 2 of the patch: a `+++` line must follow the `---` line"),
        ("--- \n+++ b/f\n", "The patch has a name that is not plain: '--- '"),
        (
            "--- a/f\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n",
            f"Line 5 of the patch: {ONE_SIDE}",
        ),
        (
            "copy from\n",
            "Line 1 of the patch: renames, copies, modes and binary files are not supported",
        ),
        (
            "similarity index\n",
            "Line 1 of the patch: renames, copies, modes and binary files are not supported",
        ),
        (
            "new mode 1\n",
            "Line 1 of the patch: renames, copies, modes and binary files are not supported",
        ),
        (
            "GIT binary\n",
            "Line 1 of the patch: renames, copies, modes and binary files are not supported",
        ),
    ],
)
def test_a_patch_with_a_defect_is_refused_with_the_line_of_it(text: str, said: str) -> None:
    with pytest.raises(ToolFailed) as refused:
        parse_patch(text)
    assert (refused.value.kind, str(refused.value)) == ("invalid_arguments", said)


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("a/f", "b/f", "f"),
        ("f", "f", "f"),
        ("a/a/f", "b/a/f", "a/f"),
        ("a/f", "a/f", "a/f"),
        ("a/f\t2026-01-01 10:00", "b/f\t2026-01-02 10:00", "f"),
        ("a/f \r", "b/f\r", "f"),
        ("/dev/null", "b/f", "f"),
        ("/dev/null", "f", "f"),
        ("a/b/f", "/dev/null", "b/f"),
    ],
)
def test_a_file_is_named_as_git_or_diff_name_it(old: str, new: str, path: str) -> None:
    old_lines, new_lines = old != "/dev/null", new != "/dev/null"
    body = f"@@ -1,{int(old_lines)} +1,{int(new_lines)} @@\n"
    text = f"--- {old}\n+++ {new}\n{body}" + "-a\n" * old_lines + "+b\n" * new_lines
    (file,) = parse_patch(text)

    assert (file.path, file.creates, file.deletes) == (path, not old_lines, not new_lines)


def test_a_hunk_is_read_line_by_line() -> None:
    body = "@@ -7,3 +8,2 @@ def f\n-a\n\n-\n+\n@@ -20 +18,0 @@\n-z\n\\ No newline at end of file\n"
    (file,) = parse_patch(f"words\nindex 0..1\n{patch(body)}-- \n2.40\n")

    assert file.hunks == (
        Hunk(7, ("a\n", "\n", "\n"), ("\n", "\n")),
        Hunk(20, ("z",), ()),
    )


@pytest.mark.feature(228)
@pytest.mark.parametrize(
    "header",
    ["1,9 +1,9", "1,1 +1,1", "1,2 +1,3", "9 +9", "1,3 +1,2", "1,5 +1,4"],
)
def test_a_header_that_counts_wrong_is_a_hint_and_its_lines_are_what_counts(header: str) -> None:
    body = f"@@ -{header} @@\n one\n-two\n+2\n three\n"
    meant = OLD.replace("two", "2")

    assert applied(OLD, body) == meant
    assert applied(OLD, f"{body}\n\n") == meant
    assert applied(OLD, f"{body}-- \n2.40\n") == meant
    assert applied(OLD, f"{body}@@ -4,9 +4,9 @@\n-four\n+4\n") == meant.replace("four", "4")
    first, second = parse_patch(patch(body) + patch(body, "g"))
    assert (first.hunks, first.path, second.path) == (second.hunks, "f", "g")


@pytest.mark.feature(228)
def test_a_hunk_without_numbers_is_where_its_lines_are_and_nowhere_else() -> None:
    for header in ("@@", "@@ @@", "@@ ... @@"):
        assert applied(OLD, f"{header}\n one\n-two\n+2\n") == OLD.replace("two", "2")
        with refused("not_unique"):
            applied("a\nx\na\n", f"{header}\n-a\n+b\n")


def test_lines_that_look_like_names_of_files_are_lines_where_a_header_counts_them() -> None:
    body = "@@ -1,2 +1,2 @@\n--- a\n+++ b\n x\n"
    assert applied("-- a\nx\n", body) == "++ b\nx\n"


def test_hunks_stand_one_after_the_other_and_none_before_the_last() -> None:
    body = "@@ -2 +2 @@\n-two\n+2\n@@ -1 +1 @@\n-one\n+1\n"
    why = r"^'f' does not contain the old lines of hunk @@ -1; similar lines: 1; read the file ag"
    with refused("not_found_in_file", why):
        applied("one\ntwo\n", body)
    assert applied("one\ntwo\none\n", body) == "one\n2\n1\n"
    loose = "@@ -2 +2 @@\n-two\n+2\n@@ -9 +9 @@\n-one \n+1\n"
    assert applied(" one\ntwo\n one\n", loose) == " one\n2\n 1\n"


LINES = st.lists(
    st.sampled_from(["a", "b", "c", "", " x", "-y", "+z", "é", "--- q", "@@"]), max_size=12
)
TEXT = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


@given(before=TEXT, after=TEXT, context=st.integers(0, 3))
def test_any_difference_that_is_shown_applies_to_give_the_other_text(
    before: str, after: str, context: int
) -> None:
    if before == after:
        return
    shown = difference("f", before.encode(), after.encode())
    bare = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(ended(before), ended(after), "a/f", "b/f", n=context)
    )

    for text in (shown, bare):
        (file,) = parse_patch(text)
        assert apply_hunks("f", before, file.hunks).text == after


def ended(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1].removesuffix("\n")
    return lines if lines[-1] else lines[:-1]


@given(text=st.text(alphabet="-+@ \\ab/\n0123,", max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        parse_patch(text)
    except ToolFailed as failure:
        assert failure.kind == "invalid_arguments"  # noqa: PT017 - most texts are refused
