"""Kinds of option values and operands: each says what is wrong with a word, or nothing."""

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from gonogo.domain.paths import SECRET_DIRECTORIES, SECRET_NAMES, is_secret

_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n\[]|\\[^\n])*/)"
_SED_PRINT = re.compile(
    rf"\s*{_SED_ADDRESS}?\s*(?:,\s*(?:{_SED_ADDRESS}|[+~]\d+))?\s*p"
    rf"(?:\s*;\s*{_SED_ADDRESS}?\s*(?:,\s*(?:{_SED_ADDRESS}|[+~]\d+))?\s*p)*\s*;?\s*"
)
_JQ_REACHES_OUT = re.compile(
    r"\$ENV|\$__|\b(?:env|inputs?|input_filename|include|import|modulemeta|get_search_list|debug"
    r"|stderr|halt_error|repeat|range|until|while|limit|recurse_down|input_line_number)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a command would run, as far as its words are judged by it."""

    workspace: str
    cwd: str = "."
    """Relative to the workspace."""
    names_only: bool = False
    """The program shows names or counts, never contents."""


Kind = Callable[[str, bool, Place], str | None]
"""A word, whether it is a glob, and the place → what is wrong with it."""


def path(word: str, is_glob: bool, place: Place) -> str | None:
    """A file inside the workspace that holds no secret."""
    if word in ("-", "/dev/null"):
        return None
    if not word:
        return "an empty path"
    inside = _relative(word, place)
    if inside is None:
        return f"{word!r} leaves the workspace"
    if is_secret(inside):
        return f"{word!r} may hold secrets"
    if is_glob and not place.names_only and may_match_secret(inside):
        return f"{word!r} may match files that hold secrets"
    return None


def _relative(word: str, place: Place) -> str | None:
    if word.startswith("~") or ".." in word.split("/"):
        return None
    if not word.startswith("/"):
        inside = posixpath.normpath(posixpath.join(place.cwd, word))
        return None if leaves(inside) else inside
    plain = "/" + posixpath.normpath(word).lstrip("/")
    root = place.workspace.rstrip("/")
    if not root or (plain != root and not plain.startswith(root + "/")):
        return None
    return plain[len(root) + 1 :] or "."


def leaves(path: str) -> bool:
    """Whether a normalised path is absolute or climbs out of the folder it starts from."""
    return path == ".." or path.startswith(("/", "../"))


def may_match_secret(pattern: str) -> bool:
    """Whether a glob could match a name that holds secrets."""
    *directories, last = pattern.casefold().split("/")
    if any(_overlap(name, secret) for name in directories for secret in SECRET_DIRECTORIES):
        return True
    return any(_overlap(last, secret) for secret in SECRET_NAMES)


def _overlap(pattern: str, secret: str) -> bool:
    if secret.startswith(".") and not pattern.startswith("."):
        return False
    return _meet(re.sub(r"\[[^\]]*\]", "?", pattern), secret)


@lru_cache(maxsize=4_096)
def _meet(one: str, other: str) -> bool:
    """Whether two globs have a name in common."""
    if not one or not other:
        return not (one or other).strip("*")
    if one[0] == "*":
        return _meet(one[1:], other) or _meet(one, other[1:])
    if other[0] == "*":
        return _meet(one, other[1:]) or _meet(one[1:], other)
    if one[0] != other[0] and "?" not in (one[0], other[0]):
        return False
    return _meet(one[1:], other[1:])


def text(word: str, is_glob: bool, place: Place) -> str | None:
    """Plain data; a glob only where names of files are as harmless as any data."""
    return f"{word!r} is a pattern of files" if is_glob and not place.names_only else None


def none(word: str, is_glob: bool, place: Place) -> str | None:
    """Nothing may stand here."""
    del is_glob, place
    return f"{word!r} is one operand too many"


def node(word: str, is_glob: bool, place: Place) -> str | None:
    """A test file, with the test's name after `::`."""
    return source(word.split("::", 1)[0], is_glob, place)


def source(word: str, is_glob: bool, place: Place) -> str | None:
    """A path for a program that would read more arguments from `@FILE`."""
    return f"{word!r} hides arguments" if word.startswith("@") else path(word, is_glob, place)


def local(word: str, is_glob: bool, place: Place) -> str | None:
    """A path for a program that would look for `HOST:FILE` on another machine."""
    far = ":" in word or is_glob
    return f"{word!r} may be on another host" if far else path(word, is_glob, place)


def argument(word: str, is_glob: bool, place: Place) -> str | None:
    """What a program without a table is told: no option, no setting, no file elsewhere."""
    if word.startswith("-") or "=" in word or "://" in word:
        return f"{word!r} is not known to be harmless"
    return path(word, is_glob, place)


def revision(word: str, is_glob: bool, place: Place) -> str | None:
    """A revision, a range of them, `REVISION:PATH`, or a path."""
    if word.startswith(":"):
        return f"{word!r} is a pathspec or a revision that is not known"
    head, _, tail = word.partition(":")
    named = [part for part in re.split(r"\.{2,3}", head) if part] if _range(head) else [head]
    if is_secret(head):
        return f"{word!r} may hold secrets"
    for part in [*named, *([tail] if tail else [])]:
        if reason := path(part, is_glob, place):
            return reason
    return None


def _range(head: str) -> bool:
    return ".." in head and not re.search(r"(^|/)\.\.(/|$)", head)


def git_lines(word: str, is_glob: bool, place: Place) -> str | None:
    """`START,END` or `START,END:PATH` of log and blame."""
    found = re.fullmatch(r"[\w+$^-]*,?[\w+$^-]*(?::(?P<path>[^:]+))?", word)
    if found is None:
        return f"{word!r} is not a range of lines"
    return path(found["path"], is_glob, place) if found["path"] else None


def _matching(pattern: str, what: str) -> Kind:
    compiled = re.compile(pattern)

    def check(word: str, is_glob: bool, place: Place) -> str | None:
        del place
        if compiled.fullmatch(word) and not is_glob:
            return None
        return f"{word!r} is not {what}"

    return check


_plain = _matching(r"[\w.+-]*[\w,+-]", "a plain name")


def sed_print(word: str, is_glob: bool, place: Place) -> str | None:
    """A sed script that prints some lines and does nothing else."""
    del place
    ok = not is_glob and _SED_PRINT.fullmatch(word)
    return None if ok else f"{word!r} does more than print lines"


def name(word: str, is_glob: bool, place: Place) -> str | None:
    """A word that chooses; one that is also a file's name should not be a secret's."""
    return _plain(word, is_glob, place) or (
        f"{word!r} may hold secrets" if is_secret(word) else None
    )


def jq_filter(word: str, is_glob: bool, place: Place) -> str | None:
    """A jq filter that looks at its input only."""
    del place
    if is_glob or _JQ_REACHES_OUT.search(word):
        return f"{word!r} may look at more than its input"
    return None


def git_format(word: str, is_glob: bool, place: Place) -> str | None:
    """A format of log; `%G` would run a program to check signatures."""
    del place
    return f"{word!r} may run gpg" if is_glob or "%G" in word or "signature" in word else None


KINDS: dict[str, Kind] = {
    "path": path,
    "argument": argument,
    "text": text,
    "none": none,
    "node": node,
    "source": source,
    "local": local,
    "revision": revision,
    "git_lines": git_lines,
    "git_format": git_format,
    "sed_print": sed_print,
    "jq_filter": jq_filter,
    "number": _matching(r"\d{1,9}", "a number"),
    "size": _matching(r"[+-]?\d{1,12}[A-Za-z]{0,3}", "a number or size"),
    "name": name,
    "version": _matching(r"\d+(?:\.\d+)*", "a version"),
    "date_format": _matching(r"\+[\s\S]*", "a format that starts with '+'"),
    "stash_list": _matching(r"list", "a listing"),
    "tar_list": _matching(r"[vzjJ]*t[vzjJ]*f", "a listing of an archive"),
}
