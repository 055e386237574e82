"""What an installed distribution adds by entry points: kinds, failure rules, strategies."""

import importlib
import sys
import tomllib
from datetime import timedelta
from importlib.metadata import EntryPoint
from pathlib import Path

import anyio
import pytest

from fakes.world import of, plan, says, step
from gonogo.domain.errors import InvalidMessage
from gonogo.domain.failures import Category, FailureRule
from gonogo.domain.plan import Worker
from gonogo.execution.scheduling import Kind, Outcome, Step
from gonogo.runtime import Extensions, Runtime
from gonogo.settings import Settings

EXAMPLE = Path(__file__).parents[2] / "examples" / "gonogo-example-extension"
KINDS, PATTERNS, STRATEGIES = (
    "gonogo.subtask_kinds", "gonogo.failure_patterns", "gonogo.strategies",
)  # fmt: skip


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The example, as if it were installed: its modules and its entry points are on the path."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    facts = tmp_path / "site" / "gonogo_example_extension-0.1.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Name: {project['name']}\nVersion: 0.1\n")
    (facts / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    monkeypatch.syspath_prepend(str(facts.parent))
    importlib.invalidate_caches()
    yield
    sys.modules.pop("gonogo_example_extension", None)


def waits(key, *after, seconds):
    return {
        "id": key, "description": "Wait", "type": "wait", "inputs": {"seconds": seconds},
        "dependencies": list(after),
    }  # fmt: skip


@pytest.mark.feature(68, 110, 111)
async def test_a_plan_runs_with_what_was_installed(make, installed):
    lines = {
        "main/architect": [
            plan(
                step("long", estimated_time="1 h"), step("short", estimated_time="1 min"),
                waits("settle", "short", seconds=0.05),
                step("tell", "settle", inputs={"for": "${subtasks.settle.output.waited}"}),
            )
        ],
        "long": [says("long")], "short": [says("short")], "tell": [says("told")],
    }  # fmt: skip
    async with make(lines, strategy="shortest_first", max_parallel=1) as world:
        events = await world.decide_plan(await world.propose())

        assert events[-1]["metadata"]["status"] == "completed"
        started = [event["subtask_id"] for event in of(events, "subtask_started")]
        assert started[0] == "short", "the strategy of the example says so"
        [ended] = of(events, "subtask_completed", subtask_id="settle")
        assert ended["metadata"]["result"] == {
            "status": "completed", "output": {"waited": 0.05}, "metadata": {},
        }  # fmt: skip
        assert '{"inputs": {"for": 0.05}}' in world.model.asked("tell")[0].messages[0].content
        asked = world.model.asked("main")[0]
        [create_plan] = [tool for tool in asked.tools if tool.name == "create_plan"]
        assert "`wait`: waits for" in create_plan.description
        found = world.runtime.parts.runner.patterns.classify_text("the licence has expired")
        assert (found.category, found.suggestion is not None) == (Category.ENVIRONMENT, True)


async def test_a_wait_that_was_cut_off_waits_only_for_what_is_left(make, installed):
    lines = {"main/architect": [plan(waits("settle", seconds=600))]}
    async with make(lines) as world:
        plan_id = await world.begin()
        await world.until("subtask_started", subtask_id="settle")
        await world.restart()
        assert (await world.runtime.plans.get(world.ann, plan_id)).status == "running"
        await world.stop()
        world.clock.ahead += timedelta(seconds=601)
        await world.start()

        await world.until("plan_completed", status="completed")


async def test_a_wait_is_cancelled_at_once(make, installed):
    lines = {"main/architect": [plan(waits("settle", seconds=600))]}
    async with make(lines) as world:
        plan_id = await world.begin()
        await world.until("subtask_started", subtask_id="settle")
        await world.runtime.plans.cancel(world.ann, plan_id)
        await world.idle()

        assert (await world.runtime.plans.get(world.ann, plan_id)).status == "cancelled"


@pytest.mark.parametrize(
    ("group", "value", "said"),
    [
        (KINDS, "no_such_module:KIND", "cannot load no_such_module:KIND: ModuleNotFoundError"),
        (KINDS, f"{__name__}:NO_SUCH", "cannot load"),
        (KINDS, "gonogo.domain.plan:BUILT_IN", "a Kind with the name 'mine' is needed"),
        (PATTERNS, "gonogo.domain.plan:BUILT_IN", "a FailureRule is needed"),
        (STRATEGIES, "gonogo.domain.plan:MAX_SUBTASKS", "a function is needed"),
    ],
)
def test_a_broken_entry_point_is_refused_by_name(group, value, said):
    with pytest.raises(InvalidMessage, match=f"Entry point 'mine' of {group}: {said}"):
        Extensions.load([EntryPoint(name="mine", value=value, group=group)])


def rule(name):
    return FailureRule(name=name, phrases=("the licence has expired",), category=Category.LOGIC)


ONE, SEVERAL = rule("one"), (rule("two"), rule("three"))


def test_rules_come_in_the_order_of_their_entry_points_and_other_groups_are_passed_over():
    found = Extensions.load([
        EntryPoint(name="b", value=f"{__name__}:SEVERAL", group=PATTERNS),
        EntryPoint(name="a", value=f"{__name__}:ONE", group=PATTERNS),
        EntryPoint(name="c", value="no_such_module:THING", group="gonogo.something_else"),
    ])  # fmt: skip

    assert [each.name for each in found.rules] == ["one", "two", "three"]
    assert found.patterns.classify_text("The licence has expired").rule == "one"


async def nothing(step: Step) -> Outcome:
    return step.done()


def kind(name, run=nothing):
    return Kind(name=name, workers=frozenset(Worker), run=run)


def test_nothing_takes_the_place_of_what_is_built_in():
    with pytest.raises(InvalidMessage, match="already a kind of subtasks 'action'"):
        Extensions(kinds=[kind("action")])
    with pytest.raises(InvalidMessage, match="already a strategy 'plan_order'"):
        Extensions(strategies={"plan_order": lambda ready, outlook: ()})
    with pytest.raises(InvalidMessage, match="phrase"):
        Extensions(rules=[FailureRule(name="x", phrases=("(",), category=Category.LOGIC)])


async def test_what_a_kind_raises_is_classified_by_the_rules_that_were_registered(make, tmp_path):
    async def breaks(step: Step) -> Outcome:
        raise RuntimeError("the frobnicator is jammed")

    rule = FailureRule(name="jam", phrases=("frobnicator is jammed",), category=Category.RESOURCE)
    extensions = Extensions(kinds=[kind("break", breaks)], rules=[rule])
    lines = {"main/architect": [plan({"id": "a", "description": "d", "type": "break"})]}
    async with make(lines) as world:
        await world.stop()
        world.extensions = extensions
        await world.start()
        plan_id = await world.propose()
        await world.decide_plan(plan_id)

        [a] = (await world.runtime.plans.get(world.ann, plan_id)).subtasks
        assert (a.status, a.error["category"]) == ("failed", "resource")
        await world.stop()
        world.extensions = Extensions()
        await world.start()
        assert (await world.runtime.plans.get(world.ann, plan_id)).subtasks[0].type == "break"


@pytest.mark.parametrize(
    "given", [None, object(), {1}, float("nan")], ids=["none", "object", "set", "nan"]
)
async def test_a_kind_that_gives_what_cannot_be_kept_fails_its_subtask_once(make, given):
    runs = []

    async def gives(step: Step) -> Outcome:
        runs.append(step)
        return given if given is None else step.done(given)

    lines = {"main/architect": [plan({"id": "a", "description": "d", "type": "odd"})]}
    async with make(lines) as world:
        await world.stop()
        world.extensions = Extensions(kinds=[kind("odd", gives)])
        await world.start()
        plan_id = await world.propose()
        await world.decide_plan(plan_id)

        [a] = (await world.runtime.plans.get(world.ann, plan_id)).subtasks
        assert (a.status, len(runs)) == ("failed", 1)


async def test_a_runtime_does_not_open_with_a_broken_extension(tmp_path, installed):
    facts = tmp_path / "site" / "gonogo_example_extension-0.1.dist-info" / "entry_points.txt"
    facts.write_text("[gonogo.subtask_kinds]\nwait = gonogo_example_extension:NOTHING\n")
    settings = Settings(home=tmp_path / "home", workspace=tmp_path)

    with anyio.fail_after(60), pytest.raises(InvalidMessage, match="'wait' of gonogo") as refused:
        await Runtime.open(settings).__aenter__()
    assert "has no attribute 'NOTHING'" in str(refused.value)
