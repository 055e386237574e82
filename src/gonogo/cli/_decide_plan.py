"""`gonogo plans edit`, and a plan as the text that it reads."""

from pathlib import Path

from gonogo.cli._answers import Wish
from gonogo.cli._ask import Person
from gonogo.cli._decide import see_through, tell
from gonogo.cli._exits import Exit, Stop
from gonogo.cli._owner import Link, connected, linked
from gonogo.cli._plan_edit import Draft, form_of, plan_editor
from gonogo.cli._plan_text import MAX_TEXT, as_json
from gonogo.cli._print import facts, line
from gonogo.cli._question import decision
from gonogo.cli._reviews import standing
from gonogo.cli._setup import environment, own_locale, read_settings
from gonogo.client import Client
from gonogo.domain.states import ApprovalKind, ApprovalStatus
from gonogo.domain.views import ApprovalView
from gonogo.texts import resolve, say

_SUFFIXES = {".md": "markdown", ".markdown": "markdown", ".yaml": "yaml", ".yml": "yaml"}
_TAKEN = frozenset({ApprovalStatus.EDITED, ApprovalStatus.SUPERSEDED})


async def print_plan(plan_id: str, form: str) -> Exit:
    """Write a plan in the form that `plans edit --from` reads."""
    async with connected() as client:
        plan = await client.plan(plan_id)
        revision = await client.plan_revision(plan_id, plan.revision)
    line(form_of(form).write(revision.goal, revision.subtasks).rstrip("\n"))
    return Exit.DONE


async def edit_plan(
    plan_id: str, form: str | None, source: Path | None, *, sure: bool, json: bool
) -> Exit:
    """Let the person edit a plan that waits, and approve it as edited."""
    given = None if source is None else _text_of(source)
    if source is not None and form is None:
        form = _SUFFIXES.get(source.suffix.lower())
    person = Person(environment())
    if not sure and not person.is_there:
        raise Stop(say("cli_plan_no_terminal", own_locale()), Exit.USAGE)
    async with linked(read_settings(), goes_on=True) as link:
        approval = await _question(link.client, plan_id)
        session = await link.client.session(approval.session_id)
        locale = resolve(session.locale, read_settings().locale)
        editor = plan_editor(link.client, person, locale, form)
        draft = await editor.edit(approval, given=given, sure=sure)
        return Exit.DONE if draft is None else await _send(link, approval, draft, json=json)


async def _send(link: Link, approval: ApprovalView, draft: Draft, *, json: bool) -> Exit:
    message = decision(approval, "edit", None, as_json(draft.subtasks))
    ended = Exit.DONE
    if link.runtime is not None:
        ended = await see_through(link, approval, message, Wish(json=json))
    else:
        await tell(link, approval.session_id, message)
    decided = await link.client.approval(approval.approval_id)
    if decided.status in _TAKEN:
        draft.file.unlink(missing_ok=True)
    if link.runtime is None:
        if json:
            return facts(decided)
        line(f"{decided.approval_id} {standing(decided, own_locale())}")
    return ended


async def _question(client: Client, plan_id: str) -> ApprovalView:
    plan = await client.plan(plan_id)
    pending = await client.pending_approvals(plan.session_id)
    for approval in pending.pending_approvals:
        if approval.kind == ApprovalKind.PLAN and approval.plan_id == plan_id:
            return approval
    said = say("cli_plan_not_waiting", own_locale(), plan_id=plan_id, status=plan.status)
    raise Stop(said)


def _text_of(source: Path) -> str:
    try:
        with source.open(encoding="utf-8", newline="") as file:
            # One more than may be: whoever reads it says that it is too long.
            return file.read(MAX_TEXT + 1)
    except UnicodeDecodeError:
        raise Stop(say("cli_plan_not_utf8", own_locale(), file=source), Exit.USAGE) from None
