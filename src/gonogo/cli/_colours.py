"""A question in colours: the call as it is judged, and differences of files line by line."""

import re
from collections.abc import Iterator

from rich.text import Text

from gonogo.cli._escape import json_line
from gonogo.cli._question import question_lines
from gonogo.domain.approval_views import ApprovalView
from gonogo.domain.visible import guarded

_DIFFERS = re.compile(r"^  (--- |\+\+\+ |@@ )", re.MULTILINE)
_CALL = 300
"""Letters of a call that are shown in the form in which it is judged."""


def question_texts(approval: ApprovalView) -> Iterator[Text]:
    """What would happen, and why a person is asked."""
    head, *lines = question_lines(approval)
    yield Text("")
    yield Text(guarded(head), style="bold")
    if approval.tool_name and approval.arguments is not None:
        call = json_line(approval.arguments, _CALL)
        yield Text(guarded(f"  {approval.tool_name} {call}"), style="cyan")
    differs = _DIFFERS.search("\n".join(lines)) is not None
    for line in lines:
        yield Text(guarded(line), style=_style(line) if differs else "")


def _style(line: str) -> str:
    match line[:3]:
        case "  +":
            return "bold" if line.startswith("  +++ ") else "green"
        case "  -":
            return "bold" if line.startswith("  --- ") else "red"
        case "  @":
            return "cyan"
        case _:
            return ""
