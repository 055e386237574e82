"""The models that agents use: opened at first use; and the usage and the limits of requests."""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from gonogo.domain.errors import ModelFailed, ModelNotConfigured
from gonogo.domain.events import ModelWaited, WaitFacts
from gonogo.domain.failures import Absence
from gonogo.domain.records import ModelRequestRow, Plan
from gonogo.domain.replanning import (
    DEFAULT_OUTPUT,
    OF_REQUESTS,
    OF_SESSIONS,
    BudgetSpent,
    Excess,
    Limits,
    Used,
    excess,
    in_force,
    tokens_of,
    with_session,
)
from gonogo.domain.tool_calls import TOKENS, ModelRequest, Reply
from gonogo.domain.views import MOST_CHOICES
from gonogo.execution.agent.conversation import Thread
from gonogo.execution.scheduling import MODEL
from gonogo.i18n import say, told
from gonogo.llm import (
    ATTEMPTS,
    DEMO,
    NO_KEY,
    REPLAY,
    ROLES,
    DemoModel,
    FallbackModel,
    Model,
    ModelChoice,
    ModelRest,
    ModelRole,
    ModelSettings,
    Roles,
    available_models,
    choices_of,
    detect,
    is_reachable,
    open_model,
    plain_name,
    secrets_in,
    speaks_openai,
)
from gonogo.settings import Settings
from gonogo.store import Store, Tx, new_id
from gonogo.store import events as log
from gonogo.store.jobs import AGAIN, drop_timer, set_timer
from gonogo.store.plans import lock_plan
from gonogo.store.reports import (
    hold_session,
    used_by_plan,
    used_by_session,
)
from gonogo.store.sessions import add_request, end_request, refuse_request, spoken_in
from gonogo.telemetry import Metrics

# The models that agents ask: opened when they are first needed, and counted.

ANY_MODEL = ModelChoice()
CAREFUL_WINDOW = 32_000
"""The window, in tokens, of a model whose window is unknown."""


