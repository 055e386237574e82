"""Opens the parts of a runtime from its settings, with the installed extensions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TypeVar, cast

import anyio

from gonogo.domain.errors import InvalidMessage
from gonogo.domain.failures import FailureRule, Patterns
from gonogo.domain.plan import BUILT_IN, PLANNERS
from gonogo.domain.reviews import Doings
from gonogo.domain.schedule import STRATEGIES, Strategy
from gonogo.domain.states import GUARDED_NAMES, ApprovalKind, PlanStatus
from gonogo.execution.agent import (
    Briefings,
    CallKind,
    Contexts,
    Hands,
    Inbox,
    Interventions,
    Loop,
    Meter,
    ModelPool,
    Traces,
    Watches,
    given_in,
    load_profiles,
)
from gonogo.execution.erasures import ERASE, SWEEP, Erasures, Jumps, Sweeps
from gonogo.execution.event_bus import Hub, LiveText
from gonogo.execution.jobs import Dispatcher, Handler, LocalDispatcher
from gonogo.execution.places import Asks, Places, Recovery
from gonogo.execution.plans import (
    REPLAN_QUESTION,
    AbsenceKind,
    Accounts,
    Answering,
    BudgetKind,
    BuiltInKinds,
    Engine,
    HandCheckpoints,
    InterventionKind,
    PlanEnding,
    PlanKind,
    Planning,
    PlanQuestions,
    PlanReader,
    PlanRules,
    PlanRunner,
    Proposals,
    Replanning,
    Search,
    SubtaskKind,
    Subtasks,
    Threads,
)
from gonogo.execution.recovery import Continuation, Timers
from gonogo.execution.rollback import AttemptRetreat, Rollbacks
from gonogo.execution.scheduling import BUDGET, MODEL, REPLAN, Kind
from gonogo.execution.turns import Controls, Turns
from gonogo.llm import Model, load_roles
from gonogo.policy import ALWAYS_ASK
from gonogo.runtime.foreign_tools import facts_of, open_toolkit
from gonogo.runtime.links import open_hooks
from gonogo.runtime.maintenance import take_up_common, take_up_place, tell_of_lost
from gonogo.runtime.oidc import open_bearers
from gonogo.runtime.services import Parts, ToolHosts, open_desk, open_gate, open_means, replan_rules
from gonogo.settings import Settings
from gonogo.store import Clock, Membership, Store, Whose, file_of, look_at
from gonogo.store.jobs import ASK
from gonogo.store.plans import WATCH
from gonogo.telemetry import Metrics, Tracing
from gonogo.webhooks import HOOK
from gonogo.workspace import SnapshotLimits, Snapshots, Traffic

KINDS, PATTERNS, NAMED_STRATEGIES = (
    "gonogo.subtask_kinds", "gonogo.failure_patterns", "gonogo.strategies",
)  # fmt: skip
_T = TypeVar("_T")
_ASIDE = {HOOK, ERASE}
ROUTES: Mapping[str, Whose] = {
    "turn": Whose.TURN, "plan": Whose.PLAN, REPLAN: Whose.PLAN, "subtask": Whose.SUBTASK,
    ASK: Whose.ASK, WATCH: Whose.CALL, ERASE: Whose.WORKSPACE, HOOK: Whose.NONE, SWEEP: Whose.NONE,
}  # fmt: skip
"""To what the key of each kind of job belongs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """What a runtime has in addition to what is built in, found by entry points.

    An installed distribution names what it adds:

        [project.entry-points."gonogo.subtask_kinds"]
        wait = "my_package:WAIT"                # a gonogo.execution.scheduling.Kind of that name

        [project.entry-points."gonogo.failure_patterns"]
        licence = "my_package:LICENCE"          # a FailureRule, or several

        [project.entry-points."gonogo.strategies"]
        small_first = "my_package:small_first"  # a Strategy

    They are loaded once, when a runtime opens. An extension that cannot be loaded, or has the wrong
    type for its group, is refused by name: a runtime never runs with half of what was installed.
    """

    kinds: Sequence[Kind] = ()
    rules: Sequence[FailureRule] = ()
    """An earlier rule wins over later ones, and over all built-in ones."""
    strategies: Mapping[str, Strategy] = field(default_factory=dict[str, Strategy])

    def __post_init__(self) -> None:
        """Check that no name is used twice.

        Raises:
            InvalidMessage: the text names what exists twice, or a rule that cannot be read.
        """
        _no_twice("kind of subtasks", [*BUILT_IN, *(kind.name for kind in self.kinds)])
        _no_twice("strategy", [*STRATEGIES, *self.strategies])
        _ = self.patterns

    @property
    def patterns(self) -> Patterns:
        """All failure rules, these before the built-in ones."""
        found = Patterns()
        for rule in reversed(self.rules):
            found = found.with_rule(rule)
        return found

    @property
    def all_strategies(self) -> Mapping[str, Strategy]:
        """These strategies and the built-in ones."""
        return {**STRATEGIES, **self.strategies}

    @classmethod
    def load(cls, points: Iterable[EntryPoint]) -> "Extensions":
        """Load what entry points name, and skip those of other groups.

        Raises:
            InvalidMessage: an entry point is broken; the text names it.
        """
        found = sorted(points, key=lambda point: (point.group, point.name))
        rules = _of(found, PATTERNS, _rules)
        return cls(
            kinds=_of(found, KINDS, _kind),
            rules=[rule for several in rules for rule in several],
            strategies=dict(_of(found, NAMED_STRATEGIES, _strategy)),
        )

    @classmethod
    def installed(cls) -> "Extensions":
        """Load the extensions that are installed beside gonogo.

        Raises:
            InvalidMessage: an entry point is broken; the text names it.
        """
        groups = (KINDS, PATTERNS, NAMED_STRATEGIES)
        # Reading all entry points takes a while, so this is done only once.
        found = entry_points()
        return cls.load(point for group in groups for point in found.select(group=group))


