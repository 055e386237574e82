"""What no rule, plan or person can allow: ruin of the host, and tampering with gonogo itself."""

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise, takewhile

from gonogo.domain.errors import because
from gonogo.domain.paths import write_guard
from gonogo.policy.shell import UNKNOWN, Suspicion

Argv = tuple[str, ...]

_REMOVERS = frozenset({"rm", "rmdir", "unlink", "shred", "srm"})
_OVERWRITERS = frozenset({"mv", "cp", "ln", "tee", "touch", "install", "truncate", "rsync", "dd"})
_INTO = {
    **dict.fromkeys(("cp", "mv", "ln", "install"), ("-t", "--target-directory")),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), ("-C", "--directory", "--cd")),
    "unzip": ("-d",), "cpio": ("-D", "--directory"),
}  # fmt: skip
"""Options whose value is the folder that files are put into."""
_EXTRACTS = re.compile(r"-\w*x\w*$|--(?:extract|get)$")
_OWNERS = frozenset({"chmod", "chown", "chgrp", "setfacl", "chattr"})
_PRIVILEGE = frozenset("sudo sudo-rs sudoedit doas su pkexec runuser run0 gosu su-exec".split())
_HOST = frozenset(
    """shutdown reboot halt poweroff init telinit systemctl systemd-run loginctl launchctl service
    crontab at batch insmod rmmod modprobe kexec mount umount swapon swapoff fdisk sfdisk cfdisk
    gdisk sgdisk parted wipefs blkdiscard mkswap mke2fs debugfs hdparm losetup cryptsetup dmsetup
    visudo vipw vigr passwd chpasswd chsh useradd userdel usermod adduser deluser groupadd groupdel
    groupmod hostnamectl timedatectl sysctl iptables ip6tables nft ufw""".split()
)
_TRACERS = frozenset("gdb strace ltrace lldb nsenter reptyr perf py-spy bpftrace gcore".split())
_DATABASES = frozenset({"sqlite3", "sqlite", "psql", "litecli", "pgcli", "duckdb"})
_CLIENTS = frozenset(
    """curl wget http https httpie xh nc ncat netcat socat telnet websocat wscat grpcurl python
    python3 node perl ruby php aria2c axel lynx w3m links elinks""".split()
)
_SYSTEM = re.compile(
    r"/(?:bin|boot|dev|etc|home|lib|lib32|lib64|mnt|opt|proc|root|run|sbin|srv|sys|usr|var"
    r"|Applications|Library|System|Users|[^/]*[*?\[][^/]*)(?:/|$)"
)
_DEVICE = re.compile(r"/dev/(?!null$|std(?:in|out|err)$|fd/|tty$|zero$|full$|u?random$)")
_RAW_DEVICE = re.compile(r"/dev/(?:[shv]d[a-z]|xvd|nvme|mmcblk|dm-|loop|mapper/|mem$|kmem$|port$)")
_LOOPBACK = re.compile(
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
_GIT_PLANTS = re.compile(
    r"alias\.|core\.(?:hookspath|fsmonitor|sshcommand|pager|editor|gitproxy|askpass|worktree"
    r"|alternaterefscommand)|diff\.external|\.(?:textconv|clean|smudge|process|driver|cmd|command"
    r"|vcs|tunnel)$|credential|gpg\.|include|sequence\.editor|uploadpack|receivepack|pager\."
    r"|(?:difftool|mergetool|browser|man)\..*\.path$|(?:web|help)\.browser$|instaweb\.|sendemail\."
    r"|submodule\..*\.update$|interactive\.difffilter|init\.templatedir|protocol\.",
    re.IGNORECASE,
)
_PRIVATE_KEYS = re.compile(r"(?:^|/)\.(?:ssh|gnupg|aws)(?:/|$)|/etc/(?:shadow|sudoers|gshadow)")
_READS_NAMES_ONLY = frozenset({"echo", "printf", "grep", "egrep", "fgrep", "rg", "git", "find"})
_WITH_MESSAGE = frozenset({"commit", "tag", "merge", "stash", "notes"})
"""What git does with a message, which begins as the author likes."""
_FIND_ACTS = frozenset({"-delete", "-exec", "-execdir", "-ok", "-okdir"})
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
        if any(write_guard(path) == "deny" for path in _meant(operand, workspace)):
            return because("removes the protected {operand}", operand=operand)
    return None


def _overwriting(argv: Argv, workspace: str) -> str | None:
    in_place = argv[0] in ("sed", "perl") and any(re.match(r"-\w*i|--in-place", a) for a in argv)
    if argv[0] not in _OVERWRITERS and not in_place:
        return None
    operands = _operands(argv)
    for word in operands:
        operand = word.removeprefix("of=")
        if _DEVICE.match(operand) and argv[0] != "cp":
            return because("writes to the device {target}", target=operand)
        into_here = word == operands[-1] and posixpath.normpath(word) == "."
        if argv[0] == "mv" and _is_root(operand, workspace) and not into_here:
            return because("moves {operand}", operand=operand)
    last = (operands or ("x",))[-1].removeprefix("of=")
    if _is_system(last, workspace) or write_guard(_inside(last, workspace)) == "deny":
        return because("writes to the protected {target}", target=last)
    return None


def _meant(operand: str, workspace: str) -> Iterator[str]:
    """A path in the workspace as it stands, and what is always there where a pattern matches it."""
    path = _inside(operand, workspace)
    yield path
    yield from (name for name in (".git", ".gonogo") if fnmatchcase(name, path))


def _unpacking(argv: Argv, workspace: str) -> str | None:
    """Files put where an option says, and not the last word."""
    first = (*argv, "")[1]
    options = (first if first.startswith("-") else f"-{first}", *argv[2:])
    if "tar" in argv[0] and not any(map(_EXTRACTS.match, options)):
        return None
    for option in _INTO.get(argv[0], ()):
        given = [word.partition("=")[2] for word in argv if word.startswith(f"{option}=")]
        for folder in (*given, *(value for name, value in pairwise(argv) if name == option)):
            far = _is_system(folder, workspace) or _normal(folder) == "/"
            if far or write_guard(_inside(folder, workspace)) == "deny":
                return because("writes to the protected {target}", target=folder)
    return None


def _ownership(argv: Argv, workspace: str) -> str | None:
    if argv[0] not in _OWNERS:
        return None
    like_another = any(word.startswith("--reference") for word in argv)
    for operand in _operands(argv)[0 if like_another else 1 :]:
        if _is_root(operand, workspace) or _is_system(operand, workspace):
            return because("changes the mode or owner of {operand}", operand=operand)
    return None


def _wide_find(argv: Argv, workspace: str) -> str | None:
    acts = _FIND_ACTS & set(argv)
    destroys = "-delete" in acts or _REMOVERS & set(argv)
    if argv[0] != "find" or not acts or not destroys:
        return None
    words = re.sub(r"^(?:-[HLP] |-O\d* |-D \S+ )+", "", " ".join(argv[1:])).split(" ")
    for word in takewhile(lambda word: not word.startswith(("-", "(", "!")), words):
        if word.startswith(("/", "~", "..")) and not _in_workspace(word, workspace):
            return because("deletes files below {word}", word=word)
    return None


def _signals(argv: Argv, workspace: str) -> str | None:
    del workspace
    if argv[0] in ("pkill", "killall", "killall5", "skill", "slay"):
        return because("ends processes by name")
    if argv[0] == "fuser" and any(re.match(r"-\w*k|--kill$", word) for word in argv[1:]):
        return because("ends processes by name")
    if argv[0] != "kill":
        return None
    rest = list(argv[1:])
    if rest and re.match(r"-(?:s|n|-signal)$", rest[0]):
        del rest[:2]
    elif len(rest) > 1 and rest[0].startswith("-") and rest[0] != "--":
        del rest[0]
    if any(re.fullmatch(r"[-+]?0*[01]", word) for word in rest):
        return because("ends every process, or the one that this environment depends on")
    return None


def _host(argv: Argv, workspace: str) -> str | None:
    del workspace
    if argv[0] in _PRIVILEGE:
        return because("{program} changes who runs the command", program=argv[0])
    if argv[0] in _HOST or argv[0].startswith("mkfs"):
        return because("{program} changes the host", program=argv[0])
    if argv[0] in _TRACERS and any(map(_ATTACHES.match, argv[1:])):
        return because("{program} attaches to another process", program=argv[0])
    if argv[0] in ("gdb", "gcore", "reptyr") and (_operands(argv) or ("",))[-1].isdigit():
        return because("{program} attaches to another process", program=argv[0])
    return None


_ATTACHES = re.compile(r"-p|-[a-zA-Z]{1,8}p\d*$|--?pid|--attach|--target|-t$")


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
        for path in (word, *re.split(r"[=@]|^-[a-zA-Z]", word)[1:]):
            far = path.startswith(("/", "~")) and not _in_workspace(path, workspace)
            if far and _PRIVATE_KEYS.search(path):
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
    words = unicodedata.normalize("NFKC", " ".join(argv[1:]))
    tells = argv[0] == "git" and not _WITH_MESSAGE.isdisjoint(argv[1:2])
    if argv[0] == "gonogo" or (not tells and re.search(r"(?:^| )-\w*m ?gonogo\b", words)):
        return because("an agent may not control gonogo")
    if argv[0] in _CLIENTS and _LOOPBACK.search(words) and _OUR_API.search(words):
        return because("an agent may not call gonogo's own API")
    sockets = ("--unix-socket", "--abstract-unix-socket")
    if argv[0] in _CLIENTS and any(word.startswith(sockets) for word in argv):
        return because("an agent may not connect to local sockets")
    if argv[0] in _DATABASES and (_OUR_TABLES.search(words) or _OUR_STATE.search(words)):
        return because("an agent may not read or change gonogo's records")
    if argv[0] in _READS_NAMES_ONLY and _FIND_ACTS.isdisjoint(argv):
        return None
    if any(_OUR_FOLDER.search(word) or _OUR_STATE.search(word) for word in argv[1:]):
        return because("an agent may not read or change gonogo's own files")
    return None


_CHECKS: Sequence[Callable[[Argv, str], str | None]] = (
    _removal, _overwriting, _unpacking, _ownership, _wide_find, _signals, _host, _devices, _keys,
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
    """A path in the workspace; of the workspace itself, what is put into it."""
    path = _normal(operand).removeprefix(workspace.rstrip("/") + "/")
    return "x" if path in ("", ".") else path


def words_of(suspicion: Suspicion) -> Iterable[str]:
    """Every word that may name a file: arguments and targets of redirections."""
    yield from suspicion.targets
    for argv in suspicion.commands:
        yield from argv[1:]
