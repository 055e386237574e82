"""Commands that change the machine, make git start programs, or tamper with gonogo itself.

The machine: its state, the user who runs a command, other people's processes. Git: settings that
make it start a program, or that do not belong to this repository.
"""

import re
import unicodedata
from itertools import pairwise, takewhile
from urllib.parse import unquote

from gonogo.domain.commands import (
    INTERPRETERS,
    SHELLS,
    base_name,
    family,
    option_values,
    started_at,
    starts_others,
)
from gonogo.domain.errors import because

Argv = tuple[str, ...]

_PRIVILEGE = frozenset("sudo sudo-rs sudoedit doas su pkexec runuser run0 gosu su-exec".split())
_HOST = frozenset(
    """shutdown reboot halt poweroff init telinit systemctl systemd-run loginctl launchctl service
    crontab at batch insmod rmmod modprobe kexec mount umount swapon swapoff fdisk sfdisk cfdisk
    gdisk sgdisk parted wipefs blkdiscard mkswap mke2fs debugfs hdparm losetup cryptsetup dmsetup
    visudo vipw vigr passwd chpasswd chsh useradd userdel usermod adduser deluser groupadd groupdel
    groupmod hostnamectl timedatectl sysctl iptables ip6tables nft ufw""".split()
)
_ACTS = {
    "init": re.compile(r"(?:^| )(?:[0-6abcsqu]|\S*[^\w./:@=\s-]\S*)(?: |$)", re.IGNORECASE),
    **dict.fromkeys(("at", "mount"), re.compile(r"\S")), "service": re.compile(r"\S +\S|[^\w.@ -]"),
    "crontab": re.compile("^(?!-l$)"), "sysctl": re.compile(r"^(?!(?:-a|(?:-n )?\w[\w.]*)$)"),
    "systemctl": re.compile(r"^(?!(?:status|is-active|is-enabled|is-failed)(?: \w[\w@.-]*)*$)"),
}  # fmt: skip
"""The words with which some of them change the machine; with others they only show its state.

A word after a starter of other programs need not be such a program: the `init` of
`npx prisma init` is not the host's.
"""
_TRACERS = frozenset("gdb strace ltrace lldb reptyr perf py-spy bpftrace gcore".split())
_LISTED = 3
"""The number of words in `kill -l 9`, which shows the name of a signal."""
_FEEDERS = frozenset("xargs gxargs parallel entr fd fdfind rush rargs xe apply".split())
"""Programs that add words to a command that cannot be seen before it runs."""
HOST_PROGRAMS = _PRIVILEGE | _HOST | _TRACERS | {"nsenter", "kill", "pkill", "killall"}
"""The programs that a pattern in the place of a program's name may mean."""


def ends_processes(argv: Argv, workspace: str) -> str | None:
    """Why a command may end processes that it did not start; None if it does not."""
    del workspace
    if argv[0] in ("pkill", "killall", "killall5", "skill", "slay"):
        return because("ends processes by name")
    if argv[0] == "fuser" and any(re.match(r"-\w*k|--kill$", word) for word in argv[1:]):
        return because("ends processes by name")
    if argv[0] != "kill" or (argv[1:2] == ("-l",) and len(argv) <= _LISTED):
        return None
    rest = list(argv[1:])
    if rest and re.match(r"-(?:s|n|-signal)$", rest[0]):
        del rest[:2]
    elif len(rest) > 1 and rest[0].startswith("-") and rest[0] != "--":
        del rest[0]
    if any(re.fullmatch(r"[-+]?0*[01]", word) for word in rest):
        return because("ends every process, or the one that this environment depends on")
    return None