class CountedModel(Struct, frozen=True):
    """Asks another model, and counts its answers, and how often it has none."""

    model: Model
    metrics: Metrics

    @property
    def name(self) -> str:
        """The name of the other model."""
        return self.model.name

    @property
    def window(self) -> int | None:
        """The window of the other model."""
        return self.model.window

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Ask the model, and wait for the whole reply.

        Raises:
            ModelFailed: there is no reply.
        """
        try:
            reply = await self.model.request(request, on_text)
        except ModelFailed:
            self.metrics.model_failed(self.name)
            raise
        self.metrics.model_answered(reply.model, reply.usage)
        return reply

    async def aclose(self) -> None:
        """Give back the connections."""
        await self.model.aclose()


class ModelPool(Struct, kw_only=True):
    """The models that agents use, each opened at its first use."""

    settings: Settings
    environment: dict[str, str]
    metrics: Metrics
    only: Model | None = None
    """The only model to ask, whichever is named."""
    roles: Roles = {}
    """What the operator's file says about roles."""
    opened: dict[ModelSettings, Model] = field(default_factory=dict[ModelSettings, Model])
    counted: dict[tuple[ModelChoice, int | None, ModelRole | None], Model] = field(
        default_factory=dict[tuple[ModelChoice, int | None, ModelRole | None], Model]
    )
    """The same models by choice, as each request looks its model up three times."""
    rests: dict[ModelChoice, ModelRest] = field(default_factory=dict[ModelChoice, ModelRest])
    """The models that failed lately and have others to replace them."""

    def __call__(self, name: str | None = None, role: ModelRole = "work") -> Model:
        """The model of a name, or else of a role with the others that can replace it.

        Raises:
            ModelNotConfigured: there is none of the name, or none is configured; the text lists the
                choices.
        """
        if self.only is not None:
            return CountedModel(self.only, self.metrics)
        choices = self.choices(name, role)
        if len(choices) > 1:
            opened = partial(self._open, attempts=ATTEMPTS, role=role)
            return FallbackModel(choices, opened, self.rests)
        return self._open(choices[0], role=role)

    def choices(self, name: str | None, role: ModelRole) -> Sequence[ModelChoice]:
        """Which models to ask, in order; a model that a person named is the only one."""
        if name is not None:
            # If the operator's file names the model, its settings hold.
            known = (each for each in self._named(role) if each.name == name)
            return (next(known, ModelChoice(name=name, for_session=True)),)
        if self._is_played:
            # A cassette plays what each role was answered, and nobody else is asked.
            return (ANY_MODEL,)
        return choices_of(self.roles, role)

    def others(self, name: str | None, role: ModelRole) -> list[str]:
        """The models that could replace those that a role has now.

        None of them is opened: whether it answers shows when it is asked.

        Args:
            name: The model of the session; None: it uses those of the role.
        """
        if self.only is not None or self._is_played:
            return []
        asked = {self._name_of(each) for each in self.choices(name, role)}
        choices = (*self._named(role), ANY_MODEL, *self._usual())
        found = [self._name_of(each) for each in choices if self._is_ready(each)]
        left = (each for each in found if each and _is_model(each) and each not in asked)
        return list(dict.fromkeys(left))[:MOST_CHOICES]

    @property
    def _is_played(self) -> bool:
        return (self.settings.model or "").startswith(REPLAY)

    def _named(self, asked: ModelRole) -> list[ModelChoice]:
        """The models that the operator's file names: those of a role, then those of the others."""
        own = choices_of(self.roles, asked)
        rest = [each for role in ROLES for each in self.roles.get(role, ())]
        return [each for each in (*own, *rest) if each.name]

    def _usual(self) -> list[ModelChoice]:
        """The usual models of the providers whose keys are set."""
        listed = available_models(self.environment)
        found = [ModelChoice(name=each["name"]) for each in listed if each["configured"]]
        if self.settings.openai_base_url or self.environment.get("OPENAI_BASE_URL"):
            # Requests for them would go to that server, which does not know them and may be away.
            found = [each for each in found if not speaks_openai(each.name or "")]
        if self.settings.model_api_key is None:
            return found
        # Chosen for a session, a model of another provider would get the key of ours.
        return [each for each in found if _is_its(self.settings, each, self.environment)]

    def _name_of(self, choice: ModelChoice) -> str | None:
        return choice.name or self.settings.model or detect(self.environment)

    def _is_ready(self, choice: ModelChoice) -> bool:
        if choice.key_env is not None:
            return bool(self.environment.get(choice.key_env))
        if choice.base_url is not None:
            return True
        name = self._name_of(choice)
        if name is None:
            return False
        own = self.settings.model_api_key
        has_own = own is not None and _is_its(self.settings, choice, self.environment)
        return has_own or is_reachable(name, self.environment)

    def check(self, choice: ModelChoice) -> str:
        """Check that a model can be asked; return its name.

        Raises:
            ModelNotConfigured: no model has this name, or a part of its settings is missing.
        """
        wanted = model_settings(self.settings, choice, self.environment)
        return plain_name(wanted, self.environment) or self._open(choice).name

    def _open(
        self, choice: ModelChoice, attempts: int | None = None, role: ModelRole | None = None
    ) -> Model:
        asked = choice, attempts, role
        if asked not in self.counted:
            self.counted[asked] = self._counted(*asked)
        return self.counted[asked]

    def _counted(self, choice: ModelChoice, attempts: int | None, role: ModelRole | None) -> Model:
        wanted = model_settings(self.settings, choice, self.environment, attempts)
        if is_taped(self.settings, wanted.name):
            wanted = dataclasses.replace(wanted, role=role)
        if wanted not in self.opened:
            self.opened[wanted] = open_model(wanted, self.environment)
        return CountedModel(self.opened[wanted], self.metrics)

    def window(self, name: str | None = None, role: ModelRole = "work") -> int:
        """Tokens that a request to a model and its reply may have together.

        Raises:
            ModelNotConfigured: there is no such model.
        """
        told = self.settings.model_window
        if self.only is not None:
            return told or self.only.window or CAREFUL_WINDOW
        choices = () if self._is_played else self.choices(name, role)
        if told and choices and not any(choice.window for choice in choices):
            return told
        return self(name, role).window or CAREFUL_WINDOW

    def compared(self) -> tuple[int, int]:
        """How many requests to the demo's model were the recorded ones, and how many in all."""
        demos = [each for each in self.opened.values() if isinstance(each, DemoModel)]
        played = sum(each.played for each in demos)
        return played, played + sum(len(each.differences) for each in demos)

    async def aclose(self) -> None:
        """Give back the connections of all of them."""
        for model in (*self.opened.values(), *((self.only,) if self.only else ())):
            await model.aclose()


