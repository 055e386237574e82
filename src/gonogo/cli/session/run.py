"""A task carried out in one command: the project, a session taken up again, the demo."""

import json
import json as codec
import math
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import typer
from msgspec import Struct
from msgspec.structs import replace

from gonogo.cli.daemon import RuntimeLink, linked
from gonogo.cli.folder import environment, program, read_settings
from gonogo.cli.plan_file import Flaw, as_json, own_plan, text_of
from gonogo.cli.session.answers import Wish
from gonogo.cli.session.conversation import Conversation, Manner
from gonogo.cli.session.interrupts import standing
from gonogo.cli.session.live import conversing
from gonogo.cli.support import Exit, Stop, complain, named_locale, own_locale, own_words, said_of
from gonogo.cli.terminal.output import beside, line, one_line, spoken
from gonogo.cli.terminal.plan_graph import mark_of
from gonogo.cli.terminal.render import comment_lines, question_lines
from gonogo.client import Client
from gonogo.demo import TASKS, TestRun, lay_out, run_tests
from gonogo.domain.base import loads
from gonogo.domain.errors import Forbidden, GonogoError, InvalidMessage, TooLarge
from gonogo.domain.events import MARKS
from gonogo.domain.findings import FindingSeverity
from gonogo.domain.messages import title_of
from gonogo.domain.plan_views import ModelUse, PlanView, SubtaskView
from gonogo.domain.states import ENDED, SUBTASK, ApprovalKind, PlanStatus, SubtaskStatus
from gonogo.domain.text_safety import guarded
from gonogo.domain.tool_calls import TOKENS
from gonogo.domain.views import MessageView, SessionView
from gonogo.i18n import resolve, say, term
from gonogo.settings import Settings
from gonogo.tools.schemas import MOST, AnswerSchema

# The answer of a run in a file: as text, or as JSON that fits a schema.
#
# What agents work at says nothing of the schema. When the work is done, an agent that only reads is
# asked for the answer as JSON of it, and asked again with what did not fit, a few times and no
# more.

TRIES = 3
"""How often the answer is asked for."""
_READER = "ask"
_LONGEST_NAME = 255
_MODE = 0o666
"""Of a new file, less what the umask takes."""
_FENCE = "```"


class AnswerFile(Struct, frozen=True, kw_only=True):
    """Where the answer of a run goes, and what it has to be."""

    file: Path
    schema: AnswerSchema | None = None
    """None: the answer is text."""

    @classmethod
    def of(cls, schema: Path | None, file: Path | None) -> "AnswerFile | None":
        """What the options of a command ask for.

        Raises:
            Stop: the schema is none, or there is no file for the answer, or none can be made there.
        """
        if file is None:
            if schema is not None:
                raise Stop(say("cli_output_where", own_locale()), Exit.USAGE)
            return None
        if not _can_be_written(file):
            raise Stop(say("cli_output_no_place", own_locale(), file=file), Exit.USAGE)
        return cls(file=file, schema=None if schema is None else _schema_in(schema))

    def fitting(self, text: str) -> str:
        """A text as it is written into the file.

        Raises:
            Misfit: it is not what the schema says.
        """
        if self.schema is None:
            return text.rstrip("\n") + "\n"
        try:
            value = loads(_bare(text))
            problems = self.schema.problems_of(value)
        except GonogoError as error:
            raise Misfit(str(error)) from None
        if problems:
            raise Misfit("\n".join(problems))
        return json.dumps(value, ensure_ascii=False, indent=2) + "\n"

    def write(self, text: str) -> None:
        """Have the file hold a text, at once and whole; a device or a pipe is written to.

        A file that is there keeps its permissions.
        """
        file = Path(os.path.realpath(self.file))
        if self.file.exists() and not self.file.is_file():
            self.file.write_text(text, encoding="utf-8")
            return
        beside = file.with_name(f".gonogo-{os.getpid()}")
        kept = stat.S_IMODE(file.stat().st_mode) if file.exists() else None
        opener = partial(os.open, mode=_MODE if kept is None else kept)
        with open(beside, "w", encoding="utf-8", opener=opener) as to:
            if kept is not None:
                os.fchmod(to.fileno(), kept)
            to.write(text)
        beside.replace(file)


class Misfit(Exception):
    """An answer is not what the schema says; the text says where."""


