"""What a check makes of what is known: what nobody knows does not hold."""

from types import SimpleNamespace

import pytest

from fakes import rows
from gonogo.domain.checks import DoneCheck
from gonogo.domain.errors import InvalidArguments, ToolFailed
from gonogo.domain.failures import Category, Failure, Patterns
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import Reply
from gonogo.execution.plans.checks import (
    CallSeen,
    Checks,
    CheckSeen,
    ToolStep,
    _asks_once,
    _lacking,
    contradiction,
    left_alone,
    see_command,
)
from gonogo.execution.scheduling import Failed

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


# What the end of a call stands for ---------------------------------------------------------------

TOOLS = ToolStep(threads=None, loop=None, patterns=Patterns())


def failure(**more):
    found = TOOLS.failure_of(rows.call(**more))
    return found and (found.message, str(found.severity), str(found.category))


@pytest.mark.parametrize(
    ("word", "severity", "category"),
    [
        ("policy_denied", "medium", "policy"),
        ("rejected", "medium", "permission"),
        ("expired", "medium", "permission"),
        ("invalid_arguments", "high", "validation"),
        ("unknown_tool", "high", "dependency"),
        ("timeout", "medium", "timeout"),
        ("cancelled", "low", "cancelled"),
        ("unknown", "medium", "unknown"),
        ("bad_path", "medium", "policy"),
        ("hardlink", "medium", "policy"),
        ("protected_path", "medium", "policy"),
    ],
)
def test_a_calls_error_stands_for_what_its_first_word_says(word, severity, category):
    error = f"{word}: for a reason"
    assert failure(status=CallStatus.FAILED, error=error) == (
        f"write_file: {error}", severity, category,
    )  # fmt: skip


def test_an_error_that_nobody_typed_is_read_and_a_call_that_no_rule_knows_was_wrong():
    assert failure(status=CallStatus.FAILED, error="Connection refused") == (
        "write_file: Connection refused", "medium", "network",
    )  # fmt: skip
    assert failure(status=CallStatus.FAILED, error="odd: it is") == (
        "write_file: odd: it is", "medium", "logic",
    )  # fmt: skip
    assert failure(status=CallStatus.DENIED) == ("write_file: denied", "medium", "logic")
    assert failure(status=CallStatus.COMPLETED, result={"exit_code": 1}) is None


def test_a_command_fails_by_its_exit_code_and_says_the_end_of_its_output():
    def ended(result):
        arguments = {"command": "make"}
        more = {"tool": "execute_command", "arguments": arguments, "result": result}
        return failure(status=CallStatus.COMPLETED, **more)

    assert ended({"exit_code": 0}) is ended({"exit_code": None}) is ended(None) is None
    assert ended({"exit_code": 2, "output": "a\n" + "x" * 2_000}) == (
        f"'make' ended with the exit code 2:\n{'x' * 2_000}", "medium", "logic",
    )  # fmt: skip
    assert ended({"exit_code": None, "timed_out": True, "output": "half"}) == (
        "'make' was ended at its time limit:\nhalf", "medium", "timeout",
    )  # fmt: skip


async def test_a_command_is_seen_by_an_exit_code_that_is_a_number():
    with pytest.raises(InvalidArguments, match=r"^exit_code: it must be a number, not '1'$"):
        await see_command(TOOLS, None, {"command": "ls", "exit_code": "1"})


@pytest.mark.parametrize(
    ("wanted", "result", "said"),
    [
        (None, {"content": "abc"}, None),
        ("b", {"content": "abc"}, None),
        (2, {"content": "1 2 3"}, None),
        ("x", {"content": "abc"}, "'a.txt' does not contain 'x'"),
        ("x", None, "'a.txt' does not contain 'x'"),
        (
            "x", {"content": "abc", "truncated": True},
            "'a.txt' does not contain 'x' in the part that was read",
        ),
    ],
)  # fmt: skip
def test_what_a_file_lacks_is_said_as_far_as_it_was_read(wanted, result, said):
    inputs = {"file": "a.txt"} | ({} if wanted is None else {"contains": wanted})
    assert _lacking(inputs, rows.call(result=result)) == said


