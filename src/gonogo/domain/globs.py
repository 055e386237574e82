"""Whether two globs have a path in common.

Globs are those of scopes and profiles: relative to the workspace, `*` and `?` within a name, `**`
across folders, and a glob without a wildcard also covers what lies below it. The answer is exact,
by walking both as automata side by side, as long as it takes no longer than was allowed.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product

MAX_GLOB = 256
"""Characters; a longer glob counts as one that covers everything."""
EVERYTHING = "**"
_WILD = "*?"
_MAX_PAIR = 20_000
"""Steps for one pair of globs."""


@dataclass(slots=True)
class Overlaps:
    """Compares globs, and remembers what it found.

    What would take longer than `steps` in all is not compared: `exhausted` then says so.
    """

    steps: int = 250_000
    exhausted: bool = False
    _known: dict[tuple[str, str], str | None] = field(
        default_factory=dict[tuple[str, str], str | None]
    )

    def any(self, ours: Sequence[str], theirs: Sequence[str]) -> str | None:
        """A path that one of each covers, None if there is none.

        Globs too hard to compare count as overlapping, and one of them stands for the path.
        """
        pairs = () if self.exhausted else product(map(_read, ours), map(_read, theirs))
        for one, other in pairs:
            self.exhausted = self.steps <= 0
            if self.exhausted:
                return None
            self.steps -= 1
            if one[1].startswith(other[1]) or other[1].startswith(one[1]):
                found = self._common(one[0], other[0])
                if found is not None:
                    return found
        return None

    def _common(self, one: str, other: str) -> str | None:
        pair = (one, other)
        if pair not in self._known:
            found, took = common_path(one, other)
            self.steps -= took
            self._known[pair] = found
        return self._known[pair]


def plain(glob: str) -> str:
    """The glob as it is compared; one that covers everything is `**`."""
    short = glob.removeprefix("./").rstrip("/")
    return EVERYTHING if short in ("", ".") or len(short) > MAX_GLOB else short


def common_path(one: str, other: str) -> tuple[str | None, int]:
    """A path that both cover, if there is one, and the steps that finding out took."""
    ours, theirs = _Automaton(plain(one)), _Automaton(plain(other))
    seen: set[tuple[int, int, bool]] = set()
    # A name has begun: paths hold no empty names, and neither begin nor end with a slash.
    queue = deque([("", a, b, False) for a, b in product(ours.start, theirs.start)])
    while queue:
        path, a, b, begun = queue.popleft()
        if (a, b, begun) in seen:
            continue
        seen.add((a, b, begun))
        if begun and a in ours.ends and b in theirs.ends:
            return path, len(seen)
        if len(seen) > _MAX_PAIR:
            return one, len(seen)
        for letter, after, also in _moves(ours.moves[a], theirs.moves[b]):
            if letter != "/" or begun:
                queue.append((path + letter, after, also, letter != "/"))
    return None, len(seen)


@lru_cache(maxsize=4_096)
def _read(glob: str) -> tuple[str, str]:
    """The glob as it is compared, and its beginning without wildcards."""
    short = plain(glob)
    at = min((short.find(sign) for sign in _WILD if sign in short), default=len(short))
    return short, short[:at]


_ANY, _NAME = "any", "name"
"""What a step takes: every character, or every one but a slash; else just that character."""
_Moves = list[tuple[str, int]]


def _moves(ours: _Moves, theirs: _Moves) -> Iterator[tuple[str, int, int]]:
    for (mine, a), (other, b) in product(ours, theirs):
        for letter in _letters(mine, other):
            yield letter, a, b


def _letters(one: str, other: str) -> Iterable[str]:
    """Letters that stand for all that both steps take."""
    wide = {_ANY: ("x", "/"), _NAME: ("x",)}
    if one in wide and other in wide:
        return wide[one] if one == other else ("x",)
    if one in wide:
        one, other = other, one
    taken = other in (one, _ANY) or (other == _NAME and one != "/")
    return (one,) if taken else ()


class _Automaton:
    """A glob as states and what leads from each to the next."""

    def __init__(self, glob: str) -> None:
        self.moves: list[_Moves] = [[]]
        self._skips: list[list[int]] = [[]]
        at = 0
        for sign in _signs(glob):
            at = self._add(at, sign)
        ends = {at}
        if not any(sign in glob for sign in (*_WILD, "[")):
            below = self._state()
            self.moves[at].append(("/", below))
            self.moves[below].append((_ANY, below))
            ends.add(below)
        self.start = self._reach(0)
        self.ends = {s for s in range(len(self.moves)) if ends & set(self._reach(s))}
        self.moves = [
            [(taken, after) for taken, to in moves for after in self._reach(to)]
            for moves in self.moves
        ]

    def _state(self) -> int:
        self.moves.append([])
        self._skips.append([])
        return len(self.moves) - 1

    def _add(self, at: int, sign: str) -> int:
        after = self._state()
        if sign == "**/":
            inside = self._state()
            self._skips[at] += [after, inside]
            self.moves[inside] += [(_ANY, inside), ("/", after)]
        elif sign in ("*", "**"):
            self._skips[at].append(after)
            self.moves[after].append((_NAME if sign == "*" else _ANY, after))
        else:
            self.moves[at].append((_NAME if sign == "?" else sign, after))
        return after

    def _reach(self, state: int) -> list[int]:
        """The states that one is in without taking a character."""
        reached = [state]
        for known in reached:
            reached += [other for other in self._skips[known] if other not in reached]
        return reached


def _signs(glob: str) -> Iterator[str]:
    at = 0
    while at < len(glob):
        size = 3 if glob.startswith("**/", at) else 2 if glob.startswith("**", at) else 1
        yield glob[at : at + size]
        at += size