def changes_host(argv: Argv, workspace: str) -> str | None:
    """Why a command changes the machine, or acts as another user; None if it does not."""
    del workspace
    if argv[0] in _PRIVILEGE:
        return because("{program} changes who runs the command", program=argv[0])
    if _acts(argv):
        return because("{program} changes the host", program=argv[0])
    if argv[0] == "nsenter" or (argv[0] in _TRACERS and any(map(_ATTACHES.match, argv[1:]))):
        return because("{program} attaches to another process", program=argv[0])
    if argv[0] in ("gdb", "gcore", "reptyr") and _last(argv).isdigit():
        return because("{program} attaches to another process", program=argv[0])
    return None


def _last(argv: Argv) -> str:
    return next((word for word in reversed(argv[1:]) if not word.startswith("-")), "")


def _acts(argv: Argv) -> bool:
    if argv[0] in _FEEDERS:
        return not _ACTS.keys().isdisjoint(map(base_name, argv[1:]))
    acts = _ACTS.get(argv[0])
    if acts is not None:
        return acts.search(" ".join(argv[1:])) is not None
    return argv[0] in _HOST or argv[0].startswith("mkfs")


_ATTACHES = re.compile(r"-p|-[a-zA-Z]{1,8}p\d*$|--?pid?\b|--at|attach ")


# Settings of git.

_GIT_PLANTS = re.compile(
    r"alias\.|core\.(?:hookspath|fsmonitor|sshcommand|pager|editor|gitproxy|askpass|worktree"
    r"|alternaterefscommand)|diff\.external|\.(?:textconv|clean|smudge|process|driver|cmd|command"
    r"|vcs|tunnel)$|credential|gpg\.|include|sequence\.editor|uploadpack|receivepack|pager\."
    r"|(?:difftool|mergetool|browser|man)\..*\.path$|(?:web|help)\.browser$|instaweb\.|sendemail\."
    r"|submodule\..*\.update$|interactive\.difffilter|init\.templatedir|protocol\.",
    re.IGNORECASE,
)
_GIT_OWN = re.compile("[a-z][ -~]*")
"""A value that is not shell code, not an option, and not computed by the shell."""
_QUOTES = re.compile(r"[\"'\\]")
_GIT_STARTS_NOTHING = frozenset(
    {"", "0", "1", "true", "false", "no", "off", "never", "cat", "less", ":", "/dev/null", "ssh",
     "openpgp", "x509"}
)  # fmt: skip
"""Values of such settings that start no foreign program."""
_GIT_RENAMES = re.compile("(?:--)?ren")
"""The action that renames a section, and so all its settings."""
_GIT_STARTS = re.compile(
    r"(?:alias|core|diff|credential|gpg|include(?:if)?|sequence|pager|difftool|mergetool|browser"
    r"|man|web|help|instaweb|sendemail|submodule|interactive|init|protocol)(?:\.|$)",
    re.IGNORECASE,
)
"""Sections with settings that make git start a program."""
_GIT_READS = frozenset({"get", "list"})
_GIT_TELLS = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l"})
"""Options with which `git config` changes nothing: it does only one action at a time."""
_ELSEWHERE = re.compile(r"--(?:gl\w*|sy\w*|fil\w*)(?:=|$)|-f")


def changes_settings(argv: Argv, workspace: str) -> str | None:
    """Why `git config` may not do this; None if it may, or if this is another command."""
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
    """Whether a setting makes git start a program; an alias may name one of git's own commands."""
    if not key.lower().startswith("alias.") or not _GIT_OWN.fullmatch(value):
        return _GIT_PLANTS.search(key) is not None
    argv = ("git", *_QUOTES.sub("", value).split())
    starts = any(starts_others(word, "git") for word in argv) or any(started_at(argv))
    return starts or changes_settings(argv, "") is not None


def _only_tells(argv: Argv) -> bool:
    options = {*takewhile(lambda word: word != "--", argv)}
    # After `--comment` the next word is a comment, even if it looks like an option.
    return not _GIT_TELLS.isdisjoint(options) and not any(w.startswith("--com") for w in options)