async def write_answer(
    talk: Conversation, ended: Exit, wanted: AnswerFile, locale: str, *, until: float
) -> Exit:
    """Write what a run came to into a file. Gives the exit code: 0 only where it was written.

    Args:
        until: When the time of the run is over, by the clock of the event loop. The limit of the
            session ends only what is under way at that moment; nothing is asked after it.
    """
    if not talk.outcome.is_done:
        complain(say("cli_output_none", own_locale(), file=wanted.file))
        return ended or Exit.FAILED
    asked, problem = 0, ""
    while True:
        try:
            wanted.write(wanted.fitting(talk.outcome.answer))
        except Misfit as misfit:
            problem = str(misfit)
        else:
            return ended
        if asked == TRIES:
            said = say("cli_output_misfit", own_locale(), file=wanted.file, count=TRIES)
            complain(f"{said} {'; '.join(problem.splitlines())}")
            return Exit.FAILED
        with anyio.CancelScope(deadline=until) as left:
            ended = await talk.carry(_request(wanted, problem if asked else "", locale))
        asked += 1
        if left.cancelled_caught or not talk.outcome.is_done:
            complain(say("cli_output_none", own_locale(), file=wanted.file))
            return Exit.FAILED if left.cancelled_caught else ended or Exit.FAILED


def _request(wanted: AnswerFile, problem: str, locale: str) -> dict[str, Any]:
    key = "model_output_again" if problem else "model_output_asked"
    said = say(key, locale, schema=wanted.schema, problem=problem)
    return {"type": "user_message", "content": said, "agent_type": _READER}


def _can_be_written(file: Path) -> bool:
    """Whether a file is there that can be written, or can be made."""
    if os.path.isdir(file):
        return False
    if os.path.exists(file) and not os.path.isfile(file):
        return os.access(file, os.W_OK)
    folder, name = os.path.split(os.path.realpath(file))
    fits = len(os.fsencode(name)) <= _LONGEST_NAME and not os.path.islink(
        os.path.join(folder, name)
    )
    return fits and os.access(folder, os.W_OK | os.X_OK)


def _schema_in(file: Path) -> AnswerSchema:
    try:
        with file.open("rb") as opened:
            # A device may never end; one byte more than may be is too many.
            return AnswerSchema(opened.read(MOST + 1))
    except GonogoError as error:
        said = say("cli_output_no_schema", own_locale(), file=file, detail=said_of(error))
        raise Stop(said, Exit.USAGE) from None


def _bare(text: str) -> str:
    """A text without the fence that models like to put around JSON."""
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE) and "\n" in text:
        return text.partition("\n")[2].removesuffix(_FENCE)
    return text


_OTHER_ROOTS = (
    "{problem}. To allow this folder, end the running process with gonogo stop and set "
    "GONOGO_ROOTS; to start a separate process, set GONOGO_HOME to another folder"
)


async def run_task(
    task: str,
    directory: Path | None,
    model: str | None,
    wish: Wish,
    answer: AnswerFile | None = None,
) -> Exit:
    """Carry one task out."""
    if not task.strip():
        raise Stop('Write your task, for example: gonogo run "Add a --json flag"', Exit.USAGE)
    settings = read_settings({"workspace": directory, "model": model, **_place(wish)})
    async with linked(settings) as link:
        return await talk(link, settings, task, wish, answer=answer)


def _place(wish: Wish) -> dict[str, bool | None]:
    return {"background": False if wish.foreground else None}


async def run_plan(
    file: Path,
    task: str | None,
    directory: Path | None,
    model: str | None,
    wish: Wish,
    answer: AnswerFile | None = None,
) -> Exit:
    """Carry a plan out that a person wrote into a file."""
    if task is not None or wish.agent is not None:
        raise Stop(say("cli_plan_or_task", own_locale()), Exit.USAGE)
    settings = read_settings({"workspace": directory, "model": model, **_place(wish)})
    written = _WrittenFile(file)
    async with linked(settings) as link:
        await written.check(link.client, wish)
        return await talk(link, settings, written.goal, wish, written, answer)


