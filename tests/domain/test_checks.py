"""What has to hold before a subtask counts as done is said in one closed form, and approved."""

import pytest

from gonogo.domain.checks import KINDS, DoneCheck, ran_no_test
from gonogo.domain.errors import InvalidPlan
from gonogo.domain.plan import Revision, Subtask, parse_subtasks
from gonogo.domain.plan_views import plan_changes

ONE_OF_EACH = [
    {"command": "pytest -q", "timeout": 9.5},
    {"file_exists": "dist/app.js"},
    {"file_contains": {"path": "a.txt", "text": "made"}},
    {"unchanged": ["docs/**", "*.md"]},
    {"ask": "Is it polite?"},
]


def read(checks, **more):
    worker = {"agent": "coder"} | more
    return parse_subtasks(
        [{"id": "a", "description": "d", "type": "action", "done_when": checks, **worker}],
        agents={"coder"}, tools={"write_file"},
    )[0]  # fmt: skip


@pytest.mark.feature(225)
def test_a_check_is_of_one_kind_and_is_told_as_it_was_written():
    subtask = read(ONE_OF_EACH)

    assert [check.kind for check in subtask.done_when] == list(KINDS)
    assert [check.facts for check in subtask.done_when] == ONE_OF_EACH
    assert [check.file for check in subtask.done_when] == [None, "dist/app.js", "a.txt", None, None]
    assert subtask.done_when[4].text == '{"ask":"Is it polite?"}'
    assert subtask.check_commands == ("pytest -q",)
    assert read(None).check_commands == ()
    assert read([]).done_when is None
    assert read(None).done_when is None


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ({}, "done_when.0: a check must have exactly one of command, file_exists"),
        ({"command": "x", "ask": "y"}, "a check must have exactly one of"),
        ({"ask": "y", "timeout": 5}, "only a command can have a timeout"),
        ({"shell": "x"}, "done_when.0.shell"),
        ({"command": ""}, "done_when.0.command"),
        ({"command": "x" * 4_001}, "done_when.0.command"),
        ({"command": ["ls"]}, "done_when.0.command"),
        ({"command": "x", "timeout": 0}, "done_when.0.timeout"),
        ({"command": "x", "timeout": 3_601}, "done_when.0.timeout"),
        ({"file_exists": "/etc/passwd"}, "'/etc/passwd' is not a path inside the workspace"),
        ({"file_exists": "~/x"}, "is not a path inside the workspace"),
        ({"file_exists": "a/../../x"}, "is not a path inside the workspace"),
        ({"file_exists": "./"}, "is not a path inside the workspace"),
        ({"file_contains": {"path": "a"}}, "done_when.0.file_contains.text"),
        ({"file_contains": {"path": "../a", "text": "x"}}, "is not a path inside"),
        ({"unchanged": []}, "done_when.0.unchanged"),
        ({"unchanged": ["/**"]}, "is not a path inside"),
        (
            {"file_exists": ".env"},
            ("'.env' may contain secrets, and checks do not read such files; name another file"),
        ),
        ({"file_contains": {"path": "k/id_rsa", "text": "x"}}, "may contain secrets"),
    ],
)
def test_a_check_that_is_none_refuses_the_plan(check, said):
    with pytest.raises(InvalidPlan) as refused:
        read([check])
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "check",
    [
        {"command": "x" * 4_000}, {"command": "x", "timeout": 3_600}, {"ask": "x" * 4_000},
        {"command": "x", "timeout": 0.01}, {"file_exists": "x" * 512}, {"unchanged": ["x"] * 50},
        {"file_contains": {"path": "a", "text": "x" * 4_000}}, {"file_exists": "./a/.b"},
    ],
)  # fmt: skip
def test_a_check_may_be_as_large_as_that(check):
    assert read([check]).done_when[0].facts == check


@pytest.mark.parametrize(
    "check",
    [
        {"file_exists": "x" * 513}, {"unchanged": ["x"] * 51}, {"unchanged": ["x" * 513]},
        {"ask": "x" * 4_001}, {"file_contains": {"path": "a", "text": "x" * 4_001}},
        {"ask": ""}, {"file_exists": ""}, {"file_contains": {"path": "a", "text": ""}},
    ],
)  # fmt: skip
def test_a_check_may_be_no_larger_and_not_empty(check):
    with pytest.raises(InvalidPlan, match=r"characters?|items"):
        read([check])


