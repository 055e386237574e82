"""Commands that no checkpoint brings back, known by their words.

This only points a person to them; whether a command may run is judged by the policy alone.
"""

import re
from collections.abc import Sequence

from gonogo.domain.launchers import started_at

_PROGRAMS = frozenset(
    """rm rmdir unlink shred truncate dd mkfs wipefs dropdb dropuser twine terraform tofu pulumi
    helm kubectl ansible-playbook aws gcloud az heroku fly flyctl vercel netlify wrangler mail
    sendmail""".split()
)
_VERBS = {
    "git": "push clean reset rm gc filter-branch".split(),
    "gh": "pr release issue repo workflow api".split(),
    "docker": "push rm rmi prune system volume".split(),
    "podman": "push rm rmi prune system volume".split(),
    "redis-cli": "flushall flushdb".split(),
}
_ANYWHERE = frozenset("publish deploy release upload drop destroy -delete --delete".split())
"""Words that say it wherever they stand: `npm publish`, `make deploy`, `find . -delete`."""


def irreversible(command: str) -> str | None:
    """The part of a command that cannot be taken back, as far as its words tell."""
    for part in re.split(r"[;&|\n]+", command):
        words = [word.strip("'\"()`") for word in part.split()]
        while words and "=" in words[0]:
            del words[0]
        for start in (0, *started_at(words)) if words else ():
            if _tells(words[start:]):
                return " ".join(words[start:])
    return None


def _tells(words: Sequence[str]) -> bool:
    program, rest = words[0].rsplit("/", 1)[-1], words[1:]
    if program in _PROGRAMS or program.startswith("mkfs."):
        return True
    if any(word in _VERBS.get(program, ()) for word in rest[:3]):
        return True
    return any(word.lower() in _ANYWHERE for word in rest)
