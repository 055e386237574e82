"""`gonogo plans comment`, `comments`, and the same two at the terminal's question about a plan."""

from gonogo.cli._ask import Person
from gonogo.cli._diff import comment_lines
from gonogo.cli._escape import spoken
from gonogo.cli._exits import Exit
from gonogo.cli._owner import connected
from gonogo.cli._print import facts, line
from gonogo.cli._setup import own_locale
from gonogo.client import Client
from gonogo.domain.errors import GonogoError
from gonogo.domain.views import ApprovalView
from gonogo.texts import say


async def comment_on(plan_id: str, content: str, subtask_id: str | None, json: bool) -> Exit:
    """Say something of a plan that waits."""
    async with connected() as client:
        kept = await client.comment_plan(plan_id, content, subtask_id=subtask_id)
        if json:
            return facts(kept)
        found = await client.plan_comments(plan_id)
    line(f"{kept.comment_id}  {say('cli_comments_open', own_locale(), count=found.open)}")
    return Exit.DONE


async def list_comments(plan_id: str, json: bool) -> Exit:
    """Show what was said of a plan, and the answers."""
    async with connected() as client:
        found = await client.plan_comments(plan_id)
    if json:
        return facts(found)
    for text in comment_lines(c.model_dump(exclude_none=True) for c in found.comments):
        line(text)
    if not found.comments:
        line(say("cli_no_comments", own_locale()))
    return Exit.DONE


class Talk:
    """What a person at the terminal does about a plan besides deciding it."""

    def __init__(self, client: Client, person: Person, locale: str) -> None:
        self._client, self._person, self._locale = client, person, locale

    async def comment(self, approval: ApprovalView) -> None:
        """Ask for a comment and keep it; what is wrong with it is said."""
        content = await self._person.line(say("cli_comment_text", self._locale))
        if not content:
            return
        where = await self._person.line(say("cli_comment_where", self._locale))
        try:
            await self._client.comment_plan(
                approval.plan_id or "", content, subtask_id=where or None,
                revision=approval.revision,
            )  # fmt: skip
            found = await self._client.plan_comments(approval.plan_id or "")
        except GonogoError as error:
            self._person.tell(spoken(str(error)))
            return
        self._person.tell(say("cli_comment_kept", self._locale, count=found.open))

    async def send_back(self, approval: ApprovalView) -> bool:
        """Send the plan back with its comments. False when it cannot be; why is said."""
        try:
            await self._client.revise_plan(approval.plan_id or "")
        except GonogoError as error:
            self._person.tell(spoken(str(error)))
            return False
        return True
