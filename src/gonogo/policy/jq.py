"""Filters of jq, read by a closed list of names: they look at their input, and they end.

A name is a call unless it is a field after a dot, a key of an object, or a variable. One that is
not in the list is taken for one that looks at something else, or never ends. The tokens are those
of jq's own lexer: https://github.com/jqlang/jq/blob/master/src/lexer.l
"""

import re

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
"""Names that show something else: they ask even as keys and in strings, where they are data."""
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
    """Whether a filter may look at more than its input, or never end."""
    return _TELLING.search(text) is not None or not _is_closed(text)


def _is_closed(text: str) -> bool:
    """Whether each name that a filter calls is in the list, and all of it was read."""
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
    """Keep account of what is open; False where something else is closed."""
    match found.lastgroup:
        case "opens":
            opened.append(found[0])
        case "closes":
            return bool(opened) and opened.pop() == _PAIRS[found[0]]
        case "ends" if found["ends"] == '"':
            opened.pop()
        case "ends":
            # `\(` in a string: its end, a bracket, leads back into the string.
            opened.append("(")
        case _:
            pass
    return True


def _is_harmless(name: str, rest: str) -> bool:
    return name in _HARMLESS and not (name == "recurse" and rest.lstrip().startswith("("))
