"""Whatever two people do to a plan, at once or one after the other, and whatever is proposed for
it: only what was approved runs.

One of them sends the messages and may not approve plans; the other one may. What ran is read from
the rows when a world ends (`durability.plans_hold.only_what_was_approved_runs`).
"""

import random
from contextlib import suppress
from itertools import count

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.world import LIMIT, call, calls, plan, run, says, step, world_of, write
from gonogo.domain.errors import GonogoError
from gonogo.domain.messages import HitlDecision, PlanDecision
from gonogo.domain.records import Checkpoint
from gonogo.store.checkpoints import list_checkpoints
from plugins.nightly import examples

RULES = '[[review]]\nkind = "plan"\nreviewers = ["bob"]\n'
WIDE = {"tools": ["write_file", "execute_command"], "commands": ["touch pwned"]}
FAILS = calls(call("attempt_completion", result="Agent x not found", success=False))
FIRST = (step("a"), step("b", "a"), step("asks", "a", approval_required=True), step("test", "b"))


def but(key, **more):
    """The first plan, one subtask of it otherwise."""
    return [{**each, **more} if each["id"] == key else each for each in FIRST]


PROPOSALS = (
    FIRST, but("b", description="Do b in another way"), but("b", scope=WIDE),
    but("asks", approval_required=False, description="Need not ask"), but("test", timeout=9_000),
    but("b", agent="debug"), but("b", retry_policy={"max_attempts": 9}), FIRST[:3],
    [*FIRST, step("c", "a", scope=WIDE)], [*FIRST[:3], step("test", "a")], [step("c", scope=WIDE)],
    but("a", description="Do a in another way", scope=WIDE), [*FIRST, step("d")],
)  # fmt: skip
PLAN_VERBS = ("start", "pause", "resume", "cancel", "revise")
SUBTASK_VERBS = ("retry_subtask", "retry_subtask", "skip_subtask", "cancel_subtask")
WORDS = ("approve", "approve", "reject", "edit", "hold")
DEEDS = (
    *(("decide", word) for word in WORDS), *(("plan", verb) for verb in PLAN_VERBS),
    *(("subtask", verb) for verb in SUBTASK_VERBS), ("replan", ""), ("replan", ""),
    ("rollback", "subtask"), ("rollback", "checkpoint"), ("rollback", "latest"), ("comment", ""),
    ("answer", "approve"), ("answer", "reject"), ("later", ""), ("restart", ""),
)  # fmt: skip
OPENINGS = ((), *([[("ann", deed, 1)], [("ann", ("subtask", "retry_subtask"), n)]] for n in range(5)
                  for deed in (("decide", "reject"), ("later", ""))))  # fmt: skip
"""What was proposed and not approved, and the first try to have it all the same."""
STEPS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["ann", "bob"]), st.sampled_from(DEEDS), st.integers(0, 12)),
        min_size=1, max_size=2,
    ),
    min_size=4, max_size=14,
)  # fmt: skip


def script(seed):
    """A model that proposes anything, and whose subtasks fail half of the time."""
    dice, marks = random.Random(seed), count()

    def proposes(request):
        subtasks = dice.choice(PROPOSALS)
        made = plan(*subtasks)
        answers = [{"comment_id": each, "answer": "Yes"} for each in _commented(request)]
        if answers:
            made["calls"][0]["arguments"]["answers"] = answers
        return made

    def works(request):
        done = [says("done"), calls(write(f"f{next(marks)}.txt")), calls(run("touch pwned"))]
        return dice.choice([FAILS, FAILS, *done, says("done")])

    later = {f"{kind}-{n}": [proposes] * 9 for kind in ("replan", "revise") for n in range(20)}
    keys = ("a", "b", "asks", "test", "c", "d")
    return {
        "main/architect": [plan(*FIRST)] * 9, "main/orchestrator": [says("Yes?")] * 90,
        **later, **{key: [works] * 30 for key in keys},
    }  # fmt: skip


def _commented(request):
    text = request.messages[0].content
    return [part.split('"')[0] for part in text.split('"comment_id": "')[1:]]


