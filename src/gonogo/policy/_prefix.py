"""Which beginnings of commands a rule or a plan may allow: none that would allow anything."""

import re
from collections.abc import Sequence

from gonogo.domain.reason import because
from gonogo.policy._loose import base_name
from gonogo.policy._shell import ParsedCommand, parse_command

_WRAPPERS = frozenset(
    """env command builtin exec eval source . sudo doas su pkexec runuser nohup nice ionice timeout
    stdbuf setsid time xargs watch chroot unshare nsenter strace ltrace busybox toybox parallel
    script flock coproc ssh docker podman kubectl nerdctl systemd-run trap cd pushd popd alias
    export declare set shopt find-exec gdb lldb expect screen tmux""".split()
)
_INTERPRETERS = re.compile(
    r"(?:(?:ba|da|z|k|a|fi|c|tc)?sh|python[\d.]*|pypy\d?|perl[\d.]*|ruby[\d.]*|node|nodejs|deno|bun"
    r"|php[\d.]*|lua[\d.]*|tclsh|osascript|pwsh|powershell|[gmn]?awk|ed|ex|vim?|nvim|emacs|sqlite3"
    r"|psql|irb|ghci|scala|groovy|jshell|Rscript|R|julia|make|npm|pnpm|yarn|cargo|go|uv|poetry"
    r"|pipenv|hatch|pdm|rye|npx|pnpx|bunx|uvx|pipx|tox|nox|just|task|gradle|mvn|rake|bundle)"
)
_RUNNERS = frozenset({"run", "exec", "x", "dlx", "tool"})
_PACKAGE_TOOLS = frozenset(
    "uv poetry pipenv hatch pdm rye npx pnpx bunx uvx pipx bundle pnpm yarn bun".split()
)
_FLAGS = frozenset(
    """-q --quiet -v --verbose -y --yes --silent --offline --frozen --locked --isolated --no-sync
    --no-install --all-extras""".split()
)
"""Options of package tools that take no value; behind another, no word is surely the program."""
_NETWORK = frozenset(
    """curl wget nc ncat netcat socat telnet ftp sftp scp rsync ping ping6 nslookup dig host
    traceroute whois http https httpie xh""".split()
)


def read_prefix(written: str) -> tuple[str, ...] | str:
    """Read the beginning of a command as words; a final `*` may be left out.

    Returns:
        The words, or why such a beginning may not be allowed.
    """
    words = plain_prefix(written)
    if isinstance(words, str):
        return words
    return too_broad(words) or words


def plain_prefix(written: str) -> tuple[str, ...] | str:
    """Read the beginning of a command as words, whatever it would allow."""
    command = parse_command(re.sub(r"\s\*\s*$", "", written))
    if not isinstance(command, ParsedCommand) or len(command.parts) != 1:
        return because("{written!r} is not one simple command", written=written)
    part = command.parts[0]
    if part.redirects or part.negated or any(word.is_glob for word in part.words):
        return because("{written!r} is not plain words", written=written)
    return part.argv


def too_broad(words: Sequence[str]) -> str | None:
    """Why allowing everything that begins with `words` would allow anything at all."""
    program = base_name(words[0])
    if program != words[0]:
        return because("name the program {program!r} without its folder", program=program)
    if program in _WRAPPERS:
        return because("{program!r} runs other commands", program=program)
    if program in _NETWORK and len(words) == 1:
        return because("{program!r} reaches the network: name what it may be told", program=program)
    if not _INTERPRETERS.fullmatch(program):
        return None
    return _open_interpreter(program, words[1:])


def _open_interpreter(program: str, rest: Sequence[str]) -> str | None:
    if program in _PACKAGE_TOOLS:
        return _launched(program, rest)
    if rest and rest[0] == "-m":
        return (
            None
            if len(rest) > 1
            else because("{program!r} runs any module: name which", program=program)
        )
    if not rest or rest[0].startswith("-") or (rest[0] in ("exec", "x") and len(rest) == 1):
        return because("{program!r} runs any code: name what", program=program)
    return None


def _launched(program: str, rest: Sequence[str]) -> str | None:
    inner = list(rest)
    while inner and (inner[0] in _RUNNERS or inner[0] in _FLAGS):
        del inner[0]
    if not inner:
        return because("{program!r} runs other commands: name which", program=program)
    if inner[0].startswith("-"):
        return because(
            "{program!r} runs other commands: name which, without {option!r} before it",
            program=program,
            option=inner[0],
        )
    return too_broad(inner)
