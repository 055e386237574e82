"""Foreign servers are shown as they are, and their tools are known when they are asked for."""

from datetime import UTC, datetime, timedelta

import pytest

from gonogo.domain.findings import ProfileFacts
from gonogo.domain.tool_calls import Sighting, ToolClass, ToolHistory
from gonogo.execution.agent import load_profiles
from gonogo.runtime.foreign_tools import KnownNames, Seen, Toolkit, _view, facts_of
from gonogo.tools import ServerPool, ServerReport, builtin_tools
from gonogo.workspace import InstructionReader

NOW = datetime(2026, 11, 22, tzinfo=UTC)
TOOL = {"description": "d", "parameters": {"type": "object"}}


def sighting(digest: str, *, accepted: bool, **more: object) -> Sighting:
    when = NOW + timedelta(minutes=int(digest))
    return Sighting(
        name="a", position=int(digest), digest=digest, definition={**TOOL, **more}, seen_at=when,
        accepted_at=when if accepted else None, accepted_by="ann" if accepted else None,
    )  # fmt: skip


OLD, NEW = sighting("1", accepted=True), sighting("2", accepted=False, description="other")
OWN = {"mcp__x__a": ToolHistory([OLD]), "mcp__x__b": ToolHistory([OLD, NEW])}


def test_a_server_is_shown_with_its_tools_and_what_was_seen_of_them() -> None:
    report = ServerReport(
        name="x", place="/bin/x", state="ready", version="1.2", tools=("mcp__x__a",),
        refused={"B": "no"}, agents=("coder",),
    )  # fmt: skip
    first = {"digest": "1", "seen_at": OLD.seen_at, "accepted_at": OLD.seen_at}
    assert _view(report, OWN).model_dump(exclude_none=True) == {
        "name": "x", "place": "/bin/x", "state": "ready", "version": "1.2",
        "tools": ["mcp__x__a"], "refused": {"B": "no"}, "agents": ["coder"], "parts": {},
        "changed": {"mcp__x__b": ["description"]},
        "sightings": {
            "mcp__x__a": [first], "mcp__x__b": [first, {"digest": "2", "seen_at": NEW.seen_at}],
        },
    }  # fmt: skip


def test_a_server_that_has_not_run_is_shown_with_what_it_listed_when_it_did() -> None:
    idle = _view(ServerReport(name="x", place="/bin/x", state="failed", error="gone"), OWN)
    assert (idle.tools, idle.version, idle.error) == (["mcp__x__a", "mcp__x__b"], None, "gone")
    assert (idle.refused, idle.agents) == ({}, [])


async def nothing_seen(definitions: object) -> dict[str, ToolHistory]:
    del definitions
    return {}


def test_what_a_server_may_bring_is_a_name_that_a_profile_may_have() -> None:
    own, pool = builtin_tools(), ServerPool({}, nothing_seen)
    names = KnownNames(own, pool)
    assert (len(names), set(names)) == (len(own), set(own))
    assert "read_file" in names
    assert "cook" not in names
    kit = Toolkit(own=own, servers=None, reader=InstructionReader())
    assert (kit.names, kit.tools) == (own, own)
    assert set(kit.for_gate) > set(own)
    lent = Toolkit(own=own, servers=pool, reader=InstructionReader())
    assert isinstance(lent.names, KnownNames)
    assert set(lent.tools) == set(own)


def test_what_comes_while_we_run_is_looked_up_when_it_is_asked_for() -> None:
    own, pool = builtin_tools(), ServerPool({}, nothing_seen)
    classes = Toolkit(own=own, servers=pool, reader=InstructionReader()).classes
    assert classes["read_file"] is ToolClass.PURE
    assert dict(classes) == {name: tool.tool_class for name, tool in own.items()}
    assert dict(classes) == Toolkit(own=own, servers=None, reader=InstructionReader()).classes
    pool.known["later"] = own["execute_command"]
    assert classes["later"] is own["execute_command"].tool_class
    assert (len(classes), set(classes)) == (len(own) + 1, {*own, "later"})
    with pytest.raises(KeyError, match=r"^'cook'$"):
        classes["cook"]
    assert Seen(["a"], str.upper)["a"] == "A"


def test_an_agent_is_known_by_its_own_tools_and_those_that_it_is_lent() -> None:
    profiles = load_profiles(None, known_tools=builtin_tools())
    coder = profiles["coder"]
    plain = facts_of(profiles, None)
    assert set(plain) == set(profiles)
    assert plain["coder"] == ProfileFacts(tools=coder.tools, may_write=coder.limits)
    lent = facts_of(profiles, ServerPool({}, nothing_seen))
    assert (lent["coder"], set(lent)) == (plain["coder"], set(profiles))
