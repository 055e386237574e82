"""Instruction files and skills reach every agent, in the same bytes each time."""

import json

import pytest

from fakes.world import call, calls, of, on_both, plan, run, says, step, write
from gonogo.domain.tool_calls import Instructions
from gonogo.execution.agent.conversation import MOST_FILES
from gonogo.store.schema import METADATA


def put(world, path, words):
    file = world.folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(words)
    return file


def told(request):
    """What a request says of instruction files, message by message."""
    return [m.content for m in request.messages if isinstance(m, Instructions)]


def read(path):
    return call("read_file", path=path)


def skill(name):
    return {"name": "read_skill", "arguments": {"name": name}}


def names(event):
    return [(file["path"], file["how"]) for file in event["metadata"]["files"]]


STEPS = [step("one", scope={"paths": ["a.txt"]}), step("two", "one", agent="debug")]
PLAN = {
    "main/orchestrator": [
        calls(call("switch_mode", mode="architect", reason="a plan")), says("All done"),
    ],
    "main/architect": [calls(read("README.md")), plan(*STEPS)],
    "one": [calls(write("a.txt")), says("Made")],
    "two": [says("Looked")],
}  # fmt: skip


@pytest.mark.feature(219)
@on_both
async def test_every_agent_is_told_and_the_plan_says_what_its_planner_knew(make):
    async with make(PLAN) as world:
        agents = put(world, "AGENTS.md", "Use tabs.\n")
        put(world, "CLAUDE.md", "Be brief.\n")
        put(world, ".cursor/rules/all.mdc", "---\nalwaysApply: true\n---\nNo any.\n")
        put(world, ".github/copilot-instructions.md", "Test first.\n")
        put(world, "README.md", "Read me\n")
        (world.root / "config").mkdir()
        (world.root / "config/AGENTS.md").write_text("Speak plainly.\n")

        events = await world.say("Build it")
        [loaded] = of(events, "instructions_loaded")
        files = loaded["metadata"]["files"]
        assert [(file["path"], file["source"], file["how"]) for file in files] == [
            ("AGENTS.md", "user", "whole"), ("AGENTS.md", "repository", "whole"),
            ("CLAUDE.md", "repository", "whole"),
            (".github/copilot-instructions.md", "repository", "whole"),
            (".cursor/rules/all.mdc", "repository", "whole"),
        ]  # fmt: skip
        assert loaded["agent"] == "orchestrator"
        # sha256 of "Use tabs.\n".
        assert files[1] == {
            "path": "AGENTS.md", "source": "repository", "bytes": agents.stat().st_size,
            "sha256": "2d812d6fdf8ecb4d6d131cf2d3f289294aa941e08ff5776bfab097cae4a099ac",
            "how": "whole", "cut": False,
        }  # fmt: skip

        notice, [question] = events[-1]["metadata"], await world.pending()
        view = await world.runtime.plans.get(world.ann, notice["plan_id"])
        assert notice["instructions"] == question.details["instructions"] == files
        assert [v.model_dump(exclude_none=True) for v in view.instructions or ()] == files

        await world.decide_plan(notice["plan_id"])
        for thread in ("main", "one", "two"):
            for request in world.model.asked(thread):
                assert isinstance(request.messages[0], Instructions), thread
                assert told(request) == told(world.model.requests[0])
        [block] = told(world.model.requests[0])
        for line in ("Speak plainly.", "Use tabs.", "Be brief.", "No any.", "Test first."):
            assert f"| {line}\n" in block
        assert block.startswith("Instruction files, as gonogo has read them")
        assert block.endswith("\nEnd of the instruction files.")
        told_by = {e.get("subtask_id") for e in of(await world.log(), "instructions_loaded")}
        assert told_by == {None, "one", "two"}


@pytest.mark.feature(219)
async def test_each_request_of_a_conversation_begins_with_the_bytes_of_the_one_before(make):
    lines = {"main/coder": [*(calls(read("a.txt")) for _ in range(2)), says("Hi"), says("Again")]}
    async with make(lines) as world:
        put(world, "AGENTS.md", "Use tabs.\n")
        put(world, "a.txt", "a\n")
        await world.say("Go", "coder")
        await world.say("More", "coder")

        before, *later = world.model.requests
        assert len(later) == 3
        for request in later:
            assert request.messages[: len(before.messages)] == before.messages
            assert request.system == before.system
            before = request
        assert [len(told(request)) for request in world.model.requests] == [1] * 4


