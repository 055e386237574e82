"""What a person should know of a plan is found before they decide, and nothing is made up."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gonogo.domain.checks import DoneCheck
from gonogo.domain.findings import Finding, FindingSeverity, ProfileFacts, findings
from gonogo.domain.paths import covers
from gonogo.domain.plan import RetryPolicy, Revision, Scope, Subtask, SubtaskType
from gonogo.domain.tool_calls import ToolClass, Verdict
from gonogo.policy import read_prefix
from plugins.nightly import examples

TOOLS = {
    "read_file": ToolClass.PURE,
    "write_file": ToolClass.IDEMPOTENT,
    "apply_patch": ToolClass.IDEMPOTENT,
    "move_file": ToolClass.OTHER,
    "delete_file": ToolClass.IRREVERSIBLE,
    "execute_command": ToolClass.OTHER,
    "create_plan": ToolClass.CONTROL,
}
WORK = ("read_file", "write_file", "apply_patch", "move_file", "delete_file", "execute_command")
AGENTS = {
    "coder": ProfileFacts(tools=WORK),
    "debug": ProfileFacts(tools=("read_file", "execute_command"), may_write=()),
    "ask": ProfileFacts(tools=("read_file",), may_write=()),
    "writer": ProfileFacts(tools=("read_file", "write_file"), may_write=("docs/**", "*.md")),
}
SRC = Scope(paths=("src/**",))
DONE = DoneCheck(command="pytest -q")


def problem(command):
    found = read_prefix(command)
    return found if isinstance(found, str) else None


def step(name, *dependencies, agent="coder", scope=None, **more):
    worker = {"agent": None if "tool" in more else agent}
    return Subtask(
        id=name, description="x", dependencies=dependencies, scope=scope, **worker, **more
    )


def check(name="check", *dependencies):
    return step(name, *dependencies, agent="debug", scope=Scope(commands=("pytest -q",)))


def look(*subtasks, **more):
    revision = Revision(plan_id="p", number=1, goal="g", subtasks=subtasks)
    return findings(revision, agents=AGENTS, tools=TOOLS, prefix_problem=problem, **more)


def codes(*subtasks, **more):
    """The codes with their subtasks, without what only tells."""
    found = look(*subtasks, **more)
    return {(f.code, f.subtask_id) for f in found if f.severity != FindingSeverity.INFO}


def told(found):
    """All that findings say."""
    return [(f.severity, f.code, f.subtask_id, f.fields) for f in found]


READS = Scope(tools=("read_file",))


@pytest.mark.parametrize(
    ("subtask", "severity", "code", "fields"),
    [
        ({"agent": "nobody"}, "error", "unknown_agent", {"agent": "nobody"}),
        ({"tool": "nothing"}, "error", "unknown_tool", {"tool": "nothing"}),
        ({"tool": "create_plan"}, "error", "control_tool", {"tool": "create_plan"}),
        ({"agent": "ask", "scope": Scope(tools=("nothing", "read_file"))},
         "error", "unknown_tool", {"tool": "nothing"}),
        ({"tool": "delete_file", "inputs": {"path": "x.md"}},
         "warning", "irreversible_tool", {"tool": "delete_file"}),
        ({"agent": "ask", "scope": Scope(paths=("src/**", "a"))},
         "warning", "cannot_write", {"paths": "src/**, a"}),
        ({"agent": "ask", "scope": Scope(tools=("read_file",), commands=("ls", "cat"))},
         "warning", "commands_without_tool", {"commands": "ls, cat"}),
        ({"agent": "debug", "scope": Scope(commands=("rm x",))},
         "warning", "irreversible_command", {"command": "rm x"}),
        ({"agent": "ask", "condition": "open('x')"}, "error", "condition_invalid",
         {"problem": "condition: there is no function 'open'; correct the expression"}),
        ({"agent": "ask", "condition": "subtasks.b.output.ok"}, "error",
         "condition_unknown_subtask", {"other": "b"}),
        ({"agent": "ask", "condition": "1 + 1"}, "error", "condition_no_answer",
         {"condition": "1 + 1"}),
        ({"agent": "ask", "condition": "false"}, "warning", "condition_never_true",
         {"condition": "false"}),
        ({"agent": "ask", "inputs": {"x": "${A}"}}, "error", "inputs_invalid",
         {"problem": "inputs: '${A}' is not a reference like ${subtasks.ID.output};"
          " write $${ for a plain ${"}),
        ({"agent": "ask", "inputs": {"x": "${subtasks.b.output}"}}, "error",
         "reference_unknown_subtask", {"reference": "${subtasks.b.output}", "other": "b"}),
        ({"agent": "ask", "retry_policy": RetryPolicy(on=("a", "timeout", "b"))}, "warning",
         "unknown_category", {"categories": "a, b"}),
    ],
)  # fmt: skip
def test_a_finding_says_whole_what_it_is_about(subtask, severity, code, fields):
    assert told(look(step("a", **subtask))) == [(severity, code, "a", {"subtask": "a"} | fields)]


def test_a_command_that_its_own_scope_names_is_called_irreversible_once():
    wipe = step(
        "a", tool="execute_command", inputs={"command": "rm x"}, scope=Scope(commands=("rm x",))
    )
    assert [found[1] for found in told(look(wipe))] == ["irreversible_command"]


def test_findings_of_two_subtasks_and_of_a_whole_plan_name_them():
    aside = [
        step("a", agent="ask"), step("b", agent="ask", condition="subtasks.a.output.ok"),
        step("c", agent="ask", inputs={"x": "${subtasks.a.output}"}),
    ]  # fmt: skip
    assert told(look(*aside)) == [
        ("error", "condition_not_dependency", "b", {"subtask": "b", "other": "a"}),
        ("error", "reference_not_dependency", "c",
         {"subtask": "c", "reference": "${subtasks.a.output}", "other": "a"}),
    ]  # fmt: skip
    outside = Scope(paths=("/etc/x", ".git/x", "src/a.py"))
    assert told(look(step("a", scope=outside))) == [
        ("warning", "path_outside", "a", {"subtask": "a", "path": "/etc/x"}),
        ("warning", "path_protected", "a", {"subtask": "a", "path": ".git/x"}),
        ("warning", "no_verification", None, {"subtasks": "a"}),
    ]
    moved = step("a", tool="write_file", inputs={"path": "b.md"}, scope=Scope(paths=("a.md",)))
    assert told(look(moved)) == [
        ("warning", "outside_scope", "a", {"subtask": "a", "what": "b.md"})
    ]
    free = [step("a"), step("b", scope=Scope(tools=("write_file",)))]
    assert told(look(*free)) == [
        ("warning", "no_scope", "a", {"subtask": "a"}),
        ("warning", "no_paths", "b", {"subtask": "b"}),
        ("warning", "overlapping_writers", "a", {"subtask": "a", "others": "b", "path": "x"}),
        ("warning", "no_verification", None, {"subtasks": "a, b"}),
    ]
    asks = step("a", agent="ask", approval_required=True)
    assert told(look(asks, attended=False)) == [
        ("warning", "nobody_to_approve", "a", {"subtask": "a"})
    ]


@pytest.mark.feature(204)
def test_a_plan_that_is_in_order_has_nothing_but_its_longest_chain():
    found = look(step("a", scope=SRC, done_when=(DONE,)), check("c", "a"))

    assert found == (
        Finding(
            severity=FindingSeverity.INFO,
            code="critical_path",
            fields={"path": "a → c", "minutes": "10"},
        ),
    )
    assert found[0].key == "finding_critical_path"
    assert look(check("only")) == ()


@pytest.mark.feature(225)
def test_who_acts_without_a_check_is_named_once_for_your_information():
    def named(*subtasks):
        found = [f for f in look(*subtasks) if f.code == "no_checks"]
        assert {f.severity for f in found} <= {FindingSeverity.INFO}
        return [f.fields["subtasks"] for f in found]

    two = (step("a", scope=SRC), step("b", "a", scope=SRC))
    assert named(*two, check("c", "b")) == ["a, b"]
    assert named(two[0], step("b", "a", scope=SRC, done_when=(DONE,)), check("c", "b")) == ["a"]
    # A warning names those already, texts for people are no matter for checks, and others' ends
    # are not their own word.
    assert named(*two) == []
    prose = step("a", scope=Scope(paths=("docs/*.md",)))
    assert named(prose, check("c", "a")) == []
    tool = step("a", tool="write_file", inputs={"path": "x.py"})
    judge = step("b", scope=SRC, type="validation")
    assert named(tool, judge, check("c", "a", "b")) == []
    assert ("no_verification", None) not in codes(step("a", scope=SRC, done_when=(DONE,)))


def asked(reason: str) -> Verdict:
    return Verdict(decision="ask", reason=reason, rule="builtin:x")


def denied(reason: str) -> Verdict:
    return Verdict(decision="deny", reason=reason, rule="builtin:x")


@pytest.mark.feature(225)
def test_a_check_that_will_ask_is_a_warning():
    asks = {"make > log": asked("not understood"), "make > .git/x": denied("protected")}
    checked = step("a", scope=SRC, done_when=(DoneCheck(command="make > log"), DONE))
    found = [f for f in look(checked, check_asks=asks.get) if f.code == "check_asks"]
    never = step("a", scope=SRC, done_when=(DoneCheck(command="make > .git/x"), DONE))
    assert "check_denied" in {f.code for f in look(never, check_asks=asks.get)}

    [finding] = found
    assert (finding.severity, finding.subtask_id) == (FindingSeverity.WARNING, "a")
    assert (finding.fields["command"], finding.fields["problem"]) == (
        "make > log",
        "not understood",
    )
    assert ("check_asks", "a") not in codes(checked)


@pytest.mark.feature(204)
def test_an_unknown_agent_or_tool_is_an_error():
    assert codes(step("a", agent="nobody")) == {("unknown_agent", "a")}
    assert codes(step("a", tool="nothing")) == {("unknown_tool", "a")}
    assert codes(step("a", tool="create_plan")) == {("control_tool", "a")}
    assert ("unknown_tool", "a") in codes(
        step("a", agent="ask", scope=Scope(tools=("nothing", "read_file")))
    )
    errors = {f.code for f in look(step("a", agent="nobody")) if f.severity == "error"}
    assert errors == {"unknown_agent"}


def test_a_scope_with_tools_that_the_agent_lacks_is_shown_and_an_error_when_none_is_left():
    some = look(step("a", agent="ask", scope=Scope(tools=("read_file", "write_file"))))
    none = look(step("a", agent="ask", scope=Scope(tools=("write_file",))))

    assert [(f.code, f.severity) for f in some] == [("tools_not_offered", "warning")]
    assert [(f.code, f.severity) for f in none] == [("tools_not_offered", "error")]
    assert some[0].fields == {"subtask": "a", "tools": "write_file"}


@pytest.mark.parametrize(
    ("agent", "paths", "cannot"),
    [
        ("ask", ("src/**",), True),
        ("debug", ("src/a.py",), True),
        ("writer", ("src/**", "tests/**"), True),
        ("writer", ("src/**", "docs/a.txt"), False),
        ("writer", ("README.md",), False),
        ("coder", ("src/**",), False),
    ],
)
def test_paths_that_the_agent_may_not_write_are_shown(agent, paths, cannot):
    found = codes(step("a", agent=agent, scope=Scope(paths=paths)), check("c", "a"))

    assert found == ({("cannot_write", "a")} if cannot else set())


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/etc/passwd", "path_outside"),
        ("../up/**", "path_outside"),
        ("~/x", "path_outside"),
        (".git/**", "path_protected"),
        (".vscode/tasks.json", "path_protected"),
        ("**/.git/x", None),
        (".", None),
        ("./", None),
        ("src/**", None),
    ],
)
def test_paths_that_nobody_may_write_are_shown(path, code):
    found = codes(step("a", scope=Scope(paths=(path,))), check("c", "a"))

    assert found == ({(code, "a")} if code else set())


def test_commands_that_the_plan_cannot_allow_are_shown():
    bare = look(step("a", agent="debug", scope=Scope(commands=("python", "pytest -q"))))

    refused = {"subtask": "a", "command": "python", "problem": problem("python")}
    assert told(bare) == [("warning", "prefix_refused", "a", refused)]
    assert "'python'" in bare[0].fields["problem"]
    assert ("commands_without_tool", "a") in codes(
        step("a", agent="ask", scope=Scope(commands=("ls",)))
    )
    assert ("commands_without_tool", "a") in codes(
        step("a", agent="debug", scope=Scope(tools=("read_file",), commands=("ls",)))
    )


@pytest.mark.feature(204)
def test_a_writing_step_without_a_scope_is_shown():
    assert codes(step("a"), check("c", "a")) == {("no_scope", "a")}
    assert codes(step("a", scope=Scope(tools=("write_file",))), check("c", "a")) == {
        ("no_paths", "a")
    }
    assert codes(step("a", tool="apply_patch", inputs={"patch": "x"}), check("c", "a")) == {
        ("no_scope", "a")
    }
    assert codes(step("a", scope=Scope(tools=("read_file",)))) == set()
    assert codes(step("a", agent="writer"), check("c", "a")) == set()
    assert codes(step("a", agent="debug"), step("b", agent="ask")) == set()


@pytest.mark.feature(204)
@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (("src/**",), ("src/a.py",), True),
        (("src/*.py",), ("src/sub/a.py",), False),
        (("src/**",), ("tests/**", "docs/**"), False),
        (("src/**", "docs/x.md"), ("docs/*.md",), True),
    ],
)
def test_writers_in_parallel_branches_that_may_meet_are_shown(one, other, overlap):
    a, b = step("a", scope=Scope(paths=one)), step("b", scope=Scope(paths=other))

    found = [f for f in look(a, b, check("c", "a", "b")) if f.code == "overlapping_writers"]
    assert bool(found) is overlap
    for finding in found:
        assert (finding.subtask_id, finding.fields["others"]) == ("a", "b")
        assert covers(one, finding.fields["path"])
        assert covers(other, finding.fields["path"])


def test_writers_that_wait_for_each_other_do_not_overlap():
    chain = [step("a", scope=SRC), step("m", "a", agent="ask"), step("b", "m", scope=SRC)]

    assert codes(*chain, check("c", "b")) == set()
    assert codes(*reversed(chain), check("c", "b")) == set()


def test_a_writer_without_a_scope_may_meet_every_other():
    found = codes(step("a"), step("b", scope=SRC), check("c", "a", "b"))

    assert ("overlapping_writers", "a") in found


def test_a_tool_writes_where_its_inputs_say():
    def write(name, **inputs):
        return step(name, tool="write_file", inputs={"content": "x", **inputs})

    assert codes(write("a", path="x.txt"), write("b", path="y.txt")) == set()
    assert codes(write("a", path="x.py"), write("b", path="x.py"), check("c", "a", "b")) == {
        ("overlapping_writers", "a")
    }
    assert codes(write("a", path="${subtasks.c.output}", x=1), check("c")) >= {("no_scope", "a")}


def test_many_overlapping_writers_are_named_in_short():
    steps = [step(f"s{n}", scope=SRC) for n in range(9)]
    found = [f for f in look(*steps, check("c", *(s.id for s in steps))) if f.subtask_id == "s0"]

    assert [f.fields["others"] for f in found] == ["s1, s2, s3, s4, s5, … (+3)"]


@pytest.mark.feature(204)
@pytest.mark.parametrize(
    "after",
    [
        check("c", "a"),
        step("c", "a", agent="ask", type=SubtaskType.VALIDATION),
        step("c", "a", agent="debug"),
        step("c", "a", tool="execute_command", inputs={"command": "pytest -q"}),
        step("c", "a", scope=Scope(tools=("execute_command",), commands=("pytest",))),
    ],
)
def test_a_step_that_looks_at_what_was_written_is_verification(after):
    assert codes(step("a", scope=SRC), after) == set()
    assert codes(step("a", scope=Scope(paths=("src/**",), commands=("pytest -q",)))) == set()


@pytest.mark.feature(204)
def test_what_nobody_looks_at_is_shown_unless_it_is_prose():
    alone = look(step("a", scope=SRC), check("before"))
    assert [(f.code, f.fields) for f in alone] == [("no_verification", {"subtasks": "a"})]

    assert codes(step("a", scope=Scope(paths=("docs/**/*.md", "CHANGES.rst")))) == set()


@pytest.mark.feature(204)
def test_steps_that_cannot_be_taken_back_are_shown():
    scope = Scope(paths=("src/**",), tools=("delete_file",), commands=("pytest",))
    assert codes(step("a", scope=scope)) >= {("irreversible_tool", "a")}
    assert codes(step("a", tool="delete_file", inputs={"path": "x.md"})) == {
        ("irreversible_tool", "a")
    }


@pytest.mark.parametrize(
    ("command", "final"),
    [
        ("rm -r build", "rm -r build"),
        ("git push", "git push"),
        ("git -C x push origin", "git -C x push origin"),
        ("npm publish", "npm publish"),
        ("make deploy", "make deploy"),
        ("pytest -q && /bin/rm x", "/bin/rm x"),
        ("sudo A=1 mkfs.ext4 /dev/x", "mkfs.ext4 /dev/x"),
        ("find . -delete", "find . -delete"),
        ("twine upload dist/x", "twine upload dist/x"),
        ("gh pr merge 1", "gh pr merge 1"),
        ("gh api x", "gh api x"),
        ("docker push x", "docker push x"),
        ("docker volume prune", "docker volume prune"),
        ("podman push x", "podman push x"),
        ("podman volume ls", "podman volume ls"),
        ("redis-cli flushall", "redis-cli flushall"),
        ("redis-cli flushdb", "redis-cli flushdb"),
        ("git filter-branch x", "git filter-branch x"),
        ("rclone --delete x", "rclone --delete x"),
        ("npm PUBLISH", "npm PUBLISH"),
        ("ls; rm x", "rm x"),
        ("ls\n(rm x)", "rm x"),
        ("ls | 'rm' x", "rm x"),
        ("git -C a -C push", None),
        ("git status", None),
        ("pytest tests/test_deploy.py", None),
        ("npm run build", None),
        ("", None),
        ("ruff format", None),
    ],
)
def test_commands_that_cannot_be_taken_back_are_known(command, final):
    found = look(step("a", tool="execute_command", inputs={"command": command}))

    assert [f.fields["command"] for f in found] == ([final] if final else [])


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ('subtasks.a.status == "completed"', None),
        ("size(subtasks) > 1", None),
        ('subtasks.a.status == "failed"', "condition_never_true"),
        ("false", "condition_never_true"),
        ("1 + 1", "condition_no_answer"),
        ("subtasks.a.status", "condition_no_answer"),
        ("subtasks.side.output.ok", "condition_not_dependency"),
        ("subtasks.c.output.ok", "condition_not_dependency"),
        ("subtasks.nobody.output.ok", "condition_unknown_subtask"),
        ("open('x')", "condition_invalid"),
    ],
)
def test_conditions_that_cannot_be_met_are_shown(condition, code):
    found = codes(
        step("a", agent="ask"), step("side", agent="ask"),
        step("c", "a", agent="ask", condition=condition),
    )  # fmt: skip

    assert found == ({(code, "c")} if code else set())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("${subtasks.a.output}", None),
        ("${subtasks.side.output}", "reference_not_dependency"),
        ("${subtasks.nobody.output}", "reference_unknown_subtask"),
        ("${HOME}", "inputs_invalid"),
    ],
)
def test_references_that_cannot_be_met_are_shown(text, code):
    found = codes(
        step("a", agent="ask"), step("side", agent="ask"),
        step("b", "a", agent="ask"), step("c", "b", agent="ask", inputs={"x": [text]}),
    )  # fmt: skip

    assert found == ({(code, "c")} if code else set())


def test_a_step_that_asks_where_nobody_answers_is_shown():
    asks = step("a", agent="ask", approval_required=True)

    assert codes(asks) == set()
    assert codes(asks, attended=False) == {("nobody_to_approve", "a")}


def test_a_retry_on_what_there_is_not_is_shown():
    policy = RetryPolicy(max_attempts=2, on=("timeout", "tiemout"))
    found = look(step("a", agent="ask", retry_policy=policy))

    assert [(f.code, f.fields["categories"]) for f in found] == [("unknown_category", "tiemout")]


def test_errors_come_first_and_there_are_not_too_many():
    many = [step(f"s{n}", agent="ask", condition="false") for n in range(205)]
    found = look(*many, step("bad", agent="nobody"))

    assert found[0].code == "unknown_agent"
    assert len(found) == 201
    assert told(found)[-1] == ("warning", "more", None, {"count": "6"})
    assert len(look(*many[:200])) == 200


def test_a_plan_too_large_to_compare_says_so():
    paths = [tuple(f"src/{step}/{n}*/**" for n in range(200)) for step in range(20)]
    found = look(*(step(f"s{n}", scope=Scope(paths=paths[n])) for n in range(20)))

    assert ("warning", "overlaps_not_compared", None, {}) in told(found)


NAMES = [f"s{n}" for n in range(5)]
PATHS = ("src/a.py", "src/b.py", "docs/a.md", "src/deep/a.py")
GLOBS = st.lists(
    st.sampled_from(["src/**", "src/*.py", "docs/**", "**/a.*", "src/deep", "x"]),
    min_size=1, max_size=2,
).map(tuple)  # fmt: skip


@st.composite
def plans(draw):
    steps = []
    for place, name in enumerate(NAMES):
        before = draw(st.sets(st.sampled_from(NAMES[:place]))) if place else set()
        steps.append(step(name, *sorted(before), scope=Scope(paths=draw(GLOBS))))
    return steps


@settings(max_examples=examples(50, nightly=150), deadline=None)
@given(plans())
def test_two_writers_that_may_meet_are_always_found_and_others_never(steps):
    found = {f.subtask_id: f for f in look(*steps) if f.code == "overlapping_writers"}
    above = {}
    for one in steps:
        above[one.id] = set(one.dependencies).union(*(above[d] for d in one.dependencies))

    for place, one in enumerate(steps):
        parallel = [s for s in steps[place + 1 :] if one.id not in above[s.id]]
        meet = [
            s.id
            for s in parallel
            if any(covers(one.scope.paths, p) and covers(s.scope.paths, p) for p in PATHS)
        ]
        named = found[one.id].fields["others"].split(", ") if one.id in found else []
        assert set(meet) <= set(named) <= {s.id for s in parallel}


def test_a_tool_that_writes_outside_its_subtasks_scope_is_shown_before_it_asks():
    def found(path):
        inputs = {"path": path, "content": ""}
        scope = Scope(paths=("src/**",))
        made = step("a", agent=None, tool="write_file", inputs=inputs, scope=scope)
        return {finding.code for finding in look(made)}

    assert "outside_scope" in found("docs/a.md")
    assert "outside_scope" not in found("src/a.py")


@pytest.mark.parametrize(
    ("source", "destination", "outside"),
    [
        ("src/a.py", "src/b.py", []),
        ("docs/a.md", "src/a.md", ["docs/a.md"]),
        ("src/a.py", "docs/a.py", ["docs/a.py"]),
        ("a.md", "docs/a.md", ["a.md", "docs/a.md"]),
    ],
)
def test_a_file_that_is_moved_out_of_a_scope_or_into_it_is_shown(source, destination, outside):
    inputs = {"source": source, "destination": destination}
    moved = step("a", tool="move_file", inputs=inputs, scope=Scope(paths=("src/**",)))

    found = [finding.fields["what"] for finding in look(moved) if finding.code == "outside_scope"]
    assert found == outside


def test_a_declared_command_that_asks_all_the_same_is_shown_with_the_reason():
    scope = Scope(commands=("git push", "whoami", "pytest -q", "bash", "sh x"))
    asks = {("a", "git push"): asked("why it asks"), ("a", "sh x"): denied("why it is denied")}
    found = look(
        step("a", agent="debug", scope=scope),
        asks=lambda subtask, command: asks.get((subtask.id, command)),
        takes_no_more=lambda command: command in {"git push", "whoami", "bash"},
    )
    told = {f.code: (f.severity, f.fields) for f in found}

    assert told["command_asks"] == (
        "warning", {"subtask": "a", "command": "git push", "problem": "why it asks"}
    )  # fmt: skip
    assert told["command_denied"] == (
        "warning", {"subtask": "a", "command": "sh x", "problem": "why it is denied"}
    )  # fmt: skip
    assert told["command_whole"] == ("info", {"subtask": "a", "command": "whoami"})
    assert [f.fields["command"] for f in found if f.code == "prefix_refused"] == ["bash"]
    assert [f.code for f in found].count("command_whole") == 1
