"""What a subtask could do without a question: tools, files and commands that its plan grants."""

import pytest

from gonogo.domain.findings import Overlaps, ProfileFacts, Reach, own_command, own_paths, reach_of
from gonogo.domain.plan import Scope, Subtask
from gonogo.domain.tool_calls import ToolClass

TOOLS = {
    "read_file": ToolClass.PURE, "write_file": ToolClass.IDEMPOTENT,
    "apply_patch": ToolClass.IDEMPOTENT, "move_file": ToolClass.OTHER,
    "delete_file": ToolClass.IRREVERSIBLE, "execute_command": ToolClass.OTHER,
    "create_plan": ToolClass.CONTROL, "mcp__docs__put": ToolClass.OTHER,
}  # fmt: skip
AGENTS = {
    "coder": ProfileFacts(tools=("read_file", "write_file", "execute_command")),
    "runner": ProfileFacts(tools=("read_file", "execute_command")),
    "writer": ProfileFacts(tools=("read_file", "write_file"), may_write=("docs/**", "*.md")),
    "reader": ProfileFacts(tools=("read_file", "write_file"), may_write=()),
    "guest": ProfileFacts(tools=("read_file", "mcp__docs__put")),
}
NOTHING = {
    "offered": frozenset(), "usable": frozenset(), "writes": (), "bounded": False,
    "beyond_profile": False, "commands": (),
}  # fmt: skip
WORK = {name: frozenset(profile.tools) for name, profile in AGENTS.items()}


def reach(**more):
    subtask = Subtask(id="a", description="x", **more)
    return reach_of(subtask, AGENTS, TOOLS, Overlaps())


def of_agent(name, **more):
    return Reach(**NOTHING | {"offered": WORK[name], "usable": WORK[name]} | more)


@pytest.mark.parametrize(
    ("agent", "scope", "found"),
    [
        ("coder", {}, {"writes": ("**",)}),
        ("coder", {"paths": ("src/**",)}, {"writes": ("src/**",), "bounded": True}),
        ("coder", {"paths": ()}, {"bounded": True}),
        ("coder", {"tools": ("write_file", "move_file")},
         {"usable": frozenset({"write_file"}), "writes": ("**",)}),
        ("coder", {"tools": ("read_file",)}, {"usable": frozenset({"read_file"})}),
        ("coder", {"tools": ("read_file",), "paths": ("a",)},
         {"usable": frozenset({"read_file"}), "bounded": True, "beyond_profile": True}),
        ("coder", {"tools": ()}, {"usable": frozenset()}),
        ("coder", {"commands": ("make", "ls")}, {"writes": ("**",), "commands": ("make", "ls")}),
        ("runner", {}, {}),
        ("runner", {"paths": ("a",)}, {"bounded": True, "beyond_profile": True}),
        ("writer", {}, {"writes": ("docs/**", "*.md"), "bounded": True}),
        ("writer", {"paths": ("docs/a", "src/b")},
         {"writes": ("docs/a", "src/b"), "bounded": True}),
        ("writer", {"paths": ("src/**",)}, {"bounded": True, "beyond_profile": True}),
        ("reader", {}, {"bounded": True}),
        ("reader", {"paths": ("a",)}, {"bounded": True, "beyond_profile": True}),
        # A foreign tool is never meant unless it is named.
        ("guest", {}, {"usable": frozenset({"read_file"})}),
        ("guest", {"tools": ("mcp__docs__put",)},
         {"usable": frozenset({"mcp__docs__put"}), "writes": ("**",)}),
    ],
)  # fmt: skip
def test_an_agent_reaches_what_its_profile_and_the_scope_have_in_common(agent, scope, found):
    assert reach(agent=agent, scope=Scope(**scope)) == of_agent(agent, **found)


def test_without_a_scope_all_of_an_agents_own_tools_are_meant():
    assert reach(agent="coder") == of_agent("coder", writes=("**",))
    assert reach(agent="nobody") == Reach(**NOTHING)
    assert reach() == Reach(**NOTHING)


@pytest.mark.parametrize(
    ("tool", "inputs", "found"),
    [
        ("write_file", {"path": "a.py"}, {"writes": ("a.py",), "bounded": True}),
        ("write_file", {"path": "${subtasks.b.output}"}, {"writes": ("**",)}),
        ("write_file", {"path": 7}, {"writes": ("**",)}),
        ("write_file", None, {"writes": ("**",)}),
        ("move_file", {"source": "a", "destination": "b"}, {"writes": ("a", "b"), "bounded": True}),
        ("move_file", {"source": "a", "destination": "${subtasks.b}"}, {"writes": ("**",)}),
        ("apply_patch", {"patch": "x", "path": "a"}, {"writes": ("**",)}),
        ("read_file", {"path": "a"}, {"bounded": True}),
        ("execute_command", {"command": "make"}, {"commands": ("make",)}),
        ("execute_command", {"command": ["make"]}, {}),
        ("create_plan", None, {}),
    ],
)
def test_a_tool_of_its_own_reaches_what_its_inputs_name(tool, inputs, found):
    one = frozenset({tool})
    assert reach(tool=tool, inputs=inputs) == Reach(
        **NOTHING | {"offered": one, "usable": one} | found
    )


def test_a_check_is_the_command_that_it_runs_or_the_file_that_it_reads():
    runs = reach(type="validation", inputs={"command": "pytest"})
    one = frozenset({"execute_command"})
    assert runs == Reach(**NOTHING | {"offered": one, "usable": one, "commands": ("pytest",)})
    reads = reach(type="validation", inputs={"file": "a"})
    assert (reads.offered, reads.writes, reads.commands) == (frozenset({"read_file"}), (), ())
    judged = Subtask(id="a", description="x", agent="coder", inputs={"command": "ls", "path": "a"})
    assert (own_command(judged), own_paths(judged)) == ((), ())
    own = Subtask(id="a", description="x", tool="mcp__docs__put")
    assert reach_of(own, AGENTS, TOOLS, Overlaps()).usable == frozenset({"mcp__docs__put"})
