"""What no rule, plan or person can allow: ruin of the host, and tampering with gonogo itself."""

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from gonogo.domain.errors import because
from gonogo.domain.paths import write_guard
from gonogo.policy.shell_heuristics import UNKNOWN, Suspicion

Argv = tuple[str, ...]

_REMOVERS = frozenset({"rm", "rmdir", "unlink", "shred", "srm"})
_OVERWRITERS = frozenset({"mv", "cp", "ln", "tee", "touch", "install", "truncate", "rsync", "dd"})
_OWNERS = frozenset({"chmod", "chown", "chgrp", "setfacl", "chattr"})
_PRIVILEGE = frozenset({"sudo", "doas", "su", "pkexec", "runuser"})
_HOST = frozenset(
    """shutdown reboot halt poweroff init telinit systemctl launchctl crontab at batch insmod
    rmmod modprobe mount umount swapoff fdisk sfdisk parted wipefs blkdiscard mkswap debugfs
    visudo passwd useradd userdel usermod""".split()
)
_TRACERS = frozenset({"gdb", "strace", "ltrace", "lldb", "nsenter", "reptyr"})
_DATABASES = frozenset({"sqlite3", "sqlite", "psql", "litecli", "pgcli", "duckdb"})
_CLIENTS = frozenset(
    """curl wget http https httpie xh nc ncat netcat socat telnet websocat wscat grpcurl python
    python3 node perl ruby php""".split()
)
_SYSTEM = re.compile(
    r"/(?:bin|boot|dev|etc|home|lib|lib32|lib64|mnt|opt|proc|root|run|sbin|srv|sys|usr|var"
    r"|Applications|Library|System|Users|[^/]*[*?\[][^/]*)(?:/|$)"
)
_DEVICE = re.compile(r"/dev/(?!null$|std(?:in|out|err)$|fd/|tty$|zero$|full$|u?random$)")
_RAW_DEVICE = re.compile(r"/dev/(?:[shv]d[a-z]|xvd|nvme|mmcblk|dm-|loop|mapper/|mem$|kmem$|port$)")
_LOOPBACK = re.compile(
    r"localhost|\b127\.\d|\b0\.0\.0\.0|\[::1?\]|0x7f|\b2130706433\b|\b0:\d|host\.docker\.internal",
    re.IGNORECASE,
)
_OUR_API = re.compile(r"/api/v\d|/ws\b|hitl|approv|decision|unix-socket|gonogo", re.IGNORECASE)
_OUR_STATE = re.compile(r"(?:^|[/=@:])(?:state|gonogo)\.(?:db|sqlite3?)\b|GONOGO_", re.IGNORECASE)
_OUR_FOLDER = re.compile(r"(?:^|[/=@~:])\.gonogo(?:/|$)", re.IGNORECASE)
_OUR_TABLES = re.compile(
    r"\b(?:approvals|grants|audit|principals|tokens|tool_calls|plan_revisions|votes)\b",
    re.IGNORECASE,
)
_GIT_PLANTS = re.compile(
    r"alias\.|core\.(?:hookspath|fsmonitor|sshcommand|pager|editor|gitproxy|askpass|worktree)"
    r"|diff\.external|\.textconv|\.(?:clean|smudge|process|driver|cmd)$|credential|gpg\."
    r"|include|sequence\.editor|uploadpack|receivepack",
    re.IGNORECASE,
)
_PRIVATE_KEYS = re.compile(r"(?:^|/)\.(?:ssh|gnupg|aws)(?:/|$)|/etc/(?:shadow|sudoers|gshadow)")
_READS_NAMES_ONLY = frozenset({"echo", "printf", "grep", "egrep", "fgrep", "rg", "git", "find"})
_FORK_BOMB = re.compile(
    r"(?<![\w:.])([\w:.]{1,32})[ \t]{0,8}\([ \t]{0,8}\)\s{0,8}\{[^}]{0,200}?"
    r"\1\s{0,8}(?:\|\s{0,8}\1\s{0,8})?&"
)


