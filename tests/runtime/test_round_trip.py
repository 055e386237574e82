"""What people are shown of a plan's subtasks can be sent back as it is."""

import json
from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from fakes.rows import NOW
from gonogo.domain.checks import DoneCheck, FileText
from gonogo.domain.plan import KindRule, RetryPolicy, Scope, Subtask, Worker, parse_subtasks
from gonogo.domain.plan_views import STANDING, SubtaskView, as_planned
from gonogo.domain.records import SubtaskRow
from gonogo.domain.states import SubtaskStatus
from gonogo.domain.text_safety import is_blank
from gonogo.runtime.views import subtask_view

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.lists(st.text(min_size=1), max_size=3, unique=True).map(tuple)
HOSTS = st.lists(st.sampled_from(["a.org", "*.b.org", "c.org:8443"]), min_size=1, unique=True)
SCOPES = st.builds(
    Scope, tools=WORDS, paths=WORDS, commands=WORDS, network=st.booleans() | HOSTS.map(tuple)
)
POLICIES = st.builds(
    RetryPolicy, max_attempts=st.integers(1, 20), delay=st.floats(0, 86_400),
    backoff=st.floats(1, 10), on=WORDS,
)  # fmt: skip
PATHS = st.sampled_from(["a.txt", "src/**", "./b/c"])
CHECKS = (
    st.builds(DoneCheck, command=st.text(min_size=1), timeout=st.none() | st.floats(0.1, 3_600))
    | st.builds(DoneCheck, file_exists=PATHS)
    | st.builds(DoneCheck, file_contains=st.builds(FileText, path=PATHS, text=st.text(min_size=1)))
    | st.builds(DoneCheck, unchanged=st.lists(PATHS, min_size=1, max_size=3).map(tuple))
    | st.builds(DoneCheck, ask=st.text(min_size=1))
)
FIELDS = {
    "id": st.just("b"), "description": st.text(max_size=50).filter(lambda text: not is_blank(text)),
    "type": st.sampled_from(["action", "check"]), "dependencies": st.sampled_from([(), ("a",)]),
    "estimated_time": st.sampled_from(["5 min", "1 ч", "soon"]),
    "inputs": st.none() | st.dictionaries(st.text(), JSON, max_size=3),
    "condition": st.none() | st.text(max_size=20), "scope": st.none() | SCOPES,
    "approval_required": st.booleans(), "retry_policy": st.none() | POLICIES,
    "timeout": st.none() | st.floats(0.001, 86_400), "on_reject": st.sampled_from([None, "fail"]),
    "after_skipped": st.sampled_from([None, "skip", "run"]),
    "done_when": st.none() | st.lists(CHECKS, min_size=1, max_size=3).map(tuple),
    "must_change": st.sampled_from([None, True, False]),
}  # fmt: skip
WORKERS = st.sampled_from([{"agent": "coder"}, {"tool": "write_file"}, {}])
RULES = {name: KindRule(name=name, workers=frozenset(Worker)) for name in ("action", "check")}


def subtasks():
    fields = st.fixed_dictionaries(FIELDS)
    return st.builds(lambda given, worker: _subtask(**given, **worker), fields, WORKERS)


def _subtask(**fields):
    """A subtask; one that is no action of an agent is not checked as those are."""
    if "agent" not in fields or fields["type"] != "action":
        fields |= {"done_when": None, "must_change": None}
    return Subtask(**fields)


def rows():
    moments = st.none() | st.datetimes(timezones=st.just(UTC))
    return st.builds(
        SubtaskRow, key=st.just("p/1/b"), plan_id=st.just("p"), revision=st.just(1),
        subtask_id=st.just("b"), position=st.just(2), status=st.sampled_from(SubtaskStatus),
        attempt=st.integers(0, 3), epoch=st.just(0), not_before=st.just(None), started_at=moments,
        active_since=st.just(None), finished_at=moments, result=JSON,
        error=st.sampled_from([None, {"message": "broken"}]), reason=st.none() | st.text(),
    )  # fmt: skip


def test_every_field_of_a_subtask_is_tried_here_and_shown():
    assert set(FIELDS) | {"agent", "tool"} == set(Subtask.model_fields)
    assert set(SubtaskView.model_fields) == set(Subtask.model_fields) | STANDING


@given(subtask=subtasks(), row=rows())
def test_a_subtask_that_is_sent_back_as_it_was_shown_is_the_same(subtask, row):
    first = Subtask(id="a", description="Do a", agent="coder")
    shown = subtask_view(subtask, row).model_dump_json(exclude_none=True)

    sent = [{"id": "a", "description": "Do a", "agent": "coder"}, json.loads(shown)]
    read = parse_subtasks(as_planned(sent), agents={"coder"}, tools={"write_file"}, kinds=RULES)

    assert read == (first, subtask)


def test_what_is_no_subtask_is_left_to_whoever_reads_it():
    assert as_planned("nonsense") == "nonsense"
    assert as_planned([1, {"status": "done"}, {"odd": NOW}]) == [1, {}, {"odd": NOW}]