async def talk(
    link: RuntimeLink,
    settings: Settings,
    task: str,
    wish: Wish,
    plan: "_WrittenFile | None" = None,
    answer: AnswerFile | None = None,
) -> Exit:
    """Open a session, say the task in it or send a plan for it, and see it through."""
    if wish.agent is not None:
        await _check_agent(link.client, wish.agent)
    try:
        session = await link.client.open_session(
            title=title_of(task), unattended=wish.unattended or None, limits=wish.limits
        )
    except Forbidden as error:
        raise Stop(_OTHER_ROOTS, problem=said_of(error)) from None
    until = anyio.current_time() + (wish.limits or {}).get("seconds", math.inf)
    locale = resolve(named_locale(environment()), None, task)
    with conversing(link, session.session_id, wish, locale) as talking:
        if plan is not None:
            ended = await talking.watch(partial(plan.send, link.client, session.session_id))
        else:
            message = {"type": "user_message", "content": task}
            named = {"agent_type": wish.agent} if wish.agent else {}
            ended = await talking.carry(message | named)
        if answer is not None:
            ended = await write_answer(talking, ended, answer, locale, until=until)
    if wish.json or ended is not Exit.WAITS:
        used = await link.client.analytics(session_id=session.session_id)
        line(
            _last_line(talking, session, ended, used.models)
            if wish.json
            else used_text(used.models, locale)
        )
    return ended


async def _check_agent(client: Client, agent: str) -> None:
    """Refuse an agent that there is not before anything is made for it."""
    known = sorted(each.name for each in await client.agents())
    if agent not in known:
        raise Stop(
            "There is no agent {agent!r}; use one of {known}", Exit.USAGE,
            agent=agent, known=", ".join(known),
        )  # fmt: skip


def _last_line(
    talk: Conversation, session: SessionView, ended: Exit, models: Sequence[ModelUse]
) -> str:
    """What came of a run, as the last of its lines of JSON."""
    sums = {name: sum(getattr(used, name) for used in models) for name in ("requests", *TOKENS)}
    cost = round(sum(used.cost_dollars for used in models), 6)
    return codec.dumps(
        {
            "type": "run_ended", "exit_code": int(ended), "session_id": session.session_id,
            "plan_id": talk.outcome.latest_plan, "waiting": talk.waiting,
            "usage": {**sums, "cost_dollars": cost},
        }
    )  # fmt: skip


class _WrittenFile:
    """A plan file, read; nothing is made before it is whole."""

    def __init__(self, file: Path) -> None:
        from gonogo.cli import plan_yaml

        self._file, self._locale = file, own_locale()
        self._reading = plan_yaml.read(text_of(file, self._locale), self._locale)
        self.goal, self._subtasks = own_plan(self._reading, self._locale)
        self._refuse(self._reading.flaws)

    async def check(self, client: Client, wish: Wish) -> None:
        """Have the plan looked over as its making would.

        Raises:
            Stop: it has a flaw; each is said, with its line.
        """
        try:
            found = await client.check_new_plan(
                self.goal, as_json(self._subtasks), unattended=wish.unattended
            )
        except (InvalidMessage, TooLarge) as problem:
            # It cannot even be looked over.
            self._refuse([Flaw(0, said_of(problem))])
            raise
        if found.problem:
            self._refuse([Flaw(self._reading.line_of(found.subtask_id), found.problem)])
        errors = [f for f in found.findings if f.severity == FindingSeverity.ERROR]
        self._refuse([Flaw(self._reading.line_of(f.subtask_id), f.message) for f in errors])

    async def send(self, client: Client, session_id: str) -> PlanView:
        """Make it a plan of a session."""
        return await client.create_plan(session_id, self.goal, as_json(self._subtasks))

    def _refuse(self, flaws: Sequence[Flaw]) -> None:
        if not flaws:
            return
        for flaw in sorted(flaws, key=lambda flaw: flaw.line):
            where = f"{self._file}:{flaw.line}" if flaw.line else str(self._file)
            flawed = guarded(f"{where}: {flaw.message}", lines=False)
            typer.echo(beside(flawed), err=True)
        raise Stop(say("cli_plan_not_made", self._locale, file=self._file), Exit.USAGE)


def used_text(models: Sequence[ModelUse], locale: str) -> str:
    """What models were asked, and what that took, in one line."""
    sums = {name: sum(getattr(used, name) for used in models) for name in ("requests", *TOKENS)}
    cost = sum(used.cost_dollars for used in models)
    said = ["cli_used"]
    said += ["cli_used_classes"] if sums["cached_tokens"] or sums["reasoning_tokens"] else []
    said += ["cli_used_cost"] if cost else []
    return " ".join(say(key, locale, cost=f"{cost:.4f}", **sums) for key in said)