@pytest.mark.feature(219)
async def test_a_file_that_changes_is_told_as_the_difference_and_one_that_goes_as_gone(make):
    lines = {"main/coder": [says(str(n)) for n in range(6)]}
    async with make(lines) as world:
        agents = put(world, "AGENTS.md", "one\ntwo\nthree\n")
        long = put(world, "CLAUDE.md", "x\n" * 5_000)
        await world.say("Go", "coder")
        agents.write_text("one\n2\nthree\n")
        await world.say("Go on", "coder")
        agents.write_text("one\n2\nthree\nfour\n")
        long.write_text("y\n" * 5_000)
        await world.restart()
        await world.say("And", "coder")
        await world.say("Nothing new", "coder")
        agents.unlink()
        await world.say("Then", "coder")
        agents.write_text("one\ntwo\nthree\n")
        await world.say("Last", "coder")

        _, first, second, gone, again = told(world.model.requests[-1])
        # Always against what was told first.
        assert "| @@ -2,1 +2,1 @@\n| -two\n| +2\n" in first
        assert "| @@ -2,2 +2,3 @@\n| -two\n| -three\n| +2\n| +three\n| +four\n" in second
        assert "CLAUDE.md has changed" in second
        assert "| +y" not in second
        assert "AGENTS.md cannot be read any more" in gone
        assert "| @@ -4,0 +4,0 @@\n" in again
        hows = [names(e) for e in of(await world.log(), "instructions_loaded")][1:]
        assert hows == [
            [("AGENTS.md", "diff")], [("AGENTS.md", "diff"), ("CLAUDE.md", "changed")],
            [("AGENTS.md", "gone")], [("AGENTS.md", "diff")],
        ]  # fmt: skip
        [missing] = of(await world.log(), "instructions_loaded")[3]["metadata"]["files"]
        assert missing.keys() == {"path", "source", "bytes", "how", "cut"}


@pytest.mark.feature(219)
async def test_a_file_further_down_is_told_once_a_call_has_touched_its_folder(make):
    lines = {
        "main/coder": [
            calls(read("api/none.txt")), calls(read("api/v1/a.txt"), run("ls", cwd="web")),
            calls(read("api/v1/a.txt")), says("Done"),
        ],
    }  # fmt: skip
    async with make(lines) as world:
        for path in ("AGENTS.md", "api/AGENTS.md", "api/v1/AGENTS.md", "web/AGENTS.md"):
            put(world, path, f"of {path}\n")
        put(world, "api/v1/a.txt", "a\n")
        put(world, ".cursor/rules/txt.mdc", "---\nglobs: *.txt\ndescription: texts\n---\nRule\n")
        await world.say("Go", "coder")

        # A call that failed has touched nothing.
        assert [len(told(request)) for request in world.model.requests] == [1, 1, 2, 2]
        first, second = told(world.model.requests[-1])
        assert "of AGENTS.md" in first
        assert "| texts\n" in first
        assert [line for line in second.splitlines() if line.startswith("| ")] == [
            "| Rule", "| of api/AGENTS.md", "| of api/v1/AGENTS.md", "| of web/AGENTS.md",
        ]  # fmt: skip
        assert isinstance(world.model.requests[-1].messages[-3], Instructions)


@pytest.mark.feature(219)
async def test_what_is_told_is_bounded_and_says_what_it_leaves_out(make):
    lines = {"main/coder": [calls(*(read(f"d{n}/a") for n in range(90))), says("a"), says("b")]}
    async with make(lines) as world:
        put(world, "AGENTS.md", "short\n")
        put(world, "CLAUDE.md", "0123456789\n" * 4_000)
        put(world, "GEMINI.md", "nothing left\n")
        put(world, ".github/copilot-instructions.md", "short\n")
        for n in range(90):
            put(world, f"d{n}/AGENTS.md", f"nearer {n}\n")
            put(world, f"d{n}/a", "a\n")
        events = await world.say("Go", "coder")

        [first, second] = of(events, "instructions_loaded")
        assert names(first) == [
            ("AGENTS.md", "whole"), ("CLAUDE.md", "cut"), ("GEMINI.md", "named"),
            (".github/copilot-instructions.md", "same"),
        ]  # fmt: skip
        assert [file["cut"] for file in first["metadata"]["files"]] == [False, True, True, False]
        [block] = told(world.model.requests[0])
        assert 31 * 1024 < len(block.encode()) < 34 * 1024
        assert "only its beginning" in block
        assert "copilot-instructions.md (from the repository" in block
        assert "is the same as AGENTS.md" in block
        assert len(first["metadata"]["files"]) + len(second["metadata"]["files"]) == MOST_FILES
        assert {how for _, how in names(second)} == {"named"}
        assert "nearer" not in told(world.model.requests[1])[1]
        # There is no more to be told, however much there is.
        await world.say("Go on", "coder")
        assert len(told(world.model.requests[-1])) == 2


