"""Settings of git that make it start something, or that are not of this repository."""

import re
from itertools import pairwise, takewhile

from gonogo.domain.commands import option_values, started_at, starts_others
from gonogo.domain.errors import because
from gonogo.policy.host import Argv

_GIT_PLANTS = re.compile(
    r"alias\.|core\.(?:hookspath|fsmonitor|sshcommand|pager|editor|gitproxy|askpass|worktree"
    r"|alternaterefscommand)|diff\.external|\.(?:textconv|clean|smudge|process|driver|cmd|command"
    r"|vcs|tunnel)$|credential|gpg\.|include|sequence\.editor|uploadpack|receivepack|pager\."
    r"|(?:difftool|mergetool|browser|man)\..*\.path$|(?:web|help)\.browser$|instaweb\.|sendemail\."
    r"|submodule\..*\.update$|interactive\.difffilter|init\.templatedir|protocol\.",
    re.IGNORECASE,
)
_GIT_OWN = re.compile("[a-z][ -~]*")
"""What is no code of a shell, no option, and was not computed."""
_QUOTES = re.compile(r"[\"'\\]")
_GIT_STARTS_NOTHING = frozenset(
    {"", "0", "1", "true", "false", "no", "off", "never", "cat", "less", ":", "/dev/null", "ssh",
     "openpgp", "x509"}
)  # fmt: skip
"""Values of such settings that start nothing of anybody's."""
_GIT_RENAMES = re.compile("(?:--)?ren")
"""A section gets another name, and its settings with it."""
_GIT_STARTS = re.compile(
    r"(?:alias|core|diff|credential|gpg|include(?:if)?|sequence|pager|difftool|mergetool|browser"
    r"|man|web|help|instaweb|sendemail|submodule|interactive|init|protocol)(?:\.|$)",
    re.IGNORECASE,
)
"""Sections in which settings become what starts something."""
_GIT_READS = frozenset({"get", "list"})
_GIT_TELLS = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l"})
"""With one of these git changes no setting: it takes one action at a time."""
_ELSEWHERE = re.compile(r"--(?:gl\w*|sy\w*|fil\w*)(?:=|$)|-f")


def changes_settings(argv: Argv, workspace: str) -> str | None:
    """Why `git config` may not do this; None when it may, or when this is no such command."""
    del workspace
    if argv[:2] != ("git", "config"):
        return None
    renames = any(map(_GIT_RENAMES.match, argv[2:]))
    if not renames and not _GIT_READS.isdisjoint(argv[2:3]):
        return None
    if any(map(_ELSEWHERE.match, argv)) and not _only_tells(argv):
        return because("changes git's configuration outside this repository")
    keys = [word for word in argv[2:] if not word.startswith("-")]
    if renames and keys and _GIT_STARTS.match(keys[-1]):
        return because("makes git run {key!r} automatically", key=keys[-1])
    if any(_is_planted(key, value) for key, value in pairwise(keys)):
        return because("makes git run {key!r} automatically", key=keys[1])
    return None


def _is_planted(key: str, value: str) -> bool:
    """Whether git starts what a setting names; an alias may name a command of git's own."""
    if not key.lower().startswith("alias.") or not _GIT_OWN.fullmatch(value):
        return _GIT_PLANTS.search(key) is not None
    argv = ("git", *_QUOTES.sub("", value).split())
    starts = any(starts_others(word, "git") for word in argv) or any(started_at(argv))
    return starts or changes_settings(argv, "") is not None


def _only_tells(argv: Argv) -> bool:
    options = {*takewhile(lambda word: word != "--", argv)}
    # A remark is the next word, whatever that looks like.
    return not _GIT_TELLS.isdisjoint(options) and not any(w.startswith("--com") for w in options)


def starts_by_settings(argv: Argv, workspace: str) -> str | None:
    """What git runs for this one command; None when nothing."""
    del workspace
    if argv[0] != "git":
        return None
    for setting in option_values(argv, ("-c", "--config")):
        key, equals, value = setting.partition("=")
        is_planted = equals and _is_planted(key, value) and not key.lower().startswith("protocol.")
        if is_planted and value.lower() not in _GIT_STARTS_NOTHING:
            return because("makes git run {key!r} automatically", key=value)
    for setting in option_values(argv, ("--config-env",)):
        if _GIT_PLANTS.search(setting.partition("=")[0]):
            return because("makes git run {key!r} automatically", key=setting)
    return None