# `gonogo demo`: the whole path on the sample project.

NAME = "tally"


async def run_demo(wish: Wish) -> Exit:
    """Lay the sample out, run its tests, carry the task out, and run them again."""
    folder = Path(tempfile.mkdtemp(prefix="gonogo-demo-"))
    ended = False
    try:
        outcome = await _carry_through(folder, wish)
        ended = True
        return outcome
    finally:
        if not ended:
            shutil.rmtree(folder, ignore_errors=True)


async def _carry_through(folder: Path, wish: Wish) -> Exit:
    project = folder / NAME
    await anyio.to_thread.run_sync(lay_out, project)
    before = await anyio.to_thread.run_sync(run_tests, project)
    settings = _settings(folder, project)
    locale = own_locale()
    _tell(say("cli_demo_start", locale, folder=project), wish)
    _tell(say("cli_tests_before", locale, outcome=_summary(before)), wish)
    async with linked(settings) as link:
        if link.runtime is None:
            raise Stop(
                "Another process uses {home}; unset GONOGO_HOME for the demo, or stop that process",
                Exit.USAGE,
                home=settings.home,
            )
        wish = replace(wish, prefix=f"GONOGO_HOME={settings.home} ", keeps=False)
        outcome = await talk(link, settings, TASKS[locale], wish)
        played, count = link.runtime.parts.models.compared()
    after = await anyio.to_thread.run_sync(run_tests, project)
    _tell(say("cli_demo_played", locale, played=played, count=count), wish)
    for told in _account(settings, project, after, locale):
        _tell(told, wish)
    return Exit.FAILED if outcome is Exit.DONE and not after.passed else outcome


def _settings(folder: Path, project: Path) -> Settings:
    given = {"workspace": project, "roots": (), "model": "demo", "background": False}
    if not environment().get("GONOGO_HOME"):
        given["home"] = folder / "state"
    return read_settings(given)


def _account(settings: Settings, project: Path, after: TestRun, locale: str) -> list[str]:
    again = f"GONOGO_HOME={settings.home} {program()}"
    return [
        "",
        say("cli_tests_after", locale, outcome=_summary(after)),
        say("cli_demo_end", locale, folder=project, home=settings.home),
        f"  git -C {project} diff",
        f"  {again} plans list",
        f"  {again} audit show",
        f"  {again} audit verify",
    ]


def _summary(run: TestRun) -> str:
    return run.summary or own_words("no output")


def _tell(text: str, wish: Wish) -> None:
    if wish.json:
        typer.echo(beside(text), err=True)
    else:
        line(text)


# `gonogo attach`: take part in a session again, wherever it runs.

_MESSAGES = 8
"""Messages of the past that are shown."""
_LINES = 12
"""Lines of each of them; the last one is shown whole."""
_TAIL = 500
"""Events at the end of the log that tell whether something is under way."""
_OVER = frozenset(SUBTASK.terminal)
_WORKING = frozenset({PlanStatus.RUNNING, PlanStatus.REPLANNING})
_ASKS = "approval_requested"
_STILL = (
    "approval_", "checkpoint_", "session_", "plan_commented", "plan_rolled_back", "steered",
)  # fmt: skip
"""Events that say nothing of whether work goes on."""


async def attach(session_id: str | None, wish: Wish) -> Exit:
    """Show what a session did, follow it, and let the person take part."""
    settings = read_settings(_place(wish))
    async with linked(settings) as link:
        session = await _session(link.client, session_id)
        locale = resolve(session.locale, own_locale())
        newest = await _newest_plan(link.client, session)
        plan = newest if newest is not None and newest.status not in ENDED else None
        if not wish.json:
            for text in await _recap(link.client, session, newest, locale):
                line(text)
        with conversing(link, session.session_id, wish, locale, _manner(session, wish)) as talk:
            return await _join(link, talk, session, plan)


async def _session(client: Client, session_id: str | None) -> SessionView:
    if session_id is not None:
        return await client.session(session_id)
    return await newest_session(client)


