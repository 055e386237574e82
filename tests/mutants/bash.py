"""What bash would run: a real bash, in a box where no program exists, tells what it starts.

The box holds bash and its libraries, the workspace (read-only), and nothing else to run. In the
bash that reads a command every builtin is switched off and no program is found, so each simple
command ends in a handler that writes down its words and where its three streams lead. What a
handler cannot see is seen beside it: bash's own trace counts every command, assignment, test and
substitution, and anything bash says, or opens for writing in a place where nothing can be
written, stands among its errors.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gonogo.workspace import Sandbox
from mutants.workspace import MOUNTED_AT

TIME_LIMIT = 600.0
_CHUNK = 400
_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/nix")

# One mutant after the other; a line with its number goes into each file before it.
_DRIVER = r"""
mapfile -t names < <(compgen -b)
keep=()
for name in "${names[@]}"; do [[ $name == enable ]] || keep+=("$name"); done
printf 'enable -n %s\n' "${keep[*]@Q}" enable > /rec/off
n=0
while IFS= read -r -d '' ORACLE_STATUS && IFS= read -r -d '' text; do
  for file in trace out err calls; do printf '\001%d\001\0' "$n" >> "/rec/$file"; done
  export ORACLE_STATUS BASH_ENV=/rec/init
  # The substitution waits for whatever is left in the background.
  : "$(/oracle/bash --noprofile --norc -c "$text" 202>&1 < /dev/null >> /rec/out 2>> /rec/err)"
  n=$((n + 1))
done < /rec/in
for file in trace out err calls; do printf '\001%d\001\0' "$n" >> "/rec/$file"; done
"""
# The mark is a character that no mutant that is allowed can hold.
_INIT = r"""
ulimit -t 5 -f 8192
command_not_found_handle() { /oracle/bash -p /oracle/record "$@"; }
exec 201>> /rec/trace
BASH_XTRACEFD=201
PS4=$'\002${FUNCNAME[0]:-}\003'
PATH=/nowhere
set -x
. /rec/off
"""
_BEFORE = 3
"""Commands of `_INIT` itself that are traced: reading the list, and the two of it."""
_RECORD = r"""#!/oracle/bash -p
[[ $0 == /oracle/record ]] || set -- "$0" "$@"
streams=
for n in 0 1 2; do
  if [[ /dev/fd/$n -ef /dev/null ]]; then streams+=n
  elif [[ /dev/fd/$n -ef /rec/out ]]; then streams+=o
  elif [[ /dev/fd/$n -ef /rec/err ]]; then streams+=e
  elif [[ -p /dev/fd/$n ]]; then streams+=p
  else streams+=x; fi
done
printf '%s\0' "$streams" $# "$@" >> /rec/calls
exit "$ORACLE_STATUS"
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """One program that bash would have started."""

    streams: str
    """Standard input, output and error: `n`ull, `o`utput, `e`rror, `p`ipe, `x` anything else."""
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Traced:
    """All that one bash did."""

    ran: tuple[Ran, ...]
    commands: int
    """How many simple commands, assignments and tests bash counted itself."""
    said: str
    """What bash wrote, which is nothing unless something is wrong."""


class TracedBash:
    """Runs texts in one box after the other, many a box."""

    def __init__(self, sandbox: Sandbox, workspace: Path) -> None:
        bash = shutil.which("bash")
        assert bash is not None
        self._sandbox, self._workspace, self._bash = sandbox, workspace, Path(bash).resolve()

    def run(self, texts: Sequence[tuple[int, str]]) -> list[Traced]:
        """What bash does with each text when every program ends with its status."""
        found: list[Traced] = []
        for start in range(0, len(texts), _CHUNK):
            found += self._box(texts[start : start + _CHUNK])
        return found

    def _box(self, texts: Sequence[tuple[int, str]]) -> list[Traced]:
        with tempfile.TemporaryDirectory() as folder:
            box = Path(folder)
            self._fill(box, texts)
            done = subprocess.run(
                self._command(box), timeout=TIME_LIMIT, capture_output=True, env={}, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
            assert (done.returncode, done.stderr) == (0, b"")
            files = [
                _frames(box / "rec" / name, len(texts)) for name in ("calls", "trace", "out", "err")
            ]
        return [_traced(*frame) for frame in zip(*files, strict=True)]

    def _fill(self, box: Path, texts: Sequence[tuple[int, str]]) -> None:
        (box / "rec").mkdir()
        (box / "oracle").mkdir()
        given = b"".join(b"%d\0%s\0" % (status, text.encode()) for status, text in texts)
        (box / "rec" / "in").write_bytes(given)
        (box / "rec" / "init").write_text(_INIT)
        (box / "oracle" / "driver").write_text(_DRIVER)
        shutil.copy(self._bash, box / "oracle" / "bash")
        record = box / "oracle" / "record"
        record.write_text(_RECORD)
        record.chmod(0o755)
        (box / "bin").mkdir()
        for name in ("rm", "id", "sh", "ls", "curl", "touch", "git", "env", "cat", "python"):
            shutil.copy(record, box / "bin" / name)

    def _command(self, box: Path) -> list[str]:
        folders = [folder for name in _LIBRARIES if (folder := Path(name)).is_dir()]
        return [
            self._sandbox.program,
            *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *("--dev", "/dev", "--proc", "/proc"),
            *(word for folder in folders for word in _shown(folder)),
            *("--ro-bind", str(box / "oracle"), "/oracle"),
            *("--ro-bind", str(box / "bin"), "/bin", "--ro-bind", str(box / "bin"), "/usr/bin"),
            *("--bind", str(box / "rec"), "/rec", "--ro-bind", str(self._workspace), MOUNTED_AT),
            *("--remount-ro", "/", "--chdir", MOUNTED_AT, "--setenv", "HOME", "/run/home"),
            *("--setenv", "LANG", "C.UTF-8", "--setenv", "PATH", "/nowhere"),
            *("--", "/oracle/bash", "--noprofile", "--norc", "/oracle/driver"),
        ]


def _shown(folder: Path) -> Iterable[str]:
    if folder.is_symlink():
        return ("--symlink", str(folder.readlink()), str(folder))
    return ("--ro-bind", str(folder), str(folder))


def _frames(path: Path, count: int) -> list[bytes]:
    """What stands between the numbers of a file."""
    rest, frames = path.read_bytes(), []
    for number in range(count + 1):
        frame, mark, rest = rest.partition(b"\1%d\1\0" % number)
        assert mark, f"the box ended before text {number - 1} did"
        frames.append(frame)
    return frames[1:]


def _traced(calls: bytes, trace: bytes, out: bytes, err: bytes) -> Traced:
    return Traced(
        tuple(_calls(calls)), trace.count(b"\2\3") - _BEFORE, (out + err).decode("utf-8", "replace")
    )


def _calls(frame: bytes) -> Iterable[Ran]:
    fields = [field.decode("utf-8", "surrogateescape") for field in frame.split(b"\0")]
    at = 0
    while at + 1 < len(fields):
        count = int(fields[at + 1])
        yield Ran(fields[at], tuple(fields[at + 2 : at + 2 + count]))
        at += 2 + count
