"""Programs that change the machine: its state, who runs a command, other people's processes."""

import re

from gonogo.domain.commands import base_name
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
"""With which words some of them change it; with others they say how it is, or do nothing.

Behind what starts programs any word may be a program: `npx prisma init` is none of the host's.
"""
_TRACERS = frozenset("gdb strace ltrace lldb reptyr perf py-spy bpftrace gcore".split())
_LISTED = 3
"""Words of `kill -l 9`, which tells the name of a signal."""
_FEEDERS = frozenset("xargs gxargs parallel entr fd fdfind rush rargs xe apply".split())
"""They add words that nobody sees before."""
HOST_PROGRAMS = _PRIVILEGE | _HOST | _TRACERS | {"nsenter", "kill", "pkill", "killall"}
"""What is looked for where a pattern may name a program."""


def ends_processes(argv: Argv, workspace: str) -> str | None:
    """Why a command may end what it did not start; None when it does not."""
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
    """Why a command changes the machine, or acts as somebody else on it; None when it does not."""
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
