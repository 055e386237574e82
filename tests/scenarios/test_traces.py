"""Traces: a plan is one, over restarts, with what was done in it, and nothing of what was said."""

import json
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from fakes.collector import collecting
from fakes.world import calls, on_both, plan, run, says, step, write
from gonogo.domain.errors import Refused
from gonogo.domain.tool_calls import Usage

SECRET = "Do not tell this"
LINES = {
    "main/architect": [plan(step("a"), step("b", "a"), goal=SECRET)],
    "main/orchestrator": [says(SECRET)],
    "a": [calls(write("a.txt", SECRET)), calls(run("false")), says(SECRET)],
    "b": [calls(write("b.txt")), says(SECRET)],
}


@pytest.fixture
def collector():
    with collecting() as found:
        yield found


def named(spans, name):
    return [span for span in spans if span.name == name]


async def carried_out(make, collector, **more):
    """A plan carried out, with a restart while its second subtask works; its id and all spans."""
    async with make(LINES, otlp_endpoint=collector.endpoint, **more) as world:
        world.model.hold("b", 2)
        plan_id = await world.begin()
        await world.asked_model("b", 2)
        await world.restart()
        await world.until("plan_completed")
        await world.idle()
        shown = await world.runtime.plans.get(world.ann, plan_id)
        session = world.session
    return shown, session, list(collector.spans)


@on_both
async def test_a_plan_is_one_trace_over_a_restart_and_each_span_has_its_parent(make, collector):
    shown, session, spans = await carried_out(make, collector)
    trace = shown.plan_id.removeprefix("plan_")
    ours = [span for span in spans if span.trace_id == trace]
    (root,) = named(ours, "invoke_workflow plan")
    assert root.parent_id == ""
    a, b = sorted(named(ours, "invoke_agent coder"), key=lambda span: span.began)
    assert {a.parent_id, b.parent_id} == {root.span_id}
    assert [each.attributes["gonogo.subtask.id"] for each in (a, b)] == ["a", "b"]
    parents = {span.span_id for span in (a, b)}
    rest = [span for span in ours if span not in (root, a, b)]
    assert {span.parent_id for span in rest} == parents
    # What was asked and written before the restart is there as well, and once.
    assert [span.parent_id for span in named(rest, "execute_tool write_file")] == [
        a.span_id,
        b.span_id,
    ]
    assert len({span.span_id for span in ours}) == len(ours)
    assert len([span for span in rest if span.parent_id == b.span_id and span.kind == 3]) == 2
    for span in rest:
        above = a if span.parent_id == a.span_id else b
        assert above.began <= span.began <= span.ended <= above.ended
    assert root.began <= a.began <= b.ended <= root.ended
    assert datetime.fromtimestamp(root.began / 1e9).astimezone() == shown.started_at
    assert collector.paths == ["/v1/traces"] * len(collector.paths)

    # The answer that made the plan is another trace, and the plan's names it.
    (turn,) = named(spans, "invoke_agent architect")
    assert root.links == [(turn.trace_id, turn.span_id)]
    assert turn.trace_id != trace
    assert {s.name for s in spans if s.parent_id == turn.span_id} == {
        "chat scripted/architect", "execute_tool create_plan",
    }  # fmt: skip
    assert {span.attributes["gen_ai.conversation.id"] for span in spans} == {session}


async def test_spans_have_the_names_of_the_conventions_for_generative_ai(make, collector):
    _, _, spans = await carried_out(make, collector)
    (written, _) = named(spans, "execute_tool write_file")
    assert written.kind == 1
    assert {k: v for k, v in written.attributes.items() if k.startswith("gen_ai.")}.keys() == {
        "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.type",
        "gen_ai.agent.name", "gen_ai.conversation.id",
    }  # fmt: skip
    assert written.attributes["gen_ai.operation.name"] == "execute_tool"
    asked = named(spans, "chat scripted/coder")[0]
    assert (asked.kind, asked.attributes["gen_ai.operation.name"]) == (3, "chat")
    assert asked.attributes["gen_ai.request.model"] == "scripted/coder"
    tokens = [name for name in asked.attributes if name.startswith("gen_ai.usage.")]
    assert len(tokens) == len(Usage.model_fields) - 2
    assert written.resource["service.name"] == "gonogo"
    assert "service.version" in written.resource