def starts_by_settings(argv: Argv, workspace: str) -> str | None:
    """Which program a setting on the command line makes git run; None if none."""
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


# gonogo itself.

DATABASES = frozenset({"sqlite3", "sqlite", "psql", "litecli", "pgcli", "duckdb"})
CLIENTS = frozenset(
    """curl wget http https httpie xh nc ncat netcat socat telnet websocat wscat grpcurl python
    node perl ruby php aria2c axel lynx w3m links elinks""".split()
)
LOOPBACK = re.compile(
    r"localhost|\b0*127\.\d|\b0+177\.|\b0+17700000001\b|\b0\.0\.0\.0|\[::1?\]|0x7f|\b2130706433\b|\b0:\d|host\.docker\.internal",
    re.IGNORECASE,
)
_OUR_API = re.compile(r"/api/v\d|/ws\b|hitl|approv|decision|unix-socket|gonogo", re.IGNORECASE)
_OUR_STATE = re.compile(r"(?:^|[/=@:])(?:state|gonogo)\.(?:db|sqlite3?)\b|GONOGO_", re.IGNORECASE)
_OUR_FOLDER = re.compile(r"""(?:^|[/=@~:"'(,\s])\.gonogo(?:[/"'),\s]|$)""", re.IGNORECASE)
_OUR_TABLES = re.compile(
    r"\b(?:approvals|grants|audit|principals|tokens|tool_calls|plan_revisions|votes)\b",
    re.IGNORECASE,
)
_SOCKET = re.compile(r"--(?:abstract-)?unix|unix(?:-\w+)?:|abstract-\w+:", re.IGNORECASE)
_SEARCHES = frozenset({"grep", "egrep", "fgrep", "rg"})
READS_NAMES_ONLY = _SEARCHES | {"echo", "printf", "git", "find"}
_WITH_MESSAGE = frozenset({"commit", "tag", "merge", "stash", "notes"})
"""Commands of git with a message, which may have any words."""
FIND_ACTS = frozenset({"-delete", "-exec", "-execdir", "-ok", "-okdir"})


def tampers(argv: Argv, workspace: str) -> str | None:
    """Why a command tampers with gonogo itself; None if it does not."""
    del workspace
    words = unicodedata.normalize("NFKC", unquote(" ".join(argv[1:])))
    program = family(argv[0])
    is_told = program in SHELLS or program in INTERPRETERS
    runs = is_told and "gonogo" in map(base_name, operands_of(argv)[:1])
    tells = argv[0] == "git" and not _WITH_MESSAGE.isdisjoint(argv[1:2])
    if argv[0] == "gonogo" or runs or (not tells and re.search(r"(?:^| )-\w*m ?gonogo\b", words)):
        return because("an agent may not control gonogo")
    if program in CLIENTS and LOOPBACK.search(words) and _OUR_API.search(words):
        return because("an agent may not call gonogo's own API")
    netcat = program in ("nc", "ncat", "netcat") and any(re.match(r"-\w*U", w) for w in argv[1:])
    if netcat or (program in CLIENTS and any(map(_SOCKET.match, argv[1:]))):
        return because("an agent may not connect to local sockets")
    if program in DATABASES and (_OUR_TABLES.search(words) or _OUR_STATE.search(words)):
        return because("an agent may not read or change gonogo's records")
    named = argv[1:]
    if argv[0] in READS_NAMES_ONLY and FIND_ACTS.isdisjoint(argv):
        # The text that is searched for is not opened as a file.
        files = [word for word in operands_of(argv) if not word.isdigit()][1:]
        named = files if argv[0] in _SEARCHES else ()
    if any(_OUR_FOLDER.search(word) or _OUR_STATE.search(word) for word in named):
        return because("an agent may not read or change gonogo's own files")
    return None


def operands_of(argv: Argv) -> tuple[str, ...]:
    """The words that are not options."""
    return tuple(word for word in argv[1:] if not word.startswith("-"))