@pytest.mark.feature(219)
async def test_off_nobody_is_told_and_a_model_alone_and_a_client_never_are(make):
    alone = plan({"id": "q", "description": "Which?", "type": "decision", "inputs": {
        "options": ["a", "b"]}})  # fmt: skip
    choice = calls(call("give_decision", options=["a", "b"], choice="a", reasoning="r"))
    lines = {"main/architect": [alone], "q": [choice], "main/coder": [says("Hi")] * 2}
    async with make(lines) as world:
        put(world, "AGENTS.md", "Use tabs.\n")
        await world.decide_plan(await world.propose())
        assert told(world.model.asked("main")[0])
        assert not told(world.model.asked("q")[0])

        (world.root / "config/skills/s").mkdir(parents=True)
        (world.root / "config/AGENTS.md").write_text("Mine.\n")
        found = await world.runtime.sessions.open(world.ann, tool_host="client")
        await world.say("Go", "coder", session=found.session_id)
        [block] = told(world.model.requests[-1])
        assert "| Mine.\n" in block
        assert "Use tabs" not in block

        world.settings = world.settings.model_copy(update={"instructions": False})
        await world.restart()
        before = len(of(await world.log(), "instructions_loaded"))
        await world.say("Go", "coder")
        # Not even what was told before.
        assert told(world.model.requests[-1]) == []
        assert len(of(await world.log(), "instructions_loaded")) == before


@pytest.mark.feature(219)
async def test_what_a_rule_keeps_from_being_read_is_not_told(make, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/rules.toml").write_text(
        '[[rule]]\ndecision = "deny"\npath = "CLAUDE.md"\n'
        '[[rule]]\ndecision = "ask"\ntool = "read_file"\nagent = "debug"\npath = "GEMINI.md"\n'
        '[[rule]]\ndecision = "deny"\ncommand = "rm"\n'
    )
    async with make({"main/coder": [says("Hi")]}) as world:
        for path in ("AGENTS.md", "CLAUDE.md", "GEMINI.md"):
            put(world, path, f"of {path}\n")
        await world.say("Go", "coder")

        [loaded] = of(await world.log(), "instructions_loaded")
        assert names(loaded) == [("AGENTS.md", "whole")]


SKILL = "---\nname: deploy\ndescription: How to deploy.\n---\nRun `touch deployed`.\n"


@pytest.mark.feature(220)
async def test_skills_are_listed_read_by_a_tool_and_what_they_want_run_is_asked(make):
    lines = {
        "main/coder": [
            calls(skill("deploy"), skill("none")),
            calls(run("touch deployed")), says("Deployed"),
        ],
    }  # fmt: skip
    async with make(lines) as world:
        put(world, ".agents/skills/deploy/SKILL.md", SKILL)
        events = await world.say("Deploy", "coder")

        assert names(of(events, "instructions_loaded")[0]) == [("skills", "whole")]
        first = world.model.requests[0]
        assert "| deploy: How to deploy.\n" in told(first)[0]
        assert "touch deployed" not in told(first)[0]
        assert "read_skill" in [tool.name for tool in first.tools]
        [found, none] = of(events, "tool_result")
        assert found["result"]["content"] == "Run `touch deployed`.\n"
        assert found["result"]["path"] == ".agents/skills/deploy/SKILL.md"
        assert none["error"].startswith("skill_not_found: ")
        [asked] = of(events, "tool_call", requires_approval=True)
        assert asked["arguments"] == {"command": "touch deployed"}
        assert world.read("deployed") is None
        await world.decide(asked["call_id"], "reject", feedback="no")
        assert world.read("deployed") is None


@pytest.mark.feature(220)
async def test_the_tool_is_offered_only_where_skills_were_told_of(make):
    lines = {"main/ask": [says("a"), calls(skill("s")), says("b"), says("c")]}
    async with make(lines) as world:
        await world.say("Go", "ask")
        put(world, ".claude/skills/s/SKILL.md", "body\n")
        await world.say("Again", "ask")
        put(world, ".claude/skills/t/SKILL.md", "more\n")
        await world.say("And again", "ask")

        offered = ["read_skill" in [tool.name for tool in r.tools] for r in world.model.requests]
        assert offered == [False, True, True, True]
        # The first reply went out without it, so it is told where it came.
        assert [type(m) is Instructions for m in world.model.requests[-1].messages].index(True) == 3
        assert "| s\n| t\n" in told(world.model.requests[-1])[1]
        orchestrator = world.runtime.parts.profiles["orchestrator"]
        assert "read_skill" not in orchestrator.tools


