"""What a check makes of what is known: what nobody knows does not hold."""

from types import SimpleNamespace

import pytest

from gonogo.domain.checks import DoneCheck
from gonogo.domain.errors import ToolFailed
from gonogo.execution.plans.checks import Checks, left_alone

GLOBS = ("docs/**", "*.md")
CHECK = DoneCheck(unchanged=GLOBS)
SAME = {"hash": "a", "blob": "a"}


def seen(*changed, unknown=False):
    changes = [(path, None, SAME) for path in changed]
    if unknown:
        changes.append((".", None, {"unknown": "too many files"}))
    found = left_alone(CHECK, GLOBS, changes)
    return found.holds, found.seen


@pytest.mark.feature(225)
def test_files_that_were_to_be_left_alone_are_named_as_far_as_anybody_reads_them():
    assert seen() == (True, "unchanged")
    assert seen("src/a.py", "src/docs.py") == (True, "unchanged")
    assert seen("docs/a/b.py", "src/a.py") == (False, "changed: docs/a/b.py")
    many = [f"docs/{n:02}" for n in range(12)]
    assert seen(*many) == (False, f"changed: {', '.join(many[:10])}, … 2 more")


@pytest.mark.feature(225)
def test_what_nobody_knows_was_not_left_alone():
    assert seen(unknown=True) == (False, "what a command changed is not known")
    assert seen("docs/a", unknown=True) == (False, "changed: docs/a")


def test_a_model_is_shown_what_is_known_and_no_more_than_fits():
    kept = {"a": b"one\n", "b": b"two\n", "long": b"x\n" * 20_000}

    def read(blob):
        if blob not in kept:
            raise ToolFailed("io_error", "gone")
        return kept[blob]

    snapshots = SimpleNamespace(read=read)
    checks = Checks(tools=None, traces=SimpleNamespace(snapshots=snapshots))

    def diff(*changes):
        return checks._diff([(path, _state(old), _state(new)) for path, old, new in changes])

    assert "-one\n+two\n" in diff(("x.py", "a", "b"))
    assert diff(("x.py", "a", "gone")) == "x.py: changed; nobody knows how\n"
    assert diff(("id_rsa", "a", "b")) == "id_rsa: changed; what it holds may be secret\n"
    assert "nobody knows how" in checks._diff([(".", None, {"unknown": "x"})])
    assert "y.py" not in diff(("x.py", None, "long"), ("y.py", "a", "b"))


def _state(blob):
    return None if blob is None else {"hash": blob, "blob": blob}