def refusal(text: str, suspicion: Suspicion, workspace: str, home: str) -> str | None:
    """Why this command is denied whatever the rules say; None when nothing is known against it.

    Args:
        workspace: Absolute path of the workspace.
        home: Absolute path of gonogo's own state; empty when it is not known.
    """
    if _FORK_BOMB.search(text):
        return because("a fork bomb")
    if home and any(home.rstrip("/") in word for word in words_of(suspicion)):
        return because("an agent may not read or change gonogo's own files")
    for target in suspicion.targets:
        if reason := _bad_target(target, workspace):
            return reason
    for argv in suspicion.commands:
        for check in _CHECKS:
            if reason := check(argv, workspace):
                return reason
    return None


def _bad_target(target: str, workspace: str) -> str | None:
    if _DEVICE.match(target) or target.startswith("/dev/sd"):
        return because("writes to the device {target}", target=target)
    if not target.startswith("/dev/") and _is_system(target, workspace):
        return because("writes to the system file {target}", target=target)
    if write_guard(_inside(target, workspace)) == "deny" and not target.isdigit():
        return because("writes to the protected {target}", target=target)
    return None


def _removal(argv: Argv, workspace: str) -> str | None:
    if argv[0] not in _REMOVERS:
        return None
    for operand in _operands(argv):
        # Of a variable that is not set, the root is left.
        if operand in (UNKNOWN + "/", UNKNOWN + "/*"):
            return because("removes everything if the variable is not set")
        if _is_root(operand, workspace) or _is_system(operand, workspace):
            return because("removes {operand}", operand=operand)
        if write_guard(_inside(operand, workspace)) == "deny":
            return because("removes the protected {operand}", operand=operand)
    return None


def _overwriting(argv: Argv, workspace: str) -> str | None:
    in_place = argv[0] in ("sed", "perl") and any(re.match(r"-\w*i|--in-place", a) for a in argv)
    if argv[0] not in _OVERWRITERS and not in_place:
        return None
    for word in _operands(argv):
        operand = word.removeprefix("of=")
        if _DEVICE.match(operand) and argv[0] != "cp":
            return because("writes to the device {target}", target=operand)
        if argv[0] == "mv" and _is_root(operand, workspace):
            return because("moves {operand}", operand=operand)
    last = (_operands(argv) or ("x",))[-1].removeprefix("of=")
    if _is_system(last, workspace) or write_guard(_inside(last, workspace)) == "deny":
        return because("writes to the protected {target}", target=last)
    return None


def _ownership(argv: Argv, workspace: str) -> str | None:
    if argv[0] not in _OWNERS:
        return None
    for operand in _operands(argv)[1:]:
        if _is_root(operand, workspace) or _is_system(operand, workspace):
            return because("changes the mode or owner of {operand}", operand=operand)
    return None


def _wide_find(argv: Argv, workspace: str) -> str | None:
    acts = {"-delete", "-exec", "-execdir", "-ok", "-okdir"} & set(argv)
    destroys = "-delete" in acts or _REMOVERS & set(argv)
    if argv[0] != "find" or not acts or not destroys:
        return None
    for word in takewhile(lambda word: not word.startswith(("-", "(", "!")), argv[1:]):
        if word.startswith(("/", "~", "..")) and not _in_workspace(word, workspace):
            return because("deletes files below {word}", word=word)
    return None


def _signals(argv: Argv, workspace: str) -> str | None:
    del workspace
    if argv[0] in ("pkill", "killall", "skill"):
        return because("ends processes by name")
    if argv[0] != "kill":
        return None
    rest = list(argv[1:])
    if rest and re.match(r"-(?:s|n|-signal)$", rest[0]):
        del rest[:2]
    elif len(rest) > 1 and rest[0].startswith("-") and rest[0] != "--":
        del rest[0]
    if any(word in ("-1", "0", "1", "-0") for word in rest):
        return because("ends every process, or the one that this environment depends on")
    return None


def _host(argv: Argv, workspace: str) -> str | None:
    del workspace
    if argv[0] in _PRIVILEGE:
        return because("{program} changes who runs the command", program=argv[0])
    if argv[0] in _HOST or argv[0].startswith("mkfs"):
        return because("{program} changes the host", program=argv[0])
    if argv[0] in _TRACERS and any(re.match(r"-p|--pid|--attach|-t$", word) for word in argv[1:]):
        return because("{program} attaches to another process", program=argv[0])
    return None


