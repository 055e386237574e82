"""What a program printed, without what differs in each run and on each machine.

Only sessions that are recorded, or played, are told it so: then the same work makes the same
requests to a model, byte for byte. Everywhere else a program's words are told as they are.
"""

import re
from functools import lru_cache

_MONTHS = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_ZONE = r"(?:Z\b| ?[+-]\d\d:?\d\d\b| [A-Z]{3,4}\b)?"
_DIFFERS = (
    # 2026-01-02T03:04:05Z, as logs have it; a date alone is no moment.
    (re.compile(rf"\b\d{{4}}-\d\d-\d\d[T ](?:{_CLOCK}|\d\d:\d\d\b){_ZONE}"), "<time>"),
    # Fri Jan  2 03:04:05 UTC 2026, as `date` and git have it; Jan  2 03:04, as `ls -l` has it.
    (
        re.compile(
            rf"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?{_MONTHS} {{1,2}}\d{{1,2}} "
            rf"(?:{_CLOCK}(?: [A-Z]{{3,4}})?(?: \d{{4}})?(?: [+-]\d{{4}})?|\d\d:\d\d\b| \d{{4}}\b)"
        ),
        "<time>",
    ),
    (re.compile(rf"\b{_CLOCK}\b"), "<time>"),
    (re.compile(r"\b(?:\d+m)?\d+\.\d+ ?(?:s|secs?|seconds)\b"), "<duration>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|µs|us|ns)\b"), "<duration>"),
    (re.compile(r"(?<=duration_ms)(\W{1,3})\d[\d.]*"), r"\1<duration>"),
    (re.compile(r"(?<![\w.-])(?:/var)?/tmp(?:/[\w.@+-]+)+"), "<temporary>"),
    (re.compile(r"\b0x[0-9a-fA-F]{6,16}\b"), "<address>"),
)


def steady(output: str, root: str) -> str:
    """The output without moments, durations, addresses and folders of its run.

    Args:
        root: The workspace; what lies in it is named from there.
    """
    text = _inside(root).sub(lambda found: "" if found[0].endswith("/") else ".", output)
    for pattern, word in _DIFFERS:
        text = pattern.sub(word, text)
    return text


@lru_cache(maxsize=64)
def _inside(root: str) -> re.Pattern[str]:
    """The workspace's folder, where it is not a part of another name."""
    return re.compile(rf"(?<![\w./-]){re.escape(root)}(?:/(?=[\w.@+-])|(?![\w-]|\.\w))")