def _of(
    points: Iterable[EntryPoint], group: str, read: Callable[[str, object], _T]
) -> Sequence[_T]:
    return [_loaded(point, read) for point in points if point.group == group]


def _loaded(point: EntryPoint, read: Callable[[str, object], _T]) -> _T:
    name = f"Entry point {point.name!r} of {point.group}"
    try:
        return read(point.name, point.load())
    except InvalidMessage as problem:
        raise InvalidMessage("{name}: {problem}", name=name, problem=problem) from problem
    except Exception as error:
        said = f"cannot load {point.value}: {type(error).__name__}: {error}"
        raise InvalidMessage("{name}: {said}", name=name, said=said) from error


def _kind(name: str, found: object) -> Kind:
    if not isinstance(found, Kind) or found.name != name:
        raise InvalidMessage(
            "a Kind with the name {name!r} is needed, not {found!r:.200}", name=name, found=found
        )
    return found


def _rules(name: str, found: object) -> Sequence[FailureRule]:
    rules = cast("Sequence[object]", found) if isinstance(found, (list, tuple)) else [found]
    for rule in rules:
        if not isinstance(rule, FailureRule):
            raise InvalidMessage("a FailureRule is needed, not {rule!r:.200}", rule=rule)
        Patterns((rule,))
    return cast("Sequence[FailureRule]", rules)


def _strategy(name: str, found: object) -> tuple[str, Strategy]:
    if not callable(found):
        raise InvalidMessage("a function is needed, not {found!r:.200}", found=found)
    return name, cast("Strategy", found)