class Walk:
    """People who do things to one plan."""

    def __init__(self, world, plan_id):
        self.world, self.plan_id = world, plan_id
        self.deeds = {
            "decide": self.decide, "plan": self.verb, "subtask": self.subtask,
            "replan": self.replan, "rollback": self.rollback, "comment": self.comment,
            "answer": self.answer, "later": self.later, "restart": self.restart,
        }  # fmt: skip

    async def act(self, who, deed, n):
        """Do one thing; a refusal is fine."""
        kind, what = deed
        person = {"ann": self.world.ann, "bob": self.world.bob}[who]
        with suppress(GonogoError):
            await self.deeds[kind](person, what, n)

    async def at_once(self, step):
        """Do some things at the same time, and let what they set going come to rest."""
        with anyio.fail_after(LIMIT):
            if any(deed[0] == "restart" for _, deed, _ in step):
                for each in step:
                    await self.act(*each)
            else:
                async with anyio.create_task_group() as group:
                    for each in step:
                        group.start_soon(self.act, *each)
        await self.world.idle()

    async def decide(self, person, word, n):
        shown = await self.world.runtime.plans.get(self.world.ann, self.plan_id)
        edit = {"modified_subtasks": list(PROPOSALS[n])} if word == "edit" else {}
        decision = PlanDecision(
            plan_id=self.plan_id, decision=word, revision=shown.revision,
            auto_approve_tools=n % 3 > 0, **edit,
        )  # fmt: skip
        await self.world.runtime.approvals.decide(person, decision)

    async def verb(self, person, verb, n):
        await getattr(self.world.runtime.plans, verb)(person, self.plan_id)

    async def subtask(self, person, verb, n):
        shown = await self.world.runtime.plans.get(self.world.ann, self.plan_id)
        key = shown.subtasks[n % len(shown.subtasks)].id
        await getattr(self.world.runtime.plans, verb)(person, self.plan_id, key)

    async def replan(self, person, what, n):
        await self.world.runtime.plans.replan(person, self.plan_id, "Better")

    async def comment(self, person, what, n):
        await self.world.runtime.plans.comment(person, self.plan_id, f"Why {n}?")

    async def rollback(self, person, to, n):
        runtime, plan_id = self.world.runtime, self.plan_id
        found: list[Checkpoint] = await runtime.parts.store.read(list_checkpoints, plan_id, 99)
        about = {"subtask_id": ("a", "b", "c", "test")[n % 4]} if to == "subtask" else {}
        if to == "checkpoint" and found:
            about = {"checkpoint_id": found[n % len(found)].id}
        await runtime.checkpoints.rollback(person, plan_id, **about)

    async def answer(self, person, word, n):
        asked = [each for each in await self.world.pending() if each.kind != "plan"]
        if asked:
            named = {"approval_id": asked[n % len(asked)].approval_id}
            await self.world.runtime.approvals.decide(person, HitlDecision(decision=word, **named))

    async def later(self, person, what, n):
        await self.world.later(31)

    async def restart(self, person, what, n):
        await self.world.restart()


@pytest.mark.feature(202)
@settings(
    max_examples=examples(15, nightly=400), derandomize=True, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    seed=st.integers(0, 10_000), within=st.booleans(), opening=st.sampled_from(OPENINGS),
    steps=STEPS,
)  # fmt: skip
async def test_nothing_runs_that_nobody_approved(tmp_path_factory, seed, within, opening, steps):
    root = tmp_path_factory.mktemp("unapproved")
    (root / "config").mkdir()
    (root / "config" / "rules.toml").write_text(RULES)
    limits = {"approval_expiry_plan": 30, "replanning_max_attempts": 9, "max_parallel": 2}
    async with world_of(root, script(seed), replan_within_grant=within, **limits) as world:
        walk = Walk(world, await world.propose())
        await walk.act("bob", ("decide", "approve"), 1)
        await world.idle()
        for each in (*opening, *steps):
            await walk.at_once(each)