async def newest_session(client: Client) -> SessionView:
    """The session that was opened last.

    Raises:
        Stop: there is none.
    """
    newest = (await client.sessions(limit=1)).sessions
    if not newest:
        raise Stop(say("cli_no_session", own_locale()))
    return newest[0]


async def _newest_plan(client: Client, session: SessionView) -> PlanView | None:
    """The session's plan that was made last, with what came of its subtasks."""
    newest = (await client.plans(session_id=session.session_id, limit=1)).plans
    return newest[0] if newest else None


def _manner(session: SessionView, wish: Wish) -> Manner:
    return Manner(
        after=0 if wish.json else session.last_seq, due=session.last_seq, stays=True, ours=False
    )


async def _join(
    link: RuntimeLink, talk: Conversation, session: SessionView, plan: PlanView | None
) -> Exit:
    running = plan is not None and plan.status in _WORKING
    after = max(0, session.last_seq - _TAIL)
    if session.last_seq:
        async with aclosing(link.client.follow(session.session_id, after)) as events:
            async for event in events:
                talk.remember(event)
                said = str(event["type"])
                if not said.startswith(_STILL) or (said == _ASKS and event.get("is_final")):
                    running = not event.get("is_final")
                if event.get("seq", 0) >= session.last_seq:
                    break
    talk.recall(plan)
    return await talk.join(running=running and _goes_on(plan))


def _goes_on(plan: PlanView | None) -> bool:
    """A plan that is held or paused, or waits for its go, has nothing under way."""
    return plan is None or plan.status in _WORKING


async def _recap(
    client: Client, session: SessionView, plan: PlanView | None, locale: str
) -> list[str]:
    title = one_line(session.title or "", 200)
    lines = [
        say(
            "cli_attached", locale, session_id=session.session_id, workspace=session.workspace,
            title=title,
        )
    ]  # fmt: skip
    history = await client.history(session.session_id)
    lines += _said([m for m in history.messages if _is_told(m)], session, locale)
    if plan is not None:
        done = sum(s.status == SubtaskStatus.COMPLETED and not s.rolled_back for s in plan.subtasks)
        lines.append(
            say(
                "cli_recap_plan", locale, plan_id=plan.plan_id, status=standing(plan, locale),
                done=done, total=len(plan.subtasks), goal=one_line(plan.goal, 300),
            )
        )  # fmt: skip
        lines += (f"  {_outcome_of(each)}" for each in plan.subtasks if each.status in _OVER)
    pending = await client.pending_approvals(session.session_id)
    for approval in pending.pending_approvals:
        if approval.kind == ApprovalKind.PLAN:
            lines += question_lines(approval, locale)
        if approval.open_comments:
            lines += await _open_comments(client, approval.plan_id or "", locale)
    return lines


async def _open_comments(client: Client, plan_id: str, locale: str) -> Iterator[str]:
    """The comments on a plan that its planner has not answered."""
    found = (await client.plan_comments(plan_id)).comments
    open_ones = [each.model_dump(exclude_none=True) for each in found if each.answer is None]
    return (f"  {text}" for text in comment_lines(open_ones, locale))


def _outcome_of(subtask: SubtaskView) -> str:
    """How a subtask ended, and what its agent said of it, in a line."""
    found: Any = subtask.result
    result = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    said = (subtask.error or {}).get("message") or subtask.reason or result.get("output") or ""
    mark = mark_of(subtask) if subtask.rolled_back else MARKS[f"subtask_{subtask.status}"]
    return f"{mark} {one_line(subtask.id)} {one_line(str(said), 200)}".rstrip()


def _is_told(message: MessageView) -> bool:
    return message.role != "tool" and message.subtask_id is None and bool(message.content)


def _said(messages: list[MessageView], session: SessionView, locale: str) -> Iterator[str]:
    left = len(messages) - _MESSAGES
    if left > 0:
        yield say("cli_recap_earlier", locale, count=left, session_id=session.session_id)
    for number, message in enumerate(messages[-_MESSAGES:], start=1):
        last = number == len(messages[-_MESSAGES:])
        lines = spoken(message.content).split("\n")
        more = len(lines) > _LINES and not last
        text = "\n".join([*lines[:_LINES], "…"] if more else lines)
        who = message.agent or term("speaker", message.role, locale)
        yield f"{one_line(who)}: {text}"
