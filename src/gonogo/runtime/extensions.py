"""What others add: kinds of subtasks, failure rules and strategies, found by entry points.

An installed distribution names what it adds:

    [project.entry-points."gonogo.subtask_kinds"]
    wait = "my_package:WAIT"                # a gonogo.execution.scheduling.Kind of that name

    [project.entry-points."gonogo.failure_patterns"]
    licence = "my_package:LICENCE"          # a FailureRule, or several

    [project.entry-points."gonogo.strategies"]
    small_first = "my_package:small_first"  # a Strategy

They are loaded once, when a runtime opens. Whatever cannot be loaded, or is not what its group
holds, is refused by name: a runtime never runs with half of what was installed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar, cast

from gonogo.domain.errors import InvalidMessage
from gonogo.domain.failures import FailureRule, Patterns
from gonogo.domain.plan import BUILT_IN
from gonogo.domain.schedule import STRATEGIES, Strategy
from gonogo.execution.scheduling import Kind

KINDS, PATTERNS, NAMED_STRATEGIES = (
    "gonogo.subtask_kinds", "gonogo.failure_patterns", "gonogo.strategies",
)  # fmt: skip
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """What a runtime has besides what is built in."""

    kinds: Sequence[Kind] = ()
    rules: Sequence[FailureRule] = ()
    """The first one wins over those after it, and over all that are built in."""
    strategies: Mapping[str, Strategy] = field(default_factory=dict[str, Strategy])

    def __post_init__(self) -> None:
        """Check that nothing takes the place of what is there.

        Raises:
            InvalidMessage: naming what is there twice, or a rule that cannot be read.
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
        """What entry points name; those of other groups are passed over.

        Raises:
            InvalidMessage: naming the entry point that is broken.
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
        """What is installed beside gonogo.

        Raises:
            InvalidMessage: naming the entry point that is broken.
        """
        groups = (KINDS, PATTERNS, NAMED_STRATEGIES)
        return cls.load(point for group in groups for point in entry_points(group=group))


def _of(
    points: Iterable[EntryPoint], group: str, read: Callable[[str, object], _T]
) -> Sequence[_T]:
    return [_loaded(point, read) for point in points if point.group == group]


def _loaded(point: EntryPoint, read: Callable[[str, object], _T]) -> _T:
    name = f"Entry point {point.name!r} of {point.group}"
    try:
        return read(point.name, point.load())
    except InvalidMessage as problem:
        raise InvalidMessage(f"{name}: {problem}") from problem
    except Exception as error:
        said = f"cannot load {point.value}: {type(error).__name__}: {error}"
        raise InvalidMessage(f"{name}: {said}") from error


def _kind(name: str, found: object) -> Kind:
    if not isinstance(found, Kind) or found.name != name:
        raise InvalidMessage(f"a Kind with the name {name!r} is needed, not {found!r:.200}")
    return found


def _rules(name: str, found: object) -> Sequence[FailureRule]:
    rules = cast("Sequence[object]", found) if isinstance(found, (list, tuple)) else [found]
    for rule in rules:
        if not isinstance(rule, FailureRule):
            raise InvalidMessage(f"a FailureRule is needed, not {rule!r:.200}")
        Patterns((rule,))
    return cast("Sequence[FailureRule]", rules)


def _strategy(name: str, found: object) -> tuple[str, Strategy]:
    if not callable(found):
        raise InvalidMessage(f"a function is needed, not {found!r:.200}")
    return name, cast("Strategy", found)


def _no_twice(what: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidMessage(f"There is a {what} {name!r} already")
