"""Text as providers stream it, made safe to store and to show.

Lone surrogates and NUL have no place in UTF-8 or in PostgreSQL, so they become U+FFFD; a pair of
surrogates that was cut between two pieces is joined again.
"""

import re
from collections.abc import Callable
from typing import Any

_UNSTORABLE = re.compile("[\ud800-\udfff\x00]")
_BETWEEN_PARTS = "\n\n"


def clean(text: str) -> str:
    """The text with what cannot be stored replaced."""
    if not _UNSTORABLE.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\x00", "\ufffd")


def clean_json(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A JSON value with every string in it cleaned, keys too."""
    match value:
        case str():
            return clean(value)
        case list():
            return [clean_json(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {clean_json(key): clean_json(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def joined(parts: list[str]) -> str:
    """The whole text of a reply that has several text parts."""
    return _BETWEEN_PARTS.join(clean(part) for part in parts if part)


class Relay:
    """Passes text on as it comes, and never passes the same text twice.

    After a retry the model begins again. What was already shown is skipped while the new text
    agrees with it; if it does not, nothing more is shown, because the whole reply comes anyway.
    """

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._shown = ""
        self._fresh: list[str] = []
        self.restart()

    def restart(self) -> None:
        """Begin a new attempt."""
        self._shown += "".join(self._fresh)
        self._fresh = []
        self._said = 0
        self._held = ""
        self._agrees = True
        self._gap = False

    def part(self) -> None:
        """Begin a new text part of the same reply."""
        self.finish()
        self._gap = self._said > 0

    def feed(self, piece: str) -> None:
        """Take the next piece of the text."""
        piece = self._held + piece
        # The other half of the character may be in the next piece.
        split = bool(piece) and "\ud800" <= piece[-1] <= "\udbff"
        self._held = piece[-1] if split else ""
        self._pass_on(clean(piece[:-1] if split else piece))

    def finish(self) -> None:
        """The reply is whole: pass on what is left."""
        held, self._held = self._held, ""
        self._pass_on(clean(held))

    def _pass_on(self, text: str) -> None:
        if not text:
            return
        if self._gap:
            self._gap, text = False, _BETWEEN_PARTS + text
        again = self._shown[self._said : self._said + len(text)]
        self._said += len(text)
        self._agrees = self._agrees and text.startswith(again)
        fresh = text[len(again) :]
        if self._agrees and fresh:
            self._fresh.append(fresh)
            self._on_text(fresh)