async def test_what_was_said_is_in_no_span_unless_it_is_asked_for(make, collector):
    _, _, spans = await carried_out(make, collector)
    assert spans
    assert SECRET not in str(spans)
    collector.spans.clear()
    _, _, spans = await carried_out(make, collector, trace_content=True)
    (root,) = named(spans, "invoke_workflow plan")
    assert root.attributes["gonogo.plan.goal"] == SECRET
    told = [
        s.attributes["gen_ai.tool.call.arguments"] for s in named(spans, "execute_tool write_file")
    ]
    assert json.loads(told[0]) == {"path": "a.txt", "content": SECRET}
    said = [
        json.loads(s.attributes["gen_ai.output.messages"])
        for s in named(spans, "chat scripted/coder")
    ]
    parts = [part for (message,) in said for part in message["parts"]]
    assert {"type": "text", "content": SECRET} in parts
    assert {part["type"] for part in parts} == {"text", "tool_call"}


async def test_what_failed_is_marked_and_says_how(make, collector):
    failing = {
        **LINES,
        "b": [
            calls({"name": "attempt_completion", "arguments": {"result": "no", "success": False}})
        ],
    }
    async with make(failing, otlp_endpoint=collector.endpoint) as world:
        await world.decide_plan(await world.propose())
    spans = collector.spans
    (failed,) = [s for s in spans if s.attributes.get("gonogo.subtask.id") == "b"]
    assert failed.failed
    assert failed.attributes["error.type"] == "unknown"
    (root,) = named(spans, "invoke_workflow plan")
    assert (root.failed, root.attributes["gonogo.plan.status"]) == (True, "partial")
    (fine,) = [s for s in spans if s.attributes.get("gonogo.subtask.id") == "a"]
    assert not fine.failed


async def test_a_collector_that_refuses_or_is_away_keeps_nothing_up(make, collector, caplog):
    collector.refuses = True
    async with make(LINES, otlp_endpoint=collector.endpoint) as world:
        events = await world.decide_plan(await world.propose())
        assert events[-1]["metadata"]["status"] == "completed"
    assert collector.spans == []
    async with make(LINES, otlp_endpoint="http://127.0.0.1:1") as world:
        events = await world.decide_plan(await world.propose())
        assert events[-1]["metadata"]["status"] == "completed"


OFF = """
import sys, tempfile
from pathlib import Path
import anyio
from gonogo.runtime import Runtime
from gonogo.llm import ScriptedModel
from gonogo.settings import Settings

async def main():
    home = Path(tempfile.mkdtemp())
    settings = Settings(home=home, config=home / "none", workspace=home)
    async with Runtime.open(settings, model=ScriptedModel({})):
        ours = "opentelemetry.sdk", "opentelemetry.exporter"
        print([name for name in sys.modules if name.startswith(ours)])

anyio.run(main)
"""


def test_where_no_collector_is_named_nothing_of_the_library_is_loaded():
    command = [sys.executable, "-c", OFF]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


async def test_the_dashboard_and_the_page_name_only_what_spans_have(make, collector):
    _, _, spans = await carried_out(make, collector)
    root = Path(__file__).parents[2]
    dashboard = json.loads((root / "ops" / "grafana" / "gonogo.json").read_text())
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", ())]
    queries = " ".join(each["query"] for each in targets if each.get("queryType") == "traceql")
    attributes = {name for span in spans for name in span.attributes} | {"error.type"}
    assert set(re.findall(r"span\.([\w.]+)", queries)) <= attributes
    assert set(re.findall(r'name = "([^"]+)"', queries)) - {"gonogo"} <= {s.name for s in spans}
    page = (root / "docs" / "how-to" / "monitor.md").read_text()
    named = set(re.findall(r"`((?:gen_ai|gonogo)\.[\w.]+\w)`", page))
    assert len(named) > 5
    assert named <= attributes


async def test_without_the_library_the_start_says_what_to_install(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.RaisesGroup(pytest.RaisesExc(Refused, match=r"pip install 'gonogo\[otel\]'")):
        async with make({}, otlp_endpoint="http://127.0.0.1:1"):
            pass
