"""Commands that a person writes in the place of a prompt: `/approve`, `/reject why`.

An answer of the protocol is a choice and nothing more, and is asked for once; these say the rest,
and at any time. Only a prompt that begins with a command is one: in what else is said, no decision
is looked for.
"""

from functools import partial

from acp import schema

from gonogo.acp._dialogue import Act, Dialogue
from gonogo.acp._questions import decided, is_plan
from gonogo.acp._router import refused
from gonogo.client import Client
from gonogo.domain.views import ApprovalView
from gonogo.texts import say

_HINTS = {"reject": "editor_why", "revise": "editor_changes"}
_DECISIONS = ("approve", "hold", "reject")
_STEERING = ("start", "pause", "resume")
NAMES = (*_DECISIONS, "revise", *_STEERING)


def command_updates(locale: str) -> schema.AvailableCommandsUpdate:
    """The commands that there are."""
    commands = [
        schema.AvailableCommand(
            name=name,
            description=say(f"editor_do_{name}", locale),
            input=_hint(name, locale),
        )
        for name in NAMES
    ]
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update", available_commands=commands
    )


async def act_of(text: str, client: Client, dialogue: Dialogue) -> Act:
    """What a prompt asks to have done.

    Raises:
        RequestError: it is a command, and there is nothing that it could be about.
    """
    word, _, rest = text.removeprefix("/").partition(" ")
    if not text.startswith("/") or word not in NAMES:
        return partial(dialogue.say, text)
    if word in _STEERING:
        return await _steering(word, client, dialogue)
    approval = await _asked(word, client, dialogue)
    if word == "revise":
        if not rest.strip():
            raise refused(say("editor_say_changes", dialogue.locale))
        return partial(dialogue.revise, approval.plan_id or "", rest.strip())
    message = decided(approval, word)
    if rest.strip():
        message["feedback"] = rest.strip()
    return partial(dialogue.carry, message)


async def _asked(word: str, client: Client, dialogue: Dialogue) -> ApprovalView:
    """The one question that a command can be about: the plan's, or else the only one."""
    pending = (await client.pending_approvals(dialogue.id)).pending_approvals
    plans = [approval for approval in pending if is_plan(approval)]
    found = plans if plans or word in {"hold", "revise"} else pending
    if not found:
        raise refused(say("editor_nothing_asked", dialogue.locale))
    if len(found) > 1:
        raise refused(say("editor_many_asked", dialogue.locale, count=len(found)))
    return found[0]


async def _steering(word: str, client: Client, dialogue: Dialogue) -> Act:
    plan_id = (await client.session(dialogue.id)).active_plan_id
    if plan_id is None:
        raise refused(say("editor_no_plan", dialogue.locale))
    if word == "pause":
        return partial(_pause, client, plan_id)
    act = client.start_plan if word == "start" else client.resume_plan
    return partial(dialogue.until_final, partial(act, plan_id))


async def _pause(client: Client, plan_id: str) -> None:
    await client.pause_plan(plan_id)


def _hint(name: str, locale: str) -> schema.AvailableCommandInput | None:
    if name not in _HINTS:
        return None
    hint = schema.UnstructuredCommandInput(hint=say(_HINTS[name], locale))
    return schema.AvailableCommandInput(hint)
