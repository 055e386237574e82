"""Under which conditions a call is judged."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

ALWAYS_ASK = frozenset({"delete_file"})


def nothing_is_outside(path: str) -> bool:
    """The judgement of a caller that cannot look at the disk."""
    del path
    return False


def nothing_matches(pattern: str) -> Iterable[str]:
    """What a caller finds that cannot look at the disk."""
    del pattern
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the runtime knows and the call does not say."""

    workspace: str
    """Absolute path of the workspace's folder."""
    home: str = ""
    """Absolute path of the folder that holds gonogo's state."""
    attended: bool = True
    """Somebody can be asked; else asking is denying."""
    repo_trusted: bool = True
    """The repository's own git settings were vetted; else each git command asks."""
    sandboxed: bool = True
    """Commands run in a sandbox; else those that run the repository's code ask."""
    auto_approve: bool = True
    """The plan's grant allows calls; else each asks."""
    max_write_globs: tuple[str, ...] | None = None
    """The only paths that the agent's profile may write; None is any."""
    readers: bool = False
    """A command of which each part is known to only read needs no question: whoever asks runs it
    where nothing can be written and nothing reached."""
    writes_barred: bool = False
    """Commands that nobody looks at run where the workspace cannot be written."""
    changed: str | None = None
    """What is not as it was when the call's tool was allowed; what allowed it then is left out."""
    always_ask: frozenset[str] = ALWAYS_ASK
    """Tools that no grant covers."""
    own_programs: Collection[str] = ()
    """Names that stand for programs of the workspace itself: they are code of the repository."""
    tools: frozenset[str] | None = None
    """The tools that exist; None when the caller has checked."""
    outside: Callable[[str], bool] = nothing_is_outside
    """Whether a relative path that a command names is something else on the disk than a file or
    folder inside the workspace: a link that leads out or to a secret, a pipe, a device."""
    matching: Callable[[str], Iterable[str]] = nothing_matches
    """The relative paths on the disk that a pattern, as Python's glob reads it, matches."""