def test_what_is_seen_decides_a_validation():
    ended = rows.call(tool="read_file", result={"content": "x"})
    step = SimpleNamespace(done=lambda output, **more: (output, more))

    def verdict(**more):
        seen = CallSeen(**{"holds": True, "said": "so", "ended": ended, **more})
        return seen.verdict(step)

    assert verdict() == (
        {"valid": True, "reasons": ["so"]}, {"tool": "read_file", "result": {"content": "x"}},
    )  # fmt: skip
    wrong = Failure(message="no", category=Category.POLICY)
    assert verdict(failure=wrong) == Failed(wrong)
    lacks = verdict(holds=False).failure
    assert (lacks.message, str(lacks.severity), str(lacks.category)) == (
        "Validation failed: so", "high", "validation",
    )  # fmt: skip


def test_a_check_is_kept_with_the_end_of_what_was_seen():
    seen = CheckSeen(check=CHECK, holds=True, seen="x" * 2_001)
    assert seen.facts == {"check": CHECK.facts, "holds": True, "seen": "x" * 2_000}


def test_the_runtime_asks_for_its_one_call_once():
    speak = _asks_once("fetch", {"a": 1})
    [asked] = speak([]).calls
    assert (asked.name, asked.arguments) == ("fetch", {"a": 1})
    assert speak([rows.call()]) == Reply()


RUNNER = "python3 -m unittest"


def shown(*runs, commands=(RUNNER,)):
    """What the record says to a verdict, where these commands ended with these codes."""
    calls = [
        rows.call(
            f"call_{n}", tool="execute_command", status=CallStatus.COMPLETED,
            arguments={"command": command}, result={"exit_code": code, **more},
        )
        for n, (command, code, *rest) in enumerate(runs)
        for more in rest or [{}]
    ]  # fmt: skip
    found = contradiction(commands, calls)
    return found and (str(found.category), found.message)


@pytest.mark.feature(226)
def test_a_verdict_is_borne_out_by_the_last_run_of_each_command_that_was_declared():
    red = ("validation", f"Validation failed: the last run of {RUNNER!r} ended with the exit code")
    assert shown((f"{RUNNER} t", 0)) is None
    assert shown((f"{RUNNER} t", 1), (f"{RUNNER} -v t", 0), ("ls", 2)) is None
    assert shown((f"{RUNNER} t", 0), (f"{RUNNER} u", 1)) == (red[0], f"{red[1]} 1")
    assert shown((f"{RUNNER} t", None, {"timed_out": True})) == (red[0], f"{red[1]} None")
    assert shown((f"{RUNNER} t", 1), ("ls", 0), commands=("ls", RUNNER)) == (red[0], f"{red[1]} 1")
    assert shown((f"cd sub && {RUNNER} t && ls", 0)) is None
    none = {"output": "Ran 0 tests in 0.000s\n\nOK\n"}
    assert shown((RUNNER, 0, none)) == (
        "validation", f"Validation failed: the last run of {RUNNER!r} ran no test",
    )  # fmt: skip


@pytest.mark.feature(226)
def test_what_was_not_run_or_hides_how_it_ended_bears_out_no_verdict():
    none = ("no_work", f"none of the commands of this validation was run: {RUNNER}")
    assert shown() == shown(("ls", 0)) == shown(("echo python3 -m unittest", 0)) == none
    for hidden in ("{} || true", "{}; echo ok", "{} | tail -1", "! {}", "true || {}", "{} && ("):
        assert shown((hidden.format(f"{RUNNER} t"), 0)) == none, hidden


def test_a_program_that_compares_answers_with_the_exit_code_1():
    assert shown(("grep -rn TODO src", 1), commands=("grep",)) is None
    assert shown(("git diff --exit-code", 1), commands=("git diff",)) is None
    assert shown(("grep -rn TODO gone", 2), commands=("grep",)) is not None
    assert shown(("git push", 1), commands=("git push",)) is not None
