"""What a tool runs with: the box, the limits, and what of it a person let it have."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fakes import rows
from gonogo.domain.errors import ToolFailed
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import ToolClass, Verdict
from gonogo.execution.agent import Gate, Hands, Means, load_profiles
from gonogo.execution.agent.call_log import _named_paths, _readable
from gonogo.execution.agent.gate import Gated, Surroundings
from gonogo.execution.agent.means import everything
from gonogo.policy import load_reviews
from gonogo.runtime import bare_thread, open_gate
from gonogo.settings import Settings
from gonogo.store import Store, Tx
from gonogo.store.calls import add_calls
from gonogo.store.sessions import set_session
from gonogo.tools import Bench, builtin_tools
from gonogo.workspace import Ceilings, Guarded

RULES = '[[rule]]\ntool = "read_file"\npath = ".env"\ndecision = "allow"\n'


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    (tmp_path / "ws").mkdir()
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    settings = Settings(
        home=tmp_path / "home", config=tmp_path, workspace=tmp_path / "ws", rules=rules
    )
    tools = builtin_tools()
    return open_gate(settings, tools, load_profiles(known_tools=tools), load_reviews(None, None))


def gated(path: Path, **verdict: Any) -> Gated:
    found = Verdict(decision="allow", reason="", rule="", **{"run_as": "'ls'", **verdict})
    around = Surroundings(
        guarded=Guarded(root=path, unlooked=["big"]), programs={"ls": "/usr/bin/ls"},
    )  # fmt: skip
    return Gated(
        tool="execute_command", tool_class=ToolClass.OTHER, verdict=found, digest="",
        arguments={"command": "ls", "network": ["a.org"]}, base_hashes={"a": "1"}, around=around,
    )  # fmt: skip


def test_a_command_that_nobody_saw_runs_as_it_was_parsed_and_sees_no_secret(
    gate: Gate, tmp_path: Path
) -> None:
    means = Means(
        command_timeout=7, command_output=99, hidden=(tmp_path / "h",), result_tokens=5,
        ceilings=Ceilings(),
    )  # fmt: skip
    thread, found = bare_thread(tmp_path / "ws", "coder"), gated(tmp_path, expects=("a.lock",))

    def bench(*, asked: bool, **more: Any) -> Bench:
        return means.bench(gate, thread, gated(tmp_path, expects=("a.lock",), **more), asked=asked)

    alone = bench(asked=False)
    assert (alone.run_as, alone.writes_git, alone.network) == ("'ls'", False, None)
    assert (alone.command_timeout, alone.output_cap, alone.result_tokens) == (7, 99, 5)
    assert alone.hidden == (tmp_path / "home", tmp_path / "h")
    assert (alone.base_hashes, alone.programs) == ({"a": "1"}, {"ls": "/usr/bin/ls"})
    assert alone.guards is not None
    assert (alone.unlooked, alone.ceilings, alone.sandbox) == ((), means.ceilings, gate.sandbox)
    assert alone.workspace.root == tmp_path / "ws"
    assert (alone.read_only, alone.on_copy) == (False, False)
    assert [alone.may_change(path) for path in ("a.lock", "b.lock")] == [True, False]
    assert alone.shown is not None
    assert [alone.shown(path) for path in (".env", "id_rsa")] == [True, False]
    assert alone.search_path() == gate.programs.elsewhere(tmp_path / "ws")

    seen = bench(asked=True)
    assert (seen.run_as, seen.shown, seen.unlooked) == (None, None, {"big"})
    assert seen.may_change is everything
    assert seen.may_change("b.lock")
    assert seen.network is not None
    assert [str(host) for host in seen.network.hosts or ()] == ["a.org"]
    assert bench(asked=True, git_as="'git'").run_as == "'git'"
    as_git = bench(asked=False, git_as="'git' 'add'")
    assert (as_git.run_as, as_git.writes_git, as_git.shown) == ("'git' 'add'", True, None)
    named = bench(asked=False, network=["b.org"]).network
    assert named is not None
    assert [str(host) for host in named.hosts or ()] == ["b.org"]
    bare = means.bench(gate, thread, replace(found, around=None), asked=True)
    assert (bare.programs, bare.guards, bare.unlooked) == ({}, None, ())


def test_what_only_reads_writes_nothing_and_what_checks_writes_in_a_copy(
    gate: Gate, tmp_path: Path
) -> None:
    thread = bare_thread(tmp_path / "ws", "coder")
    checks = replace(thread, words="ls")
    reads = gated(tmp_path, read_only=True)

    def how(thread: Any, *, asked: bool) -> tuple[bool, bool]:
        found = Means().bench(gate, thread, reads, asked=asked)
        return found.read_only, found.on_copy

    assert how(thread, asked=False) == (True, False)
    assert how(checks, asked=False) == (True, True)
    assert how(checks, asked=True) == (False, False)


def test_an_operator_who_says_nothing_lets_a_command_have_so_much() -> None:
    means = Means()
    assert (means.command_timeout, means.command_output, means.result_tokens) == (
        120.0, 60_000, 8_000,
    )  # fmt: skip
    assert (means.hidden, means.network.hosts) == ((), False)
    assert Hands.__struct_defaults__[-1] == timedelta(minutes=10)


async def test_a_result_is_read_again_only_in_its_own_conversation(store: Store) -> None:
    thread = replace(bare_thread(Path("/code")), session_id="s1", name="main")

    def tell(tx: Tx) -> None:
        rows.begin(tx, "s1", "s2")
        ended = {"status": CallStatus.COMPLETED, "finished_at": rows.NOW, "result": 1}
        add_calls(tx, [
            rows.call("mine", **ended), rows.call("open", position=2),
            rows.call("other", thread="p1/1/a#1", **ended),
            rows.call("theirs", session_id="s2", **ended),
        ])  # fmt: skip

    await store.write(tell)
    found = [await store.read(_readable, thread, each)
             for each in ("mine", "open", "other", "theirs", "gone")]  # fmt: skip
    assert [call and call.id for call in found] == ["mine", None, None, None, None]
    await store.write(set_session, "s1", deleted=True)
    assert await store.read(_readable, thread, "mine") is None


def test_the_paths_that_a_call_names_are_texts() -> None:
    named = {"path": "a", "source": "b", "destination": "c", "cwd": "d"}
    assert _named_paths(rows.call(arguments=named)) == ["a", "b", "c"]
    assert _named_paths(rows.call(arguments={"path": 1})) == []


async def test_a_result_that_may_hold_a_secret_is_not_read_again(
    gate: Gate, store: Store, tmp_path: Path
) -> None:
    hands: Any = Hands(
        store=store, desk=None, gate=gate, traces=None, watches=None,
    )  # fmt: skip
    thread = replace(bare_thread(tmp_path / "ws"), session_id="s1", name="main")

    def tell(tx: Tx) -> None:
        rows.begin(tx)
        ended = {"finished_at": rows.NOW, "status": CallStatus.COMPLETED}
        add_calls(tx, [
            rows.call("a", **ended, result={"n": 1}), rows.call("b", **ended, error="no"),
            rows.call("c", **ended, tool="read_file", arguments={"path": ".env"}),
        ])  # fmt: skip

    await store.write(tell)
    assert [await hands._output(thread, each) for each in "ab"] == [{"n": 1}, "no"]
    said = []
    for each in ("c", "gone"):
        with pytest.raises(ToolFailed) as refused:
            await hands._output(thread, each)
        said.append((refused.value.kind, str(refused.value)))
    assert said == [
        ("secret", "'.env' may contain secrets: use read_file again"),
        ("not_found", "This conversation has no result of 'gone'"),
    ]
