"""Kinds of option values and operands: each says what is wrong with a word, or nothing."""

import posixpath
import re
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache

from msgspec import Struct

from gonogo.domain.errors import Reason, because
from gonogo.domain.paths import SECRET_DIRECTORIES, SECRET_GLOBS, is_secret, write_guard

# Filters of jq, read with a closed list of names: they read only their input, and they end.
#
# A name is a call unless it is a field after a dot, a key of an object, or a variable. A name that
# is not in the list counts as one that reads something else, or never ends. The tokens are those
# of jq's own lexer: https://github.com/jqlang/jq/blob/master/src/lexer.l

_HARMLESS = frozenset(
    """if then elif else end and or not as reduce foreach try catch label break true false null
    empty error length utf8bytelength keys keys_unsorted values has in map map_values path paths
    leaf_paths del delpaths getpath setpath pick to_entries from_entries with_entries select
    recurse walk add any all flatten floor ceil round trunc sqrt pow log log2 log10 exp exp2 exp10
    fabs abs significand min max min_by max_by unique unique_by group_by sort sort_by reverse
    contains inside index rindex indices startswith endswith ltrimstr rtrimstr trimstr trim ltrim
    rtrim explode implode split splits join ascii ascii_downcase ascii_upcase test match capture
    scan sub gsub tojson fromjson tostring tonumber toboolean toarray type nulls booleans numbers
    strings arrays objects iterables scalars nan isnan isinfinite isnormal isvalid now mktime
    gmtime localtime strftime strflocaltime strptime todate fromdate todateiso8601
    fromdateiso8601 dateadd datesub date limit first last nth skip transpose combinations tostream
    fromstream truncate_stream bsearch IN INDEX GROUP_BY UNIQUE_BY""".split()
)
_TELLING = re.compile(
    r"(?<!\.)\b(?:env|inputs?|input_filename|include|import|modulemeta|debug|stderr|halt_error"
    r"|get_search_list)\b"
)
"""Names that show other data: they ask even as keys and in strings, where they are harmless."""
_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t\r\n]+)
    | (?P<data>\.\. | \.[A-Za-z_][A-Za-z0-9_]* | @[A-Za-z0-9_]+
        | (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![0-9.]))
    | \$[ \t\r\n]*(?P<variable>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<opens>["(\[{])
    | (?P<closes>[)\]}])
    | [,:;|.?=!<>+\-*/%]
    """,
    re.VERBOSE,
)
_STRING = re.compile(r'(?:[^"\\]|\\[^(])*+(?P<ends>"|\\\()')
_PAIRS = {")": "(", "]": "[", "}": "{"}


def looks_out(text: str) -> bool:
    """Whether a filter may read more than its input, or never end."""
    return _TELLING.search(text) is not None or not _is_closed(text)


def _is_closed(text: str) -> bool:
    """Whether all of a filter could be read, and each name that it calls is in the list."""
    opened: list[str] = []
    before, at = "", 0
    while at < len(text):
        found = (_STRING if opened[-1:] == ['"'] else _TOKEN).match(text, at)
        if found is None or not _follow(found, opened):
            return False
        at, kind = found.end(), found.lastgroup
        key = opened[-1:] == ["{"] and before in ("{", ",")
        if kind == "variable" and (found[kind] == "ENV" or found[kind].startswith("__")):
            return False
        if kind == "name" and not key and not _is_harmless(found[0], text[at:]):
            return False
        before = before if kind == "blank" else found[0]
    return opened == []


def _follow(found: re.Match[str], opened: list[str]) -> bool:
    """Keep track of open brackets and strings. False: the wrong one is closed."""
    match found.lastgroup:
        case "opens":
            opened.append(found[0])
        case "closes":
            return bool(opened) and opened.pop() == _PAIRS[found[0]]
        case "ends" if found["ends"] == '"':
            opened.pop()
        case "ends":
            # `\(` in a string: its closing bracket leads back into the string.
            opened.append("(")
        case _:
            pass
    return True


def _is_harmless(name: str, rest: str) -> bool:
    return name in _HARMLESS and not (name == "recurse" and rest.lstrip().startswith("("))


# Only in this form is it certain where a character class ends, and so where the pattern ends.
_SED_CLASS = r"\[\^?(?:\[:[a-z]+:\]|[^\[\]/\\\n])+\]"
_SED_PATTERN = rf"/(?:[^/\\\n\[]|\\[^\n]|{_SED_CLASS})*+/I?"
_SED_ADDRESS = rf"(?:\d++(?:~\d++)?|\$|{_SED_PATTERN})"
# `_` stands for spaces and tabs; a new line would begin another command.
_SED_RANGE = rf"{_SED_ADDRESS}?_(?:,_(?:{_SED_ADDRESS}|[+~]\d++))?_!?_"
_SED_STEP = rf"(?:{_SED_RANGE}p|{_SED_ADDRESS}_q)"
_SED_PRINT = re.compile(rf"_{_SED_STEP}(?:_;_{_SED_STEP})*_;?_".replace("_", r"[ \t]*+"))
_PLAIN_ARGUMENT = re.compile(r"(?![-+@!])[^\s;|&$`<>()'\"\\=]*")


def nothing_matches(pattern: str) -> Iterable[str]:
    """The default for a caller that cannot look at the disk."""
    del pattern
    return ()


class CommandPlace(Struct, frozen=True, kw_only=True):
    """Where a command would run, as far as the verdict on its words depends on it."""

    workspace: str
    cwd: str = "."
    """Relative to the workspace."""
    names_only: bool = False
    """The program shows names or counts, never contents."""
    own_programs: Collection[str] = ()
    """Names of programs in the workspace, even if other programs have the same names."""
    matching: Callable[[str], Iterable[str]] = nothing_matches
    """`Conditions.matching`."""


_MAX_COLONS = 16
_MAX_PATTERN = 128
"""The longest pattern of a name that is compared with the names of secrets."""
_GIT_LINE = r"(?:[\w+$^-]*+|/[^/:\\]*/)"

Kind = Callable[[str, bool, CommandPlace], str | None]
"""A word, whether it is a glob, and the place → what is wrong with the word, or None."""


def path(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """A path inside the workspace that is not a secret."""
    if word in ("-", "/dev/null"):
        return None
    if not word:
        return because("an empty path")
    inside = _relative(word, place)
    if inside is None:
        return because("{word!r} leaves the workspace", word=word)
    if is_secret(inside):
        return because("{word!r} may contain secrets", word=word)
    if is_glob and not place.names_only and may_match_secret(inside):
        return because("{word!r} may match files that contain secrets", word=word)
    return None


def _relative(word: str, place: CommandPlace) -> str | None:
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
    """Whether a normalised path is absolute, or leads out of the folder from which it starts."""
    return path == ".." or path.startswith(("/", "../"))


def may_match_secret(pattern: str) -> bool:
    """Whether a glob could match the name of a secret."""
    *directories, last = pattern.casefold().split("/")
    if any(_overlap(name, secret) for name in directories for secret in SECRET_DIRECTORIES):
        return True
    if _overlap(last, "config*") and any(_overlap(name, ".git") for name in directories):
        return True
    return any(_overlap(last, secret) for secret in SECRET_GLOBS)


def _overlap(pattern: str, secret: str) -> bool:
    if secret.startswith(".") and not pattern.startswith("."):
        return False
    one = re.sub(r"\[[^\]]*\]", "?", pattern)
    return len(one) > _MAX_PATTERN or _meet(one, secret)


@lru_cache(maxsize=4_096)
def _meet(one: str, other: str) -> bool:
    """Whether there is a name that both globs match."""
    if not one or not other:
        return not (one or other).strip("*")
    if _differ(one[0], other[0]) or _differ(one[-1], other[-1]):
        return False
    if one[0] == "*":
        return _meet(one[1:], other) or _meet(one, other[1:])
    if other[0] == "*":
        return _meet(one, other[1:]) or _meet(one[1:], other)
    return _meet(one[1:], other[1:])


def _differ(one: str, other: str) -> bool:
    """Whether two characters of globs can never match the same character."""
    return one != other and one not in "*?" and other not in "*?"


def text(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """Plain data; a glob is allowed only if the program shows names, not contents."""
    return (
        because("{word!r} is a pattern of files", word=word)
        if is_glob and not place.names_only
        else None
    )


def none(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """No word is allowed here."""
    del is_glob, place
    return because("{word!r} is one operand too many", word=word)


def node(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """A test file, with the test's name after `::`."""
    return path(word.split("::", 1)[0], is_glob, place)