def model_settings(
    settings: Settings,
    choice: ModelChoice = ANY_MODEL,
    environment: Mapping[str, str] = MappingProxyType({}),
    attempts: int | None = None,
) -> ModelSettings:
    """The settings with which a model is opened.

    Args:
        attempts: The most attempts that make sense if another model can be asked next.

    Raises:
        ModelNotConfigured: its key is not where it should be.
    """
    most = settings.model_max_attempts
    return ModelSettings(
        name=choice.name or settings.model,
        base_url=choice.base_url or settings.openai_base_url,
        api_key=_key(settings, choice, environment),
        timeout=settings.model_timeout,
        max_attempts=most if attempts is None else min(most, attempts),
        temperature=settings.temperature, effort=choice.effort, price=choice.price,
        window=choice.window or settings.model_window, record=settings.record,
        secrets=secrets_in(environment, settings.secrets),
    )  # fmt: skip


def is_taped(settings: Settings, model: str | None) -> bool:
    """Whether requests to a model are recorded, or compared with recorded ones.

    Args:
        model: The session's; None: the configured one.
    """
    name = model or settings.model or ""
    return settings.record is not None or not _is_model(name)


def _is_model(name: str) -> bool:
    """Whether a name is that of a real model, and not of the demo or a replay."""
    return name != DEMO and not name.startswith(REPLAY)


def _key(settings: Settings, choice: ModelChoice, environment: Mapping[str, str]) -> str | None:
    """The key to send to a model's server; None: the provider's usual key."""
    if choice.key_env is not None:
        key = environment.get(choice.key_env)
        if not key:
            raise ModelNotConfigured(
                "{name} needs the variable {key_env} (named by key_env), and it is not set; set it",
                name=choice.name or "the model", key_env=choice.key_env,
            )  # fmt: skip
        return key
    if choice.base_url is not None:
        # The usual keys are not for this server.
        return NO_KEY
    own = settings.model_api_key
    return own.get_secret_value() if own and _is_its(settings, choice, environment) else None


def _is_its(settings: Settings, choice: ModelChoice, environment: Mapping[str, str]) -> bool:
    """Whether GONOGO_MODEL_API_KEY is for a model: it is for the provider that is configured."""
    configured = settings.model or detect(environment)
    if choice.for_session or choice.name is None or configured is None:
        return True
    return choice.name.partition(":")[0] == configured.partition(":")[0]


# The meter: records the usage of each request to a model, and refuses those that exceed a budget.
#
# If there is a budget, a request is reserved in a transaction of its own before it is sent, with
# an estimate: one token for every four bytes of the request, as many tokens for the reply as the
# largest so far, and the cost of the dearest request so far. So requests that run at the same time
# exceed a limit together only by as much as their replies exceed the estimate. A reserved request
# whose process died counts as its estimate. Without a budget, a request is stored together with its
# reply, and needs no commit of its own.


class Meter(Struct, frozen=True, kw_only=True):
    """Counts the requests to models, in one store."""

    store: Store
    limits: Limits = field(default_factory=dict[str, float])

    async def ask(
        self, thread: Thread, request: ModelRequest, send: Callable[[], Awaitable[Reply]]
    ) -> Reply:
        """Send a request if the budgets allow it; the reply has the id of the request's row.

        Raises:
            BudgetSpent: it would pass a limit; it was not sent.
            ModelFailed: the model did not answer.
        """
        request_id = new_id("req")
        limits = with_session(self.limits, thread.limits)
        reserved = not (OF_REQUESTS | OF_SESSIONS).isdisjoint(limits)
        if reserved:
            size = tokens_of(_bytes(request))
            await self.store.write(self._reserve, thread, request_id, size)
        try:
            reply = await send()
        except ModelFailed as error:
            if reserved:
                free = error.http_status is not None or not error.sent
                await self.store.write(refuse_request, request_id, free=free)
            raise
        return reply.model_copy(update={"request_id": request_id})

    def _reserve(self, tx: Tx, thread: Thread, request_id: str, size: int) -> None:
        # The rows of the plan and the session are locked, so that nobody counts at the same time.
        plan = lock_plan(tx, thread.plan_id) if thread.plan_id else None
        thread.owner.check(tx)
        of_plan = used_by_plan(tx, plan.id) if plan else Used()
        of_session = Used()
        if plan is None or not OF_SESSIONS.isdisjoint(with_session(self.limits, thread.limits)):
            hold_session(tx, thread.session_id)
            of_session = used_by_session(tx, thread.session_id)
        known = of_plan if plan else of_session
        row = ModelRequestRow(
            id=request_id, session_id=thread.session_id, plan_id=thread.plan_id,
            subtask_id=thread.subtask_id, thread=thread.name, agent=thread.agent, model="",
            status="reserved", input_tokens=size,
            output_tokens=known.largest_output or DEFAULT_OUTPUT,
            cost_micros=max(of_plan.largest_cost, of_session.largest_cost),
            duration_ms=None, created_at=tx.now,
        )  # fmt: skip
        self._check(thread, plan, of_plan, of_session, row)
        add_request(tx, row)

    def _check(
        self,
        thread: Thread,
        plan: Plan | None,
        of_plan: Used,
        of_session: Used,
        row: ModelRequestRow,
    ) -> None:
        estimate = Used(
            requests=1, input_tokens=row.input_tokens, output_tokens=row.output_tokens,
            cost_micros=row.cost_micros,
        )  # fmt: skip
        used, more = of_session.by_word("session_"), estimate.by_word("session_")
        if plan is not None:
            used |= of_plan.by_word()
            more |= estimate.by_word()
        limits = in_force(self.limits, plan.budget if plan else None, thread.limits)
        found = excess(limits, used, more)
        if found is not None:
            own = with_session({}, thread.limits).get(found.what)
            found = replace(found, is_own=own == found.limit)
            said = say(
                "budget_spent", thread.locale, used=f"{found.used:g}", limit=f"{found.limit:g}",
                what=say(f"budget_{found.what}", thread.locale),
                setting=name_of_limit(found, thread.locale),
            )  # fmt: skip
            raise BudgetSpent(said, found)