@pytest.mark.feature(220)
async def test_a_skill_is_cut_and_its_file_is_judged_like_any_that_is_read(make, tmp_path):
    (tmp_path / "config/skills/mine").mkdir(parents=True)
    (tmp_path / "config/skills/mine/SKILL.md").write_text("x" * 70_000)
    (tmp_path / "config/rules.toml").write_text(
        '[[rule]]\ndecision = "deny"\npath = ".agents/skills/secret/**"\n'
    )
    wanted = [skill(name) for name in ("mine", "secret", "binary")]
    async with make({"main/coder": [calls(*wanted), says("Hi")]}) as world:
        put(world, ".agents/skills/secret/SKILL.md", "hidden\n")
        put(world, ".agents/skills/binary/SKILL.md", "a\0b\n")
        events = await world.say("Go", "coder")

        [mine, secret, binary] = of(events, "tool_result")
        assert (len(mine["result"]["content"]), mine["result"]["truncated"]) == (65_536, True)
        assert (mine["result"]["source"], "path" in mine["result"]) == ("user", False)
        assert secret["error"].startswith("policy_denied: ")
        assert binary["error"].startswith("not_text: ")
        assert "secret" not in told(world.model.requests[0])[0]


async def test_a_client_is_never_asked_to_read_a_skill(make):
    lines = {"main/coder": [calls(skill("s")), says("Hi")]}
    async with make(lines) as world:
        put(world, ".agents/skills/s/SKILL.md", "body\n")
        found = await world.runtime.sessions.open(world.ann, tool_host="client")
        world.session = found.session_id
        events = await world.say("Go", "coder")

        [result] = of(events, "tool_result")
        assert result["error"].startswith("unknown_tool: ")
        assert "read_skill" not in [tool.name for tool in world.model.requests[0].tools]


@pytest.mark.feature(219)
@on_both
async def test_a_new_revision_shows_what_its_planner_knew_and_an_edit_keeps_it(make):
    lines = {
        "main/architect": [plan(step("a"), goal="Reach it")],
    }
    async with make(lines) as world:
        put(world, "AGENTS.md", "Use tabs.\n")
        plan_id = await world.propose()
        first = (await world.runtime.plans.get(world.ann, plan_id)).instructions
        await world.decide_plan(
            plan_id, "edit", modified_subtasks=[step("b")], start=False
        )  # fmt: skip
        view = await world.runtime.plans.get(world.ann, plan_id)

        assert [subtask.id for subtask in view.subtasks] == ["b"]
        assert view.instructions == first
        assert first is not None


@pytest.mark.feature(219)
async def test_each_revision_shows_what_its_own_planner_was_told_of(make):
    def answering(request):
        [task] = [m.content for m in request.messages if not isinstance(m, Instructions)]
        [comment] = json.loads(task.split("you are to answer:\n")[1].split("\n")[0])
        answers = [{"comment_id": comment["comment_id"], "answer": "Done"}]
        return calls(call("create_plan", goal="Goal", subtasks=[step("b")], answers=answers))

    lost = call("attempt_completion", result="Agent x not found", success=False)
    lines = {
        "main/architect": [plan(step("a"))], "revise-1": [answering], "b": [calls(lost)],
        "replan-1": [plan(step("c"))],
    }  # fmt: skip
    async with make(lines) as world:
        agents = put(world, "AGENTS.md", "1\n")
        plan_id = await world.propose()
        await world.runtime.plans.comment(world.ann, plan_id, "Why a?", None, 1)
        agents.write_text("22\n")
        await world.runtime.plans.revise(world.ann, plan_id)
        second = await world.until("plan_notification", revision=2)
        agents.write_text("333\n")
        await world.decide_plan(plan_id, revision=2)
        third = await world.until("plan_notification", revision=3)

        for revision in (second, third):
            [file] = revision["metadata"]["instructions"]
            assert (file["how"], file["bytes"]) == ("whole", revision["metadata"]["revision"] + 1)
        view = await world.runtime.plans.get(world.ann, plan_id)
        assert [file.bytes for file in view.instructions or ()] == [4]


@on_both
async def test_the_record_says_which_files_and_a_deletion_leaves_nothing_of_them(make):
    word = "canary-7f3a9c"
    async with make({"main/coder": [says("Hi")]}) as world:
        put(world, "AGENTS.md", f"{word}\n" * 50)
        await world.say("Go", "coder")

        store = world.runtime.parts.store

        def rows(tx, of_):
            found = tx.execute(METADATA.tables[of_].select()).all()
            return [row for row in found if word in str(row)]

        assert await store.read(rows, "texts")
        for table in ("events", "audit", "plans", "sessions"):
            assert await store.read(rows, table) == [], table
        [entry] = await world.audit("instructions.loaded")
        assert (entry.actor, entry.details["files"][0]["path"]) == ("agent:coder", "AGENTS.md")

        await world.runtime.sessions.delete(world.ann, world.session)
        await world.idle()
        for table in ("messages", "texts", "events", "audit"):
            assert await store.read(rows, table) == [], table