def _no_twice(what: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidMessage(
                "There is already a {what} {name!r}; choose another name", what=what, name=name
            )


def database_url(settings: Settings) -> str:
    """The address of the database that the settings name."""
    return settings.db or f"sqlite:///{settings.home / 'gonogo.db'}"


def database_file(settings: Settings) -> Path | None:
    """The file of the database that the settings name; None: it is on a server.

    Raises:
        InvalidMessage: the settings name no database.
    """
    return file_of(database_url(settings))


def look_at_database(
    settings: Settings, *, reads_all: bool = True
) -> tuple[str | None, str, str | None]:
    """What `store.look_at` finds about the database that the settings name."""
    return look_at(database_url(settings), reads_all=reads_all)


def open_parts(
    settings: Settings,
    environment: dict[str, str],
    model: Model | None,
    clock: Clock,
    extensions: Extensions | None,
    *,
    drives: bool,
    shared_as: Membership | None = None,
) -> Parts:
    """Open every room.

    Args:
        drives: This process does the work that is in the database.
        shared_as: With `drives`: the role of this process, if several share the work.
    """
    more = extensions or Extensions.installed()
    store = Store(
        database_url(settings), drives=drives,
        shared_as=shared_as, accept_restored=settings.accept_restored, clock=clock,
    )  # fmt: skip
    try:
        parts = build(settings, environment, model, more, store)
    except BaseException:
        # The next attempt to open the database, even in this process, must find it free.
        store.close()
        raise
    if isinstance(parts.dispatcher, Places):
        parts.dispatcher.recovery = Recovery(
            partial(take_up_place, parts), tell_of_lost, partial(take_up_common, parts)
        )
    return parts


def open_tracing(settings: Settings, store: Store) -> Tracing | None:
    """The tracing to the operator's collector; None: the settings name none.

    Raises:
        Refused: the library for it is not installed.
    """
    if settings.otlp_endpoint is None:
        return None
    return Tracing(store, settings.otlp_endpoint, content=settings.trace_content)


def build(
    settings: Settings,
    environment: dict[str, str],
    model: Model | None,
    more: Extensions,
    store: Store,
) -> Parts:
    """Make every room, and connect them."""
    kit = open_toolkit(settings, environment, store, more.kinds)
    hub, metrics, tracing = Hub(), Metrics(kit.tools), open_tracing(settings, store)
    hub.watch(metrics.observe, *([tracing.observe] if tracing else ()))
    profiles = load_profiles(settings.agents, known_tools=kit.names)
    sender, live = open_hooks(settings, environment, store, metrics), LiveText(store, hub)
    models = ModelPool(
        settings=settings, environment=environment, only=model, metrics=metrics,
        roles=load_roles(settings.models_file),
    )  # fmt: skip
    doings = Doings(
        agents=facts_of(profiles, kit.servers), tools=kit.classes, always_ask=ALWAYS_ASK
    )
    desk = open_desk(settings, doings)
    gate = open_gate(
        settings, kit.for_gate, profiles, desk.reviews, given_in(store), kit.servers,
        environment.get("PATH"),
    )  # fmt: skip
    traces = Traces(
        store=store, traffic=Traffic(),
        snapshots=Snapshots(settings.home / "snapshots", limits=SnapshotLimits(
            files=settings.snapshot_max_files, total=settings.snapshot_max_bytes
        )),
    )  # fmt: skip
    rollbacks = Rollbacks(store=store, traffic=traces.traffic, snapshots=traces.snapshots)
    dispatcher = _dispatcher(store, hub, live)
    erasures = Erasures(
        store=store, snapshots=traces.snapshots, traffic=traces.traffic, dispatcher=dispatcher,
        hub=hub, drafts=settings.drafts, taken=settings.taken,
    )  # fmt: skip
    sweeps = Sweeps(
        store=store, snapshots=traces.snapshots, erasures=erasures,
        days=settings.keep_checkpoints_days, retention=settings.retention_days,
        jumps=Jumps(store.clock),
    )  # fmt: skip
    hands = Hands(
        store=store, desk=desk, gate=gate, traces=traces,
        watches=Watches(
            store=store, desk=desk, guards=gate.guards, traffic=traces.traffic,
            taken=settings.taken,
            resume=lambda tx, call: went_on.of_call(tx, call),
        ),
        means=open_means(settings, dispatcher.is_fresh if isinstance(dispatcher, Places) else None),
    )  # fmt: skip
    loop = Loop(
        store=store, desk=desk, gate=gate, hands=hands, models=models, live=live,
        max_requests=settings.max_steps,
        contexts=Contexts(
            store=store, models=models, meter=Meter(store=store, limits=settings.budget),
            account=Accounts(store=store, snapshots=traces.snapshots).text,
            briefings=Briefings(reader=kit.reader), result_tokens=settings.result_tokens,
        ),
    )  # fmt: skip
    engine = Engine.of(
        PlanRules(
            budget=settings.budget, patience=settings.model_patience,
            plan_timeout=settings.plan_timeout, replanning=replan_rules(settings),
            strategies=more.all_strategies, strategy=settings.strategy,
            max_per_agent=settings.max_parallel_agent,
            max_per_workspace=settings.max_parallel_workspace,
        ),
        PlanQuestions(
            desk=desk, attended=not settings.unattended, other_models=models.others
        ),
        PlanEnding(desk),
    )  # fmt: skip
    threads = Threads(store=store, engine=engine)
    built_in = BuiltInKinds.of(threads, loop, more.patterns, traces).all()
    subtasks = Subtasks(
        store=store, desk=desk, kinds={kind.name: kind for kind in (*built_in, *more.kinds)},
        patterns=more.patterns,
    )  # fmt: skip
    runner = PlanRunner(
        store=store, engine=engine, subtasks=subtasks, timeout=settings.subtask_timeout,
        retreat=AttemptRetreat(rollbacks) if settings.on_failure == "rollback" else None,
        patterns=more.patterns,
    )  # fmt: skip
    planning = Planning(
        engine=engine,
        reader=PlanReader(
            workers=frozenset(profiles) - PLANNERS, tools=kit.tools, kinds=subtasks.kinds
        ),
        max_parallel=settings.max_parallel,
        proposals=Proposals(desk=desk, gate=gate),
    )  # fmt: skip
    replanning = Replanning(
        desk=desk, engine=engine, planning=planning, within_grant=settings.replan_within_grant
    )
    answering = Answering(desk=desk, planning=planning)
    search = Search(
        store=store, loop=loop, planning=planning, timeout=settings.replanning_timeout,
        patience=settings.model_patience,
        aims={PlanStatus.REPLANNING: replanning, PlanStatus.AWAITING_APPROVAL: answering},
    )  # fmt: skip
    turns = Turns(
        store=store, loop=loop, desk=desk, patience=settings.model_patience,
        controls=Controls(store=store, planning=planning, profiles=profiles),
    )  # fmt: skip
    went_on, asks = Continuation(engine=engine, turns=turns, hands=hands), Asks(store=store)
    desk.register(
        {
            ApprovalKind.PLAN: PlanKind(planning),
            ApprovalKind.TOOL: CallKind(went_on.of_call, hands.hand_over, desk),
            ApprovalKind.SUBTASK: SubtaskKind(engine),
            ApprovalKind.INTERVENTION: InterventionKind(
                of_calls=Interventions(went_on.of_call),
                others={
                    GUARDED_NAMES: hands.watches,
                    REPLAN_QUESTION: replanning,
                    BUDGET: BudgetKind(pauses=engine.pauses, limits=settings.budget),
                    MODEL: AbsenceKind(pauses=engine.pauses),
                },
            ),
        }
    )
    handlers: dict[str, Handler] = {
        "turn": turns.job,
        "plan": runner.plan_job,
        "subtask": runner.subtask_job,
        REPLAN: search.job,
        SWEEP: sweeps.job,
        WATCH: hands.watches.job,
        ERASE: erasures.job,
        HOOK: sender.job,
        ASK: asks.job,
    }
    return Parts(
        settings=settings, store=store, hub=hub, live=live, metrics=metrics, desk=desk,
        gate=gate, hands=hands, engine=engine, runner=runner, planning=planning,
        replanning=replanning,
        answering=answering, asks=asks,
        by_hand=HandCheckpoints(store=store, traffic=traces.traffic, snapshots=traces.snapshots),
        rollbacks=rollbacks, sweeps=sweeps, erasures=erasures, sender=sender, turns=turns,
        inbox=Inbox(locale=settings.locale), dispatcher=dispatcher, models=models,
        hosts=ToolHosts(store), profiles=profiles, tools=kit.tools, servers=kit.servers,
        went_on=went_on,
        handlers=handlers, on_timer=sender.before(
            Timers(desk=desk, engine=engine, hands=hands, went_on=went_on).fire
        ),
        closing=anyio.Event(), bearers=open_bearers(settings, store.clock),
        tracing=tracing,
    )  # fmt: skip


def _dispatcher(store: Store, hub: Hub, live: LiveText) -> Dispatcher:
    """What has jobs done: in this process, or in the places that it owns."""
    if store.shared_as is None:
        return LocalDispatcher(store, aside=_ASIDE)
    store.routes = ROUTES
    return Places(store, hub, live, aside=_ASIDE)