def standing(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """A path, for a program that with `+1f` would wait for a file to grow."""
    waits = re.fullmatch(r"\+\d*[bcl]?f", word) or (is_glob and word.startswith("+"))
    return because("{word!r} may wait forever", word=word) if waits else path(word, is_glob, place)


def local(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """A path, for a program that would read `HOST:FILE` from another machine."""
    far = ":" in word or is_glob
    return (
        because("{word!r} may be on another host", word=word) if far else path(word, is_glob, place)
    )


def argument(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """A word for a program without a table: a name or a file.

    It must not be an option, a setting, an address, a file outside the workspace, or a guarded
    name, and it must not have characters that a shell would treat specially.
    """
    if not _PLAIN_ARGUMENT.fullmatch(word) or "://" in word:
        return because("{word!r} may not be harmless", word=word)
    return path(word, is_glob, place) or guarded(inside_of(word, place))


def inside_of(word: str, place: CommandPlace) -> str:
    """The path of a word, relative to the workspace; `.` for a path that leads out."""
    return _relative(word, place) or "."


def guarded(inside: str) -> str | None:
    """Why a path must not be touched without a question, if it is a guarded name."""
    if inside == "." or write_guard(inside) is None:
        return None
    return because("{path!r} is run or read by other programs, or contains secrets", path=inside)


def revision(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """A revision, a range of them, `REVISION:PATH`, or a path."""
    if word.startswith(":") or word.count(":") > _MAX_COLONS:
        return because("{word!r} is a pathspec or a revision that is not known", word=word)
    head = word.partition(":")[0]
    # Times and patterns have colons too, so the path may begin after any colon.
    tails = [word[at + 1 :] for at, letter in enumerate(word) if letter == ":"]
    named = [part for part in re.split(r"\.{2,3}", head) if part] if _range(head) else [head]
    if is_secret(head):
        return because("{word!r} may contain secrets", word=word)
    for part in [*named, *filter(None, tails)]:
        if reason := path(part, is_glob, place):
            return reason
    return None


def _range(head: str) -> bool:
    return ".." in head and not re.search(r"(^|/)\.\.(/|$)", head)


def pathspec(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """A path that git takes literally: without pathspec magic and patterns."""
    if word.startswith(":") or "\\" in word or (not is_glob and re.search(r"[*?\[]", word)):
        return because("git reads {word!r} as more than a path", word=word)
    return path(word, is_glob, place)


def git_lines(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """`START,END` or `START,END:PATH` of log and blame."""
    found = re.fullmatch(rf"{_GIT_LINE},?{_GIT_LINE}(?::(?P<path>[^:]+))?", word)
    if found is None:
        return because("{word!r} is not a range of lines", word=word)
    return path(found["path"], is_glob, place) if found["path"] else None


def _matching(pattern: str, what: Reason) -> Kind:
    compiled = re.compile(pattern)

    def check(word: str, is_glob: bool, place: CommandPlace) -> str | None:
        del place
        if compiled.fullmatch(word) and not is_glob:
            return None
        return because("{word!r} is not {what}", word=word, what=what)

    return check


listing = _matching(r"[vzjJ]*t[vzjJ]*f", because("a listing of an archive"))
"""The letters with which tar lists an archive, in an order that GNU and busybox read alike."""
_plain = _matching(r"(?!-)[\w.+-]*[\w,+-]", because("a plain name"))


def named(kind: Kind, word: str) -> str | None:
    """The path that a word of this kind may name; None if the word is only data."""
    if kind in _DATA:
        return None
    return word.split("::", 1)[0] if kind is node else word


def sed_print(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """A sed script that prints some lines and does nothing else."""
    del place
    ok = not is_glob and _SED_PRINT.fullmatch(word)
    return None if ok else because("{word!r} does more than print lines", word=word)


def name(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """A plain name that selects something; it must not be the name of a secret file."""
    return _plain(word, is_glob, place) or (
        because("{word!r} may contain secrets", word=word) if is_secret(word) else None
    )


def jq_filter(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """A jq filter that reads only its input."""
    del place
    if is_glob or looks_out(word):
        return because("{word!r} may read more than its input", word=word)
    return None


def git_format(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """A format of `git log`; `%G` would run a program that checks signatures."""
    del place
    return (
        because("{word!r} may run gpg", word=word)
        if is_glob or "%G" in word or "signature" in word
        else None
    )


def unplugged(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """The name of a plugin that is switched off, such as `no:xdist`."""
    del place
    off = not is_glob and re.fullmatch(r"no:[\w.-]+", word)
    return None if off else because("{word!r} loads a plugin", word=word)


_RUNNER_FLAGS = frozenset(
    """--bail --ci --coverage --no-coverage --passWithNoTests --run --runInBand --silent
    --verbose""".split()
)


def runner(word: str, is_glob: bool, place: CommandPlace) -> str | None:
    """A word for a script that runs tests: a flag that all runners know or refuse, or a path."""
    return None if word in _RUNNER_FLAGS else argument(word, is_glob, place)


KINDS: dict[str, Kind] = {
    "path": path,
    "argument": argument,
    "text": text,
    "none": none,
    "node": node,
    "local": local,
    "standing": standing,
    "unplugged": unplugged,
    "runner": runner,
    "revision": revision,
    "pathspec": pathspec,
    "git_lines": git_lines,
    "git_format": git_format,
    "sed_print": sed_print,
    "jq_filter": jq_filter,
    "number": _matching(r"\d{1,9}", because("a number")),
    "size": _matching(r"[+-]?\d{1,12}[A-Za-z]{0,3}", because("a number or size")),
    "name": name,
    "version": _matching(r"\d+(?:\.\d+)*", because("a version")),
    "date_format": _matching(r"\+[\s\S]*", because("a format that starts with '+'")),
    "stash_list": _matching(r"list", because("a listing")),
    "hidden": _matching(r"[^/~][^/]*", because("a pattern of names")),
}
_DATA = frozenset(
    KINDS[name]
    for name in """text none number size version date_format git_format sed_print jq_filter
    git_lines unplugged stash_list hidden""".split()
)
"""Kinds of words that no program opens as files."""
