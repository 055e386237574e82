"""The gate: what a plan was approved for goes only as far as its reviewers could see."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from fakes import rows
from gonogo.domain.errors import InvalidMessage, RateLimited
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan import Scope
from gonogo.domain.records import SessionRule
from gonogo.domain.tool_calls import Access, Grant, Sighting, ToolHistory
from gonogo.execution.agent import ConversationGrants, Thread, load_profiles
from gonogo.execution.agent.gate import (
    Gated,
    Surroundings,
    allowed_tools,
    change_of,
    make_session_rule,
    remove_session_rule,
    rules_of,
)
from gonogo.i18n import say
from gonogo.policy import RuleText, load_reviews
from gonogo.runtime import bare_thread, open_gate
from gonogo.settings import Settings
from gonogo.store import Store, Tx
from gonogo.store.events import entries
from gonogo.store.sessions import active_rules
from gonogo.tools import builtin_tools
from gonogo.workspace import Guarded, Sandbox

REVIEW = '[[review]]\npath = "db/**"\nreviewers = ["bob"]\n'
SCOPE = Scope(commands=("touch",), paths=("db/**", "src/**"))


async def granted(thread: Thread) -> ConversationGrants:
    del thread
    return ConversationGrants(
        grant=Grant(grant_id="g", plan_id="p", revision=1, subtask_id="s", scope=SCOPE)
    )


@pytest.mark.parametrize(
    ("reviewed", "command", "decision", "rule"),
    [
        ("", "touch db/x", "allow", "grant:p#s"),
        (REVIEW, "touch db/x", "ask", "default:other"),
        (REVIEW, "touch src/x", "allow", "grant:p#s"),
    ],
)
async def test_a_grant_lets_no_command_touch_a_path_that_others_review(
    tmp_path: Path, reviewed: str, command: str, decision: str, rule: str
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(reviewed)
    (tmp_path / "ws").mkdir()
    tools = builtin_tools()
    settings = Settings(home=tmp_path / "home", config=tmp_path, workspace=tmp_path / "ws")
    gate = open_gate(
        settings, tools, load_profiles(None, known_tools=tools), load_reviews(None, rules), granted
    )
    thread = replace(bare_thread(tmp_path / "ws", "coder"), plan_id="p", revision=1, subtask_id="s")

    found = await gate.judge(thread, "execute_command", {"command": command})

    assert (found.verdict.decision, found.verdict.rule) == (decision, rule)


@pytest.mark.parametrize(
    ("agent", "reviewed", "more", "remote", "rule"),
    [
        ("coder", "", {}, False, "builtin:readers"),
        ("coder", "", {"readers": False}, False, "default:other"),
        ("coder", "", {"sandbox": False}, False, "default:other"),
        ("coder", "", {}, True, "default:other"),
        ("coder", '[[review]]\ncommand = "cat"\napprovals = 2\n', {}, False, "default:other"),
        ("coder", '[[review]]\npath = "src/**"\napprovals = 2\n', {}, False, "default:other"),
        ("coder", '[[review]]\npath = "db/**"\napprovals = 2\n', {}, False, "builtin:readers"),
        ("architect", "", {}, False, "builtin:unknown-tool"),
    ],
)
@pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")
async def test_readers_are_held_to_reading_by_the_sandbox_and_by_nothing_else(
    tmp_path: Path, agent: str, reviewed: str, more: dict[str, bool], remote: bool, rule: str
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(reviewed)
    (tmp_path / "ws").mkdir()
    tools = builtin_tools()
    settings = Settings(home=tmp_path / "home", config=tmp_path, workspace=tmp_path / "ws", **more)
    profiles = load_profiles(None, known_tools=tools)
    gate = open_gate(settings, tools, profiles, load_reviews(None, rules))
    thread = bare_thread(tmp_path / "ws", agent, remote=remote)

    found = await gate.judge(thread, "execute_command", {"command": "cat src/a"})

    assert found.verdict.rule == rule
    held = rule == "builtin:readers"
    assert found.verdict.read_only is held
    assert found.tool_class == ("pure" if held else "other")
    assert gate.writes_nothing(thread, found.verdict, asked=False) is held
    assert not gate.writes_nothing(thread, found.verdict, asked=True)


async def test_a_call_that_cannot_be_prepared_is_refused_for_what_stands_in_its_way(
    tmp_path: Path,
) -> None:
    (tmp_path / "ws").mkdir()
    tools = builtin_tools()
    settings = Settings(home=tmp_path / "home", config=tmp_path, workspace=tmp_path / "ws")
    reviews = load_reviews(None, None)
    gate = open_gate(settings, tools, load_profiles(None, known_tools=tools), reviews)

    found = await gate.judge(bare_thread(tmp_path / "ws", "coder"), "read_file", {"path": "none"})

    assert (found.verdict.decision, found.verdict.rule) == ("deny", "builtin:file_not_found")
    assert (found.arguments, (found.error or "").split(":")[0]) == (
        {"path": "none"},
        "file_not_found",
    )


# What stands around a command ---------------------------------------------------------------------


def test_what_a_box_could_not_look_at_is_shown_as_far_as_anybody_reads_it() -> None:
    missed = tuple(f"d{number:02}" for number in range(22))
    own = {"./a": "bin/a", "a": "bin/a", "b": "bin/b"}

    def seen(*paths: str, boxed: bool = True) -> Access:
        around = Surroundings(guarded=Guarded(root=Path("/ws"), unlooked=[*paths]), own=own)
        return around.seen_in(Access(command="a"), boxed=boxed)

    assert seen(*missed[:20]).unlooked == missed[:20]
    assert seen(*reversed(missed)).unlooked == (*missed[:20], "… 2 more")
    assert seen(*missed, boxed=False).unlooked == ()
    assert seen().own_programs == ("bin/a", "bin/b")
    assert seen().command == "a"

    around = Surroundings(guarded=Guarded(root=Path("/ws")), own=own)
    assert around.preview("a b") == "# programs of the workspace itself: bin/a, bin/b\na b"
    assert Surroundings(guarded=Guarded(root=Path("/ws"))).preview("a b") == "a b"


async def test_what_cannot_be_judged_is_refused_with_what_would_help(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    tools = builtin_tools()
    settings = Settings(home=tmp_path / "home", config=tmp_path, workspace=tmp_path / "ws")
    reviews = load_reviews(None, None)
    gate = open_gate(settings, tools, load_profiles(None, known_tools=tools), reviews)
    thread = bare_thread(tmp_path / "ws", "debug")

    def told(found: Gated) -> tuple[str, dict[str, object], str | None, str, str]:
        verdict = found.verdict
        assert verdict.reason == found.error
        assert (found.tool_class, found.base_hashes, found.rules) == ("other", {}, None)
        [step] = found.trace.steps
        assert step.decided == verdict.rule
        return found.tool, found.arguments, found.error, verdict.decision, verdict.rule

    own = ", ".join(allowed_tools(gate, thread))
    said = say("model_unknown_tool", "en", tool="fly", tools=own)
    assert told(await gate.judge(thread, "fly", {"a": 1})) == (
        "fly", {"a": 1}, f"unknown_tool: {said}", "deny", "builtin:unknown-tool",
    )  # fmt: skip
    assert own.split(", ")[-1] == "read_output"
    for problem, named in ((None, "not an object"), ("half", "half")):
        said = say("model_bad_arguments", "en", problem=named)
        assert told(await gate.judge(thread, "read_file", None, problem)) == (
            "read_file", {}, f"invalid_arguments: {said}", "deny", "builtin:arguments",
        )  # fmt: skip
    wrong = told(await gate.judge(thread, "read_file", {"path": 1}))
    assert wrong[:2] == ("read_file", {"path": 1})
    assert (wrong[2] or "").startswith("invalid_arguments: ")
    assert wrong[3:] == ("deny", "builtin:arguments")
    lost = rows.call(tool="fetch", arguments={"u": 1})
    assert told(gate.given_up(thread, lost)) == (
        "fetch", {"u": 1}, f"internal: {say('model_given_up', 'en')}", "deny", "builtin:given-up",
    )  # fmt: skip


def test_what_a_server_changed_is_named_in_words() -> None:
    def seen(number: int, accepted: bool, **definition: str) -> Sighting:
        at = rows.NOW if accepted else None
        given = {"description": "d", "parameters": "p", **definition}
        return Sighting(
            name="mcp__x__y", position=number, digest=f"{number}", definition=given,
            seen_at=rows.NOW, accepted_at=at, accepted_by=None,
        )  # fmt: skip

    first = seen(1, True)
    assert change_of("mcp__x__y", ToolHistory([first])) == ""
    one = ToolHistory([first, seen(2, False, description="e")])
    both = ToolHistory([first, seen(2, False, description="e", parameters="q")])
    said = "mcp__x__y has changed since it was accepted: its description"
    assert change_of("mcp__x__y", one) == said
    assert change_of("mcp__x__y", both) == f"{said} and parameters"


# The rules of a session ---------------------------------------------------------------------------

ANN = Principal(id="user:ann", name="ann", role=Role.OPERATOR)


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_sessions_rule_is_kept_and_noted_whole_and_so_is_its_end(
    store: Store, kind: str
) -> None:
    text = RuleText(tool="write_file", path="a.txt", decision="allow")

    def make(tx: Tx) -> list[SessionRule]:
        rows.begin(tx)
        rows.begin_plan(tx)
        first = make_session_rule(tx, "s1", text, ANN)
        second = make_session_rule(tx, "s1", text, ANN, "p1", call_id="call_1")
        remove_session_rule(tx, first, ANN)
        remove_session_rule(tx, first, ANN)
        return [first, second]

    first, second = await store.write(make)
    written = {"tool": "write_file", "path": "a.txt", "decision": "allow"}
    assert replace(first, id="") == SessionRule(
        id="", session_id="s1", position=1, rule=written, made_by="ann", created_at=rows.NOW,
        ended_at=None, plan_id=None,
    )  # fmt: skip
    assert (second.position, second.plan_id) == (2, "p1")
    assert [each.id for each in await store.read(active_rules, "s1")] == [second.id]
    found = await store.read(entries, "s1")
    assert [(each.actor, each.action, each.subject) for each in found] == [
        ("user:ann", "rule.made", "session:1"), ("user:ann", "rule.made", "session:2"),
        ("user:ann", "rule.removed", "session:1"),
    ]  # fmt: skip
    parts = [each.details.pop("reason_parts", {}).get("params") for each in found]
    assert parts == [
        {"rule": f"session:{number}", "decision": "allow", "subject": "a.txt"} for number in (1, 2)
    ] + [None]
    assert [each.details for each in found] == [
        {"rule_id": first.id, "text": written, "reason": "rule session:1: allow a.txt"},
        {
            "rule_id": second.id, "text": written, "reason": "rule session:2: allow a.txt",
            "plan_id": "p1", "call_id": "call_1",
        },
        {"rule_id": first.id, "text": written},
    ]  # fmt: skip

    held = {plan: [rule.name for rule, _ in await store.read(rules_of, "s1", plan)]
            for plan in (None, "p1", "p2")}  # fmt: skip
    assert held == {None: [], "p1": ["session:2"], "p2": []}
    [(_, made_at)] = await store.read(rules_of, "s1", "p1")
    assert made_at == rows.NOW


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_session_has_so_many_rules_and_none_with_a_defect(store: Store, kind: str) -> None:
    text = RuleText(tool="write_file", path="a.txt", decision="allow")

    def most(tx: Tx) -> None:
        rows.begin(tx)
        for _ in range(256):
            make_session_rule(tx, "s1", text, ANN)

    await store.write(most)
    with pytest.raises(RateLimited) as refused:
        await store.write(make_session_rule, "s1", text, ANN)
    assert str(refused.value) == "A session can have at most 256 rules; remove some of them first"
    await store.write(remove_session_rule, (await store.read(active_rules, "s1"))[0], ANN)
    await store.write(make_session_rule, "s1", text, ANN)

    with pytest.raises(InvalidMessage, match=r"^rule: "):
        await store.write(make_session_rule, "s2", RuleText(decision="allow"), ANN)
