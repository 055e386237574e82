"""Approvals are shown page by page, to whom they concern, and several are answered at once."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fakes.world import World, world_of
from gonogo.domain.errors import NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import HitlDecision
from gonogo.domain.states import ApprovalStatus
from gonogo.domain.views import ApprovalFilter, ApprovalList
from gonogo.execution.approvals import Question
from gonogo.runtime.streams import Receipt

LATER = timedelta(seconds=1)


class Deploys:
    """Answers about deployments, of which nothing comes."""

    def settle(self, tx: Any, approval: Any, ruling: Any) -> None:
        """Nothing comes of it."""

    def lapse(self, tx: Any, approval: Any) -> None:
        """Nor of that."""


async def asked(world: World, session_id: str, *tags: str) -> list[str]:
    """A session with a question for each tag. Gives their ids."""
    desk = world.runtime.parts.desk
    desk.kinds["deploy"] = Deploys()
    # These questions were asked by nobody whom the audit log would name.
    world.honest = False
    who = world.bob if session_id == "b" else world.ann
    await world.runtime.sessions.open(who, session_id=session_id)
    found: list[str] = []
    for tag in tags:
        world.clock.ahead += LATER
        question = Question(
            session_id=session_id, kind="deploy", subject=f"Deploy {tag}", details={"tag": tag},
            reason="asks", digest=f"sha256:{tag}",
        )  # fmt: skip
        found.append((await world.runtime.parts.store.write(desk.open, question)).id)
    return found


def ids(found: ApprovalList) -> list[str]:
    assert found.count == len(found.approvals)
    return [each.approval_id for each in found.approvals]


async def test_questions_are_read_back_page_by_page_from_the_newest_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gonogo.runtime.approvals._AT_ONCE", 2)
    async with world_of(tmp_path, {}) as world:
        of = await asked(world, "a", *"12345")
        await asked(world, "b", "x")
        page, ann = world.runtime.approvals.page, world.ann

        assert ids(await page(ann)) == of
        last = await page(ann, limit=2)
        assert (ids(last), last.before) == (of[3:], of[3])
        middle = await page(ann, before=last.before, limit=2)
        assert (ids(middle), middle.before) == (of[1:3], of[1])
        first = await page(ann, before=middle.before, limit=2)
        assert (ids(first), first.before) == (of[:1], None)
        whole = await page(ann, limit=5)
        assert (ids(whole), whole.before) == (of, None)
        assert (await page(world.runtime.owner)).count == 6


async def test_questions_are_found_by_what_they_are(tmp_path: Path) -> None:
    async with world_of(tmp_path, {}) as world:
        one, two, three = await asked(world, "a", "1", "2", "3")
        [other] = await asked(world, "b", "x")
        page, owner = world.runtime.approvals.page, world.runtime.owner
        no = HitlDecision(approval_id=two, decision="reject")
        decided = await world.runtime.approvals.decide(world.ann, no)
        assert (decided.approval_id, decided.outcome, decided.ends) == (two, "decided", 0)

        async def fitting(who: Principal = owner, **wanted: Any) -> list[str]:
            return ids(await page(who, ApprovalFilter(**wanted)))

        assert await fitting(status=ApprovalStatus.REJECTED) == [two]
        assert await fitting(status=ApprovalStatus.PENDING) == [one, three, other]
        assert await fitting(session_id="b") == [other]
        assert await fitting(kind="deploy") == [one, two, three, other]
        assert await fitting(kind="plan") == []
        group = (await world.runtime.approvals.get(owner, one)).group
        assert await fitting(group=group or "g") == ([one] if group else [])
        assert await fitting(mine=True) == [one, three, other]
        assert await fitting(world.ann, mine=True) == [one, three]
        viewer = Principal(id=world.ann.id, name="ann", role=Role.VIEWER)
        assert await fitting(viewer, mine=True) == []
        assert await fitting(viewer) == [one, two, three]


async def test_several_answers_are_taken_in_order_and_what_is_refused_changes_nothing(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path, {}) as world:
        one, two = await asked(world, "a", "1", "2")
        [other] = await asked(world, "b", "x")

        def answer(to: str, decision: str = "approve", **more: Any) -> HitlDecision:
            return HitlDecision(approval_id=to, decision=decision, **more)

        given = [
            answer(one), answer(one, "reject"), answer(other), answer(two, for_session=True),
            answer(two, digest="sha256:other"), answer(two, "reject"),
        ]  # fmt: skip
        found = await world.runtime.approvals.decide_many(world.ann, given)
        get = world.runtime.approvals.get
        states = [(await get(world.ann, each)).status for each in (one, two)]
        left = await get(world.bob, other)

    first, again, hidden, lasting, stale, last = found
    assert isinstance(first, Receipt)
    assert (first.session_id, first.approval_id, first.outcome) == ("a", one, "decided")
    assert isinstance(last, Receipt)
    assert last.approval_id == two
    assert type(again).__name__ == "AlreadyDecided"
    assert isinstance(hidden, NotFound)
    assert str(lasting) == "for_session: give it only when you approve a tool call"
    assert type(stale).__name__ == "Conflict"
    assert (states, left.status) == (["approved", "rejected"], "pending")