def _devices(argv: Argv, workspace: str) -> str | None:
    del workspace
    for word in argv[1:]:
        if _RAW_DEVICE.search(word) and argv[0] not in _READS_NAMES_ONLY:
            return because("touches the raw device {word}", word=word)
    return None


def _keys(argv: Argv, workspace: str) -> str | None:
    if argv[0] in ("echo", "printf"):
        return None
    for word in argv[1:]:
        far = word.startswith(("/", "~", "@/", "@~")) and not _in_workspace(word, workspace)
        if far and _PRIVATE_KEYS.search(word):
            return because("touches the keys in {word}", word=word)
    return None


def _git_configuration(argv: Argv, workspace: str) -> str | None:
    del workspace
    if argv[:2] != ("git", "config"):
        return None
    if {"--global", "--system", "--file", "-f"} & set(argv) and not {"--get", "-l"} & set(argv):
        return because("changes git's configuration outside this repository")
    keys = [word for word in argv[2:] if not word.startswith("-")]
    if len(keys) > 1 and any(_GIT_PLANTS.search(word) for word in keys[:2]):
        return because("makes git run {key!r} automatically", key=keys[1])
    return None


def _tampering(argv: Argv, workspace: str) -> str | None:
    del workspace
    words = " ".join(argv[1:])
    if argv[0] == "gonogo" or "-m gonogo" in words:
        return because("an agent may not control gonogo")
    if argv[0] in _CLIENTS and _LOOPBACK.search(words) and _OUR_API.search(words):
        return because("an agent may not call gonogo's own API")
    if argv[0] in _CLIENTS and "--unix-socket" in argv:
        return because("an agent may not connect to local sockets")
    if argv[0] in _DATABASES and (_OUR_TABLES.search(words) or _OUR_STATE.search(words)):
        return because("an agent may not read or change gonogo's records")
    if argv[0] in _READS_NAMES_ONLY:
        return None
    if any(_OUR_FOLDER.search(word) or _OUR_STATE.search(word) for word in argv[1:]):
        return because("an agent may not read or change gonogo's own files")
    return None


_CHECKS: Sequence[Callable[[Argv, str], str | None]] = (
    _removal, _overwriting, _ownership, _wide_find, _signals, _host, _devices, _keys,
    _git_configuration, _tampering,
)  # fmt: skip


def _operands(argv: Argv) -> tuple[str, ...]:
    return tuple(word for word in argv[1:] if not word.startswith("-"))


def _is_root(operand: str, workspace: str) -> bool:
    """Whether the operand is the workspace itself, its home, or anything above them."""
    bare = _normal(operand)
    if bare in ("", ".", "..", "~", "/") or operand in ("*", "./*", ".*"):
        return True
    climbs = not set(bare.split("/")) - {".."}
    return climbs or workspace == bare or workspace.startswith(bare.rstrip("/") + "/")


def _is_system(operand: str, workspace: str) -> bool:
    bare = _normal(operand)
    if _in_workspace(operand, workspace):
        return False
    return bool(_SYSTEM.match(bare)) or (bare.startswith("~/.") and bare.count("/") == 1)


def _in_workspace(operand: str, workspace: str) -> bool:
    return _normal(operand).startswith(workspace.rstrip("/") + "/")


def _normal(operand: str) -> str:
    without_glob = re.sub(r"(?:^|(?<=/))(?:\*|\.\*|\{[^/]*,[^/]*\})$", "", operand)
    if operand.startswith("/"):
        return "/" + posixpath.normpath("/" + without_glob).lstrip("/")
    return posixpath.normpath(without_glob) if without_glob else ""


def _inside(operand: str, workspace: str) -> str:
    return _normal(operand).removeprefix(workspace.rstrip("/") + "/") or "x"


def words_of(suspicion: Suspicion) -> Iterable[str]:
    """Every word that may name a file: arguments and targets of redirections."""
    yield from suspicion.targets
    for argv in suspicion.commands:
        yield from argv[1:]