def name_of_limit(spent: Excess, locale: str) -> str:
    """What to change for a limit that was reached: its setting, or the session's own limit."""
    return say("budget_own", locale) if spent.is_own else spent.setting


def keep_usage(tx: Tx, thread: Thread, reply: Reply) -> None:
    """Store the usage of a reply, in the transaction that stores the reply."""
    if not reply.request_id:
        return
    usage = reply.usage
    row = ModelRequestRow(
        id=reply.request_id, session_id=thread.session_id, plan_id=thread.plan_id,
        subtask_id=thread.subtask_id, thread=thread.name, agent=thread.agent, model=reply.model,
        status="done", **{name: getattr(usage, name) for name in TOKENS},
        cost_micros=round((usage.cost or 0.0) * 1_000_000),
        duration_ms=round(usage.duration_ms),
        created_at=tx.now - timedelta(milliseconds=round(usage.duration_ms)),
    )  # fmt: skip
    end_request(tx, row)


def _bytes(request: ModelRequest) -> int:
    said = sum(len(str(message).encode()) for message in request.messages)
    tools = sum(len(str(tool).encode()) for tool in request.tools)
    return len(request.system.encode()) + said + tools


# Models that do not answer: how turns and searches wait for them.
#
# A plan waits in a pause of its own; see the engine. A turn or a search cannot be paused: its job
# ends, and a timer starts it again. Events tell when the wait begins, and when the model has
# answered.


class ModelWait(Struct, frozen=True, kw_only=True):
    """A job that waits for a model, and the place that its events name."""

    session_id: str
    kind: str
    key: str
    place: Mapping[str, Any]
    """The fields of events."""

    def begin(
        self, tx: Tx, kept: Mapping[str, Any] | None, error: ModelFailed, patience: float
    ) -> Absence | None:
        """Set a timer to run the job again when the model should be asked the next time.

        Args:
            kept: The absence so far, as it is stored.
            patience: Seconds to wait for the model in all.

        Returns:
            The absence to store; None once patience has run out.
        """
        absence = Absence.after(kept, error, tx.now)
        until = absence.next_try(tx.now, patience)
        if until is None:
            return None
        set_timer(tx, f"{AGAIN}{self.kind}", self.key, until)
        if kept is None:
            end = absence.ends_at(patience)
            shown = end.strftime("%Y-%m-%d %H:%M:%S UTC")
            facts = WaitFacts(reason=MODEL, until=end, error=absence.error)
            said = told(absence.error, spoken_in(tx, self.session_id))
            self._tell(tx, "model_away", facts, until=shown, error=said)
        return absence

    def end(self, tx: Tx) -> None:
        """End the wait, as the model has answered."""
        drop_timer(tx, f"{AGAIN}{self.kind}", self.key)
        self._tell(tx, "model_back", WaitFacts(reason=MODEL))

    def _tell(
        self,
        tx: Tx,
        what: Any,  # noqa: ANN401 - one of the event's own words
        facts: WaitFacts,
        **said: str | None,
    ) -> None:
        content = say(what, spoken_in(tx, self.session_id), **said)
        event = ModelWaited(type=what, content=content, metadata=facts, **self.place)
        log.tell(tx, self.session_id, event)
