"""Plans: whatever proposes one, it is a valid graph or refused with the defect's place."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.rows import revision, subtask
from gonogo.domain.base import digest
from gonogo.domain.errors import InvalidPlan
from gonogo.domain.plan import (
    MAX_DESCRIPTION,
    MAX_SUBTASKS,
    KindRule,
    Revision,
    Subtask,
    Worker,
    ancestors,
    as_meant,
    check_graph,
    critical_path,
    dependants,
    parse_subtasks,
    with_types,
)

AGENTS = ["coder", "debug", "ask", "universal"]


def parse(*items, tools=()):
    return parse_subtasks(list(items), agents=AGENTS, tools=tools)


def item(**more):
    return {"description": "d", "agent": "coder", **more}


def chain(length, *, closed=False):
    ids = [f"n{number}" for number in range(length)]
    first = subtask(ids[0], *([ids[-1]] if closed else []))
    return [first, *(subtask(b, a) for a, b in pairwise(ids))]


def test_ids_are_given_where_they_are_missing():
    assert [s.id for s in parse(item(), item(), item(id="own"))] == [
        "subtask_1",
        "subtask_2",
        "own",
    ]


def test_a_given_id_is_never_taken_by_one_that_is_made_up():
    assert [s.id for s in parse(item(), item(id="subtask_1"))] == ["subtask_1_", "subtask_1"]


@pytest.mark.feature(43)
def test_the_estimated_time_is_five_minutes_unless_it_is_said():
    said, null, silent = parse(item(estimated_time="2 h"), item(estimated_time=None), item())

    assert [s.estimated_time for s in (said, null, silent)] == ["2 h", "5 min", "5 min"]


@pytest.mark.feature(42, 96)
def test_an_action_with_neither_agent_nor_tool_is_a_models_and_other_kinds_say_who_they_need():
    [alone] = parse({"description": "d", "type": "action"})
    assert (alone.type, alone.agent, alone.tool) == ("action", None, None)
    [usual] = parse(*with_types([{"description": "d"}]))
    assert usual == alone.model_copy(update={"id": usual.id})

    kinds = {"wish": KindRule(name="wish", workers=frozenset({Worker.AGENT}))}
    with pytest.raises(InvalidPlan, match="'subtask_1': agent: Field required"):
        parse_subtasks([{"description": "d", "type": "wish"}], agents=AGENTS, kinds=kinds)


@pytest.mark.parametrize("odd", [None, "a", {"description": "d"}, ["a", None, 1]])
def test_what_is_no_list_of_subtasks_stays_as_a_model_wrote_it(odd):
    assert with_types(odd) == odd


def test_a_type_that_a_model_names_stays():
    assert with_types([{"type": "decision"}, {"type": None}]) == [
        {"type": "decision"}, {"type": None},
    ]  # fmt: skip


@pytest.mark.feature(44)
def test_a_dependency_may_be_a_zero_based_index():
    first, second, third = parse(
        item(id="x"), item(dependencies=[0]), item(dependencies=[0, "x", 1])
    )

    assert first.dependencies == ()
    assert second.dependencies == ("x",)
    assert third.dependencies == ("x", "subtask_2")


CHECKS = {
    "command": {"command": "ls", "exit_code": 1, "cwd": "src", "timeout": 5},
    "file": {"file": "a.md", "exists": True, "contains": "x"},
}


@pytest.mark.parametrize("kind", CHECKS)
def test_a_check_takes_each_of_its_words_and_names_them_where_it_does_not_know_one(kind):
    def check(**inputs):
        return {"id": "a", "description": "a", "type": "validation", "inputs": inputs}

    needed, *rest = CHECKS[kind].items()
    for more in ([], *([word] for word in rest), rest):
        inputs = dict([needed, *more])
        assert parse(check(**inputs))[0].inputs == inputs
    words = ", ".join(sorted(CHECKS[kind]))
    with pytest.raises(InvalidPlan, match=rf"inputs\.odd: a check does not have it; use {words}$"):
        parse(check(**CHECKS[kind], odd=1))


@pytest.mark.feature(42)
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"agent": "coder"}, "Subtask 1: description: Field required"),
        ({"description": "d"}, "'subtask_1': agent: Field required"),
        (item(description=""), "Subtask 1: description: String should have at least 1 character"),
        (item(description="d" * (MAX_DESCRIPTION + 1)), "Subtask 1: description: .* at most 4000"),
        (item(agent="architect"), "'architect' cannot carry out subtasks"),
        (item(agent="orchestrator"), "'orchestrator' cannot carry out subtasks"),
        (item(agent="nobody"), "no agent 'nobody'; use one of ask, coder, debug, universal"),
        (item(tool="read_file"), "names both an agent and a tool"),
        ({"description": "d", "tool": "nothing"}, "there is no tool 'nothing'"),
        (item(dependencies=["zzz"]), "'subtask_1' depends on unknown 'zzz'"),
        (item(dependencies=[1]), "no subtask with the index 1"),
        (item(dependencies=[-1]), "no subtask with the index -1"),
        (item(dependencies=[True]), "must be an id or an index"),
        (item(dependencies=[None]), "must be an id or an index"),
        (item(dependencies=[0.0]), "must be an id or an index"),
        (item(dependencies="a"), "dependencies must be a list"),
        (item(id="a b"), "Subtask 1: id: String should match"),
        (item(id="a\n"), "Subtask 1: id: String should match"),
        (item(id=None), "Subtask 1: id: Input should be a valid string"),
        (item(id=["a"]), "Subtask 1: id: Input should be a valid string"),
        (item(status="completed"), "Subtask 1: status: Extra inputs"),
        (item(timeout=0), "Subtask 1: timeout"),
        (item(retry_policy={"max_attempts": 0}), "Subtask 1: retry_policy.max_attempts"),
        (item(scope={"tool": []}), "Subtask 1: scope.tool: Extra inputs"),
        (item(type="wish"), "Subtask 1: type"),
        ("a", "Subtask 1 must be an object"),
    ],
)
def test_a_defect_is_said_with_its_place(bad, said):
    with pytest.raises(InvalidPlan, match=said):
        parse(bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"timeout": -1}, {"dependencies": ["nobody"]}, {"dependencies": "a"}, {"agent": "nobody"},
        {"type": "odd"}, {"dependencies": ["b"]},
    ],
)  # fmt: skip
def test_a_defect_knows_whose_it_is(bad):
    with pytest.raises(InvalidPlan) as caught:
        parse(item(id="a"), item(id="b", **bad))

    assert caught.value.subtask_id == "b"


@pytest.mark.parametrize(
    ("items", "said"),
    [
        (None, "The subtasks must be a list"),
        ([], "A plan needs at least one subtask"),
        ([{}] * 501, "A plan can have at most 500 subtasks, not 501; split it into several plans"),
        (["a"], "Subtask 1 must be an object"),
        ([item(description=" \n\u200b\u2800")],
         "Subtask 1: description: say what is to be done"),
        ([item(id=7)], "Subtask 1: id: Input should be a valid string"),
        ([item(dependencies="a")], "Subtask 1: dependencies must be a list"),
        ([item(dependencies=[None])], "Subtask 1: a dependency must be an id or an index"),
        ([item(dependencies=[1])], (
            "Subtask 1: there is no subtask with the index 1; name the dependency by its id"
        )),
        ([item(dependencies=[-1])], (
            "Subtask 1: there is no subtask with the index -1; name the dependency by its id"
        )),
        ([item(), item(type="wish")], "Subtask 2: type: there is no type 'wish';"
         " use one of action, decision, validation"),
        ([item(tool="t")], "Subtask 'subtask_1' names both an agent and a tool; keep one of them"),
        ([{"description": "d"}], "Subtask 'subtask_1': agent: Field required"),
        ([{"description": "d", "type": "decision", "tool": "t"}],
         "Subtask 'subtask_1': tool: not for the type 'decision'; remove it"),
        ([{"description": "d", "tool": "t"}], (
            "Subtask 'subtask_1': there is no tool 't'; name another tool"
        )),
        ([item(agent="architect")],
         (
             "Subtask 'subtask_1': the agent 'architect' cannot carry out subtasks; name another "
             "agent"
         )),
        ([item(agent="nobody")], "Subtask 'subtask_1': there is no agent 'nobody';"
         " use one of ask, coder, debug, universal"),
        ([item(dependencies=["z"])], (
            "Subtask 'subtask_1' depends on unknown 'z'; add that subtask, or remove the "
            "dependency"
        )),
        ([item(dependencies=[0])], "Subtask 'subtask_1' depends on itself; remove this dependency"),
        ([item(id="a"), item(id="a")], "Two subtasks have the id 'a'; change one of them"),
    ],
)  # fmt: skip
def test_a_plan_that_is_refused_is_told_whole_what_is_wrong(items, said):
    with pytest.raises(InvalidPlan) as refused:
        parse_subtasks(items, agents=AGENTS)
    assert str(refused.value) == said


def test_a_cycle_is_named_whole_up_to_a_dozen_names():
    for size, shown in ((11, 12), (12, 12), (40, 12)):
        with pytest.raises(InvalidPlan) as refused:
            check_graph(chain(size, closed=True))
        begin, _, names = str(refused.value).partition(": ")
        named = names.partition("; ")[0].split(" → ")
        assert begin == "The subtasks form a cycle"
        assert (len(named), "…" in named) == (shown, size > 11)
        assert size == 11 or named[6] == "…"


def judged(kind, **inputs):
    (only,) = parse({"id": "a", "description": "a", "type": kind, "inputs": inputs})
    return only


@pytest.mark.parametrize(
    ("kind", "inputs", "said"),
    [
        ("decision", {"options": ["a"]}, "options: a decision needs two or more different texts"),
        ("decision", {"options": ["a", "a"]},
         "options: a decision needs two or more different texts"),
        ("decision", {"options": ["a", "b", 1]},
         "options: a decision needs two or more different texts"),
        ("decision", {"options": "a, b"}, "options: a decision needs two or more different texts"),
        ("validation", {"command": ["ls"]}, "command: it must be str"),
        ("validation", {"command": "ls", "exit_code": True}, "exit_code: it must be int"),
        ("validation", {"command": "ls", "exit_code": None}, "exit_code: it must be int"),
        ("validation", {"file": 7}, "file: it must be str"),
        ("validation", {"file": "a", "exists": 1}, "exists: it must be bool"),
        ("validation", {"file": "a", "contains": 1}, "contains: it must be str"),
        ("validation", {"command": "ls", "file": "a"},
         "file: a check does not have it; use command, cwd, exit_code, timeout"),
        ("validation", {"file": "a", "exists": False, "contains": "x"},
         "contains: a file that must not exist cannot contain text; remove `contains`"),
    ],
)  # fmt: skip
def test_inputs_that_do_not_fit_a_kind_are_told_whole(kind, inputs, said):
    with pytest.raises(InvalidPlan) as refused:
        judged(kind, **inputs)
    assert str(refused.value) == f"Subtask 'a': inputs.{said}"


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("decision", {"options": ["a", "b"]}), ("decision", {"options": "${subtasks.b.output}"}),
        ("decision", {"other": 1}), ("validation", {"other": 1}),
        ("validation", {"command": "${subtasks.b.output}", "exit_code": "${subtasks.b.output}"}),
        ("validation", {"file": "a", "exists": False}),
        ("validation", {"file": "a", "contains": ""}),
        ("validation", {"file": "a", "exists": True, "contains": "x"}),
    ],
)  # fmt: skip
def test_inputs_that_fit_a_kind_stay_as_they_are(kind, inputs):
    assert judged(kind, **inputs).inputs == inputs


def test_what_a_plan_does_not_say_of_a_subtask_is_not_there():
    made = Subtask(id="a", description="d")
    assert (made.minutes, made.done_when) == (5.0, None)
    assert made.model_dump() == {
        "id": "a", "description": "d", "agent": None, "tool": None, "type": "action",
        "dependencies": (), "estimated_time": "5 min", "inputs": None, "condition": None,
        "scope": None, "approval_required": False, "retry_policy": None, "timeout": None,
        "on_reject": None, "after_skipped": None, "done_when": None, "must_change": None,
    }  # fmt: skip
    [read] = parse(item(scope={}, retry_policy={}, done_when=[]))
    assert read.scope.model_dump() == {
        "tools": None, "paths": None, "commands": (), "network": False,
    }  # fmt: skip
    assert read.retry_policy.model_dump() == {
        "max_attempts": 1, "delay": 1.0, "backoff": 2.0, "on": (),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("id", ["A", "_", "a" * 64, "a-b_C"], ["a" * 65, "-a", "a.b"]),
        ("type", [], ["Wish", "1a"]),
        ("description", ["d" * 4_000], ["d" * 4_001]),
        ("estimated_time", ["x", "x" * 64], ["", "x" * 65]),
        ("condition", ["", "x" * 2_000], ["x" * 2_001]),
        ("timeout", [0.5, 86_400], [0, 86_401]),
        ("retry_policy", [{"max_attempts": 20}, {"delay": 0}, {"delay": 86_400}, {"backoff": 1},
                          {"backoff": 10}],
         [{"max_attempts": 21}, {"delay": -1}, {"delay": 86_401}, {"backoff": 0.5},
          {"backoff": 11}]),
        ("on_reject", ["skip", "fail"], ["run"]),
        ("after_skipped", ["skip", "run"], ["fail"]),
        ("must_change", [True, False], [1]),
    ],
)  # fmt: skip
def test_a_field_of_a_subtask_has_its_bounds(name, good, bad):
    for value in good:
        made = parse(item(**{name: value}))[0].model_dump()[name]
        assert value.items() <= made.items() if isinstance(value, dict) else made == value
    for value in bad:
        with pytest.raises(InvalidPlan, match=f"^Subtask 1: {name}"):
            parse(item(**{name: value}))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"id": "a"}, {"id": "a"}),
        ({"id": "a", "scope": None}, {"id": "a", "scope": None}),
        ({"id": "a", "scope": {"tools": [], "paths": [], "commands": [], "network": False}},
         {"id": "a", "scope": {"commands": [], "network": False}}),
        ({"id": "a", "scope": {"tools": ["x"], "paths": ["y"]}},
         {"id": "a", "scope": {"tools": ["x"], "paths": ["y"]}}),
    ],
)  # fmt: skip
def test_what_an_older_version_stored_is_read_as_it_was_meant(written, meant):
    assert as_meant(written) == meant


def test_an_index_of_a_subtask_whose_id_is_no_text_is_a_defect_and_no_crash():
    with pytest.raises(InvalidPlan, match="Subtask 2: id"):
        parse(item(dependencies=[1]), item(id=[]))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (None, "must be a list"),
        ({}, "must be a list"),
        ([], "at least one subtask"),
        ([{}] * (MAX_SUBTASKS + 1), "at most 500 subtasks, not 501"),
    ],
)
def test_a_plan_is_a_list_of_one_to_500_subtasks(raw, said):
    with pytest.raises(InvalidPlan, match=said):
        parse_subtasks(raw, agents=AGENTS)


def test_a_tool_may_carry_out_a_subtask_without_an_agent():
    (only,) = parse({"description": "d", "tool": "read_file"}, tools=["read_file"])

    assert (only.agent, only.tool) == (None, "read_file")


@pytest.mark.feature(57)
@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ({"a": ["a"]}, "'a' depends on itself"),
        ({"a": ["b"], "b": ["a"]}, "cycle: (a → b → a|b → a → b);"),
        ({"a": ["c"], "b": ["a"], "c": ["b"]}, "cycle: "),
        ({"a": [], "b": ["missing"]}, "'b' depends on unknown 'missing'"),
    ],
)
def test_a_graph_that_cannot_end_is_refused_by_name(edges, said):
    with pytest.raises(InvalidPlan, match=said):
        parse(*(item(id=key, dependencies=after) for key, after in edges.items()))


@pytest.mark.feature(57)
def test_a_cycle_is_named_in_the_order_of_waiting():
    with pytest.raises(InvalidPlan) as refused:
        check_graph([subtask("a", "b"), subtask("b", "c"), subtask("c", "a"), subtask("d")])
    named = str(refused.value).split(": ")[1].partition("; ")[0].split(" → ")

    assert named[0] == named[-1]
    waits_for = {"a": "b", "b": "c", "c": "a"}
    assert all(waits_for[one] == other for one, other in pairwise(named))


def test_two_subtasks_of_one_id_are_refused_and_ids_are_told_apart_by_case():
    with pytest.raises(InvalidPlan, match="Two subtasks have the id 'a'; change one of them"):
        parse(item(id="b"), item(id="a"), item(id="a"))

    assert len(parse(item(id="a"), item(id="A"))) == 2


def test_long_chains_and_cycles_are_walked_without_recursion():
    straight = chain(10_000)
    check_graph(straight)
    assert len(critical_path(straight)) == 10_000
    assert len(dependants(straight, "n0")) == 9_999

    with pytest.raises(InvalidPlan, match=r"cycle: n\d+ → .* → … → "):
        check_graph(chain(10_000, closed=True))


def test_the_critical_path_is_the_longest_by_time_and_not_by_count():
    subtasks = [
        subtask("a", estimated_time="1 h"),
        subtask("b", estimated_time="5 min"),
        subtask("c", "b", estimated_time="5 min"),
        subtask("d", "a", "c", estimated_time="1 min"),
    ]

    assert critical_path(subtasks) == ("a", "d")
    assert critical_path([]) == ()


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("30 s", 0.5), ("30 sec", 0.5), ("90 seconds", 1.5), ("3", 3), ("3m", 3), ("3 min", 3),
        ("10 minutes", 10), ("1.5 h", 90), ("2 hours", 120), ("2 hrs", 120), ("1 day", 1440),
        ("2 часа", 120), ("5 мин", 5), ("30 секунд", 0.5), ("1 день", 1440), ("4 weeks", 4),
        ("soon", 5), ("-5 min", 5), ("1-2 h", 1),
    ],
)  # fmt: skip
def test_an_estimate_is_a_number_of_minutes(text, minutes):
    assert subtask("a", estimated_time=text).minutes == pytest.approx(minutes)


def test_dependants_are_found_through_others():
    subtasks = [subtask("a"), subtask("b", "a"), subtask("c", "b"), subtask("d")]

    assert dependants(subtasks, "a") == {"b", "c"}
    assert dependants(subtasks, "d") == frozenset()


def test_a_revision_finds_its_subtasks_by_id():
    made = revision(subtask("a"), subtask("b", "a"))

    assert made.subtask("b").dependencies == ("a",)
    assert list(made.by_id) == ["a", "b"]
    with pytest.raises(KeyError):
        made.subtask("c")


def test_the_digest_of_a_revision_binds_all_that_was_shown():
    shown = revision(subtask("a"), subtask("b", "a"))
    others = [
        revision(subtask("a"), subtask("b", "a"), number=2),
        revision(subtask("a"), subtask("b", "a"), plan_id="p2"),
        revision(subtask("b", "a"), subtask("a")),
        revision(subtask("a", description="Do more"), subtask("b", "a")),
        revision(subtask("a"), subtask("b", "a", scope={"commands": ["rm"]})),
        shown.model_copy(update={"goal": "Another"}),
    ]

    assert len({shown.digest, *(other.digest for other in others)}) == len(others) + 1
    assert Revision.model_validate_json(shown.model_dump_json()).digest == shown.digest


def test_the_digest_of_what_an_older_version_wrote_is_that_of_what_it_wrote():
    shown = revision(subtask("a"))
    older = Revision(**shown.model_dump(), written=({"id": "a", "x": 1},))
    told = {"plan_id": "p1", "number": 1, "goal": "A goal", "subtasks": [{"id": "a", "x": 1}]}

    assert older.digest == digest(told)
    assert shown.written is None
    assert "written" not in repr(older)
    assert older.model_dump() == shown.model_dump()


edges = st.lists(st.integers(0, 7), max_size=4)


@given(st.lists(edges, min_size=1, max_size=8))
def test_what_parses_is_a_graph_that_can_be_walked_to_its_end(dependencies):
    try:
        subtasks = parse(*(item(id=f"n{n}", dependencies=d) for n, d in enumerate(dependencies)))
    except InvalidPlan:
        return
    done: set[str] = set()
    while len(done) < len(subtasks):
        ready = {s.id for s in subtasks if s.id not in done and done >= set(s.dependencies)}
        assert ready
        done |= ready


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
fields = st.sampled_from(sorted(Subtask.model_fields)) | st.text(max_size=5)


@given(st.lists(st.dictionaries(fields, json_values, max_size=6), max_size=3) | json_values)
def test_whatever_a_stranger_writes_is_a_plan_or_an_invalid_plan(raw):
    with suppress(InvalidPlan):
        assert parse_subtasks(raw, agents=AGENTS, tools=["read_file"])


def test_a_file_that_must_not_exist_cannot_be_asked_for_its_content():
    check = {"file": "a.md", "exists": False, "contains": "x"}
    item = {"id": "a", "description": "a", "type": "validation", "inputs": check}

    with pytest.raises(InvalidPlan, match="cannot contain text"):
        parse_subtasks([item], agents={"coder"})


@given(st.lists(st.sets(st.integers(0, 11)), max_size=12), st.randoms())
def test_who_waits_for_whom_is_what_one_finds_by_going_from_each_to_those_before_it(edges, order):
    named = [[f"n{other}" for other in after if other < n] for n, after in enumerate(edges)]
    subtasks = [subtask(f"n{n}", *after) for n, after in enumerate(named)]
    order.shuffle(subtasks)

    def reached(key):
        before = named[int(key[1:])]
        return {*before}.union(*map(reached, before))

    assert ancestors(subtasks) == {each.id: reached(each.id) for each in subtasks}
