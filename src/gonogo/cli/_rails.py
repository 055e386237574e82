"""A graph as rails: a line of text for each node, lines down the left for the edges.

A rail leads down from a node for as long as some other waits for it. Where rails meet in a node
they are joined; one that only crosses is drawn through the joint.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

_JOINTS = {
    "ud": "│", "udl": "┤", "udr": "├", "udlr": "┼", "ul": "╯", "ur": "╰", "ulr": "┴",
    "dl": "╮", "dr": "╭", "dlr": "┬", "u": "│", "d": "│", "": " ",
}  # fmt: skip
"""What is drawn where lines go up, down, left and right."""


class Row(NamedTuple):
    """One line of a drawing; `key` is the node that stands in it, at the `●`."""

    text: str
    key: str | None = None


def rails(nodes: Sequence[tuple[str, Sequence[str]]]) -> list[Row]:
    """Draw nodes, given each with what it waits for; each stands below all of those.

    What waits for itself, in a circle, is drawn without those edges.
    """
    return list(_rows(_in_order(nodes)))


def _in_order(nodes: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, list[str]]]:
    known = {key for key, _ in nodes}
    left = {key: [d for d in after if d in known] for key, after in nodes}
    order: list[tuple[str, list[str]]] = []
    done: set[str] = set()
    while left:
        ready = next((key for key, after in left.items() if done.issuperset(after)), None)
        key = ready if ready is not None else next(iter(left))
        order.append((key, [d for d in dict.fromkeys(left.pop(key)) if d in done]))
        done.add(key)
    return order


def _rows(order: Sequence[tuple[str, Sequence[str]]]) -> Iterator[Row]:
    waiting = {key: sum(key in after for _, after in order) for key, _ in order}
    lanes: list[str | None] = []
    for key, after in order:
        joined = {lanes.index(each) for each in after}
        for each in after:
            waiting[each] -= 1
        closing = {column for column in joined if not waiting[lanes[column] or ""]}
        column = _column(lanes, closing)
        if joined:
            yield Row(_joints(lanes, joined, closing, column))
        for each in closing:
            lanes[each] = None
        yield Row(_marks(lanes, column), key)
        lanes[column] = key if waiting[key] else None
        while lanes and lanes[-1] is None:
            lanes.pop()


def _column(lanes: list[str | None], closing: Collection[int]) -> int:
    """Where a node stands: below one of those that it ends, else in the first free place."""
    if closing:
        return min(closing)
    if None in lanes:
        return lanes.index(None)
    lanes.append(None)
    return len(lanes) - 1


def _joints(
    lanes: Sequence[str | None], joined: Collection[int], closing: Collection[int], column: int
) -> str:
    meeting = {*joined, column}
    first, last = min(meeting), max(meeting)
    text = ""
    for place, lane in enumerate(lanes):
        if place in meeting:
            up = "u" if lane is not None else ""
            down = "d" if place == column or place not in closing else ""
            left = "l" if place > first else ""
            right = "r" if place < last else ""
            text += _JOINTS[up + down + left + right]
        else:
            text += "│" if lane is not None else "─" if first < place < last else " "
        text += "─" if first <= place < last else " "
    return text.rstrip()


def _marks(lanes: Sequence[str | None], column: int) -> str:
    places = range(max(len(lanes), column + 1))
    signs = ["●" if p == column else "│" if lanes[p] is not None else " " for p in places]
    return " ".join(signs).rstrip()