def test_a_check_that_is_none_is_told_whole():
    kinds = "command, file_exists, file_contains, unchanged, ask"
    worker = (
        "only an action with an agent can have it; add a validation that depends on this subtask "
        "instead"
    )
    for checks, more, said in (
        ([{}], {}, f"Subtask 1: done_when.0: a check must have exactly one of {kinds}"),
        ([{"ask": "y", "timeout": 5}], {},
         "Subtask 1: done_when.0: only a command can have a timeout"),
        ([{"file_exists": "a/.."}], {},
         "Subtask 1: done_when.0.file_exists: 'a/..' is not a path inside the workspace"),
        ([{"file_exists": ".env"}], {},
         (
             "Subtask 'a': done_when: '.env' may contain secrets, and checks do not read such "
             "files; name another file"
         )),
        ([{"ask": "y"}], {"type": "validation"}, f"Subtask 'a': done_when: {worker}"),
        (None, {"type": "validation", "must_change": True}, f"Subtask 'a': must_change: {worker}"),
    ):  # fmt: skip
        with pytest.raises(InvalidPlan) as refused:
            read(checks, **more)
        assert str(refused.value) == said


def test_there_are_not_more_checks_than_anybody_reads():
    assert len(read([{"ask": "x"}] * 20).done_when) == 20
    with pytest.raises(InvalidPlan, match="done_when"):
        read([{"ask": "x"}] * 21)


@pytest.mark.parametrize(
    "worker",
    [
        {"agent": None, "tool": "write_file"}, {"agent": None}, {"type": "decision"},
        {"type": "validation"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["done_when", "must_change"])
def test_only_an_agent_that_acts_is_checked_so(worker, field):
    given = {"done_when": [{"ask": "x"}], "must_change": False}[field]
    with pytest.raises(InvalidPlan, match=f"{field}: only an action with an agent"):
        read(None, **worker, **{field: given})


@pytest.mark.feature(225)
def test_checks_are_part_of_what_is_approved_and_older_plans_keep_their_digest():
    def revision(**more):
        subtask = Subtask(id="a", description="d", agent="coder", **more)
        return Revision(plan_id="p", number=1, goal="g", subtasks=(subtask,))

    plain, checked = revision(), revision(done_when=(DoneCheck(ask="x"),))
    assert plain.digest == (
        "sha256:dc99d9030c2b3657c81bcb2d83e142972a63f167e7d4499ce4f4546a3d3b7f8c"
    )  # fmt: skip
    others = (checked, revision(done_when=(DoneCheck(ask="y"),)), revision(must_change=False))
    assert len({plain.digest, *(other.digest for other in others)}) == 4
    [(key, fields)] = plan_changes(plain, checked).changed
    assert (key, fields) == ("a", {"done_when": {"from": None, "to": [{"ask": "x"}]}})


_DASHES = "-" * 70


@pytest.mark.feature(225)
@pytest.mark.parametrize(
    "output",
    [
        f"\n{_DASHES}\nRan 0 tests in 0.000s\n\nOK\n",
        f"ss\n{_DASHES}\nRan 2 tests in 0.000s\n\nOK (skipped=2)\n",
        "s     [100%]\n1 skipped in 0.60s\n",
        f"collected 1 item\n\n{'=' * 30} 3 skipped, 1 deselected in 0.17s {'=' * 30}\n",
        "no tests ran in 0.01s\n",
        "1..1\n# tests 1\n# suites 0\n# pass 0\n# fail 0\n# skipped 1\n",
        "\u2139 tests 0\n\u2139 pass 0\n",
        "?   \tx.test/x\t[no test files]\nok  \tx.test/y\t0.004s [no tests to run]\n",
        "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured\n",
        "\n  0 passing (1ms)\n",
    ],
)
def test_a_runner_of_tests_that_ran_none_is_told_from_others(output):
    assert ran_no_test(output)
    assert ran_no_test(f"Compiling\r\n{output}Done.\n")


@pytest.mark.feature(225)
@pytest.mark.parametrize(
    "output",
    [
        "", "0 problems\n", "Ran 0 tests in 0.000s", "All 0 tests pass\n", "0 passed\n",
        f"\n{_DASHES}\nRan 2 tests in 0.000s\n\nOK (skipped=1)\n",
        f"\n{_DASHES}\nRan 0 tests in 0.000s\n\nOK\n\nRan 1 test in 0.000s\n\nOK\n",
        "1 passed, 3 skipped in 0.60s\n", "1 skipped, 1 xfailed in 0.60s\n",
        "ok  \tx.test/x\t0.026s\n?   \tx.test/y\t[no test files]\n",
        "test result: ok. 4 passed; 0 failed\n\ntest result: ok. 0 passed; 0 failed\n",
        "# tests 2\n# pass 1\n# skipped 1\n", "  3 passing (1ms)\n",
    ],
)  # fmt: skip
def test_who_ran_any_test_or_says_nothing_of_tests_is_believed(output):
    assert not ran_no_test(output)
