"""A model that answers from a script: for tests, and for `--model demo`.

It keeps no state. Which line comes next is told by the conversation it is given, so a script goes
on where it was after a restart, and subtasks that run at once do not disturb one another.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from gonogo.domain.errors import ModelFailed, ModelNotConfigured
from gonogo.domain.tool_calls import Message, ModelRequest, Reply, ToolRequest, Usage
from gonogo.llm.model import OnText, new_call_id
from gonogo.llm.provider import clean, read_arguments

DEMO = "demo"
"""The name of the model that plays the recorded demo."""
Line = Mapping[str, Any] | Callable[[ModelRequest], Mapping[str, Any]]
"""`{"text", "calls": [{"name", "arguments"}], "cut", "delay"}`, or what makes one of a request.

`delay` is in seconds; `arguments` may be a string, which is read as a model's JSON is; `cut` ends
the reply at its limit of length.
"""

_PIECE = 24
_WINDOW = 200_000


class ScriptedModel:
    """Answers with the lines of a script.

    The key of a line is the subtask's id, or `main/<agent>` in a session's conversation. Its index
    is the number of replies that the conversation already had from that key. A last line that is
    no answer (it is empty, or cut off) is given again and again.
    """

    def __init__(
        self,
        lines: Mapping[str, Sequence[Line]],
        name: str = "scripted",
        *,
        ending: Line | None = None,
    ) -> None:
        """Take a script.

        Args:
            ending: The line when the script has no more; None is a `ModelFailed`.
        """
        self.name = name
        self.window: int | None = _WINDOW
        self._lines = lines
        self._ending = ending

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Give the next line of the conversation's script, its text in small pieces."""
        return await self.answer(self.next_line(request), request, on_text)

    async def answer(
        self, line: Mapping[str, Any], request: ModelRequest, on_text: OnText
    ) -> Reply:
        """Give a line as the answer to a request."""
        began = time.perf_counter()
        await anyio.sleep(line.get("delay", 0))
        text = clean(str(line.get("text", "")))
        for start in range(0, len(text), _PIECE):
            on_text(text[start : start + _PIECE])
            await anyio.lowlevel.checkpoint()
        return Reply(
            text=text,
            calls=tuple(_call(call) for call in line.get("calls", ())),
            cut=bool(line.get("cut")),
            model=self._mark(request),
            usage=Usage(
                input_tokens=sum(map(_size, request.messages)) // 4,
                output_tokens=len(json.dumps(line, default=str)) // 4,
                duration_ms=(time.perf_counter() - began) * 1000,
            ),
        )

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _mark(self, request: ModelRequest) -> str:
        return f"{self.name}/{request.agent}"

    def next_line(self, request: ModelRequest) -> Mapping[str, Any]:
        """The next line of a conversation's script.

        Raises:
            ModelFailed: there is none.
        """
        in_main = request.thread == "main"
        key = f"main/{request.agent}" if in_main else request.thread
        given = [
            message
            for message in request.messages
            if isinstance(message, Reply) and (not in_main or message.model == self._mark(request))
        ]
        earlier = [m for m in request.earlier if not in_main or m == self._mark(request)]
        lines, said = self._lines.get(key, ()), len(earlier) + len(given)
        if lines and given and said >= len(lines) and given[-1].is_unfinished:
            said = len(lines) - 1
        line = lines[said] if said < len(lines) else self._ending
        if line is None:
            raise ModelFailed(
                "The script {name!r} has no line {number} for {key!r}; add one",
                name=self.name, number=said, key=key,
            )  # fmt: skip
        return line(request) if callable(line) else line


def _size(message: Message) -> int:
    """Characters of a message; not of what a provider, or the record, has noted beside it."""
    made = "".join(map(str, getattr(message, "calls", ())))
    return len(getattr(message, "content", "") or getattr(message, "text", "")) + len(made)


def _call(call: Mapping[str, Any]) -> ToolRequest:
    arguments, problem = read_arguments(call.get("arguments"))
    name = clean(call["name"])
    return ToolRequest(id=new_call_id(), name=name, arguments=arguments, problem=problem)


def demo_model() -> ScriptedModel:
    """The model that replays the recorded run on the sample project.

    Raises:
        ModelNotConfigured: the recording is not part of this installation.
    """
    from gonogo.demo import recording, told

    try:
        stories = {locale: recording(locale) for locale in ("en", "ru")}
    except FileNotFoundError:
        raise ModelNotConfigured(
            "This installation has no demo recording; reinstall gonogo"
        ) from None

    def line(thread: str, number: int) -> Line:
        return lambda request: stories[_language_of(request)][thread][number]

    lines = {
        thread: [line(thread, number) for number in range(len(found))]
        for thread, found in stories["en"].items()
    }
    return ScriptedModel(
        lines, DEMO, ending=lambda request: {"text": told(_ENDING, _language_of(request))}
    )


_ENDING = "The recorded demo ends here."


def _language_of(request: ModelRequest) -> str:
    """The language of what began the conversation: a person's task, or that of a plan."""
    return "ru" if re.search("[а-яё]", str(request.messages[:1])) else "en"
