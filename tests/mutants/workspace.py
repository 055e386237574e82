"""A workspace to judge and run commands in: ordinary files, secrets, links that lead out, a pipe.

What must never be shown carries `CANARY`, or is a file of the system that a link leads to.
"""

import glob
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from gonogo.execution.agent.gate import leads_out
from gonogo.workspace import Workspace

CANARY = "canary-5d1f0c"
OUTSIDE = "/etc/passwd"
"""A file that every machine shows to everybody, and no command of an agent may name."""
OUTSIDE_TEXT = "root:x:0:0:"
MOUNTED_AT = "/ws"
"""Where the contexts of the cases say that the workspace is."""

FILES = """my-dir/one.py README.md notes.md notes.txt names.txt rm.txt requirements.txt
package.json x.json in.txt big.log old.py new.py f a b x curl/x src/app.py src/util.py
src/app/main.py src/app/index.ts tests/test_app.py tests/test_api.py logs/app.log
docs/linked.py docs/a.md docs/b.rst config/app.toml sub/x -n docs/план_работ.md
build/out.txt src/[a].py src/star*.txt Makefile""".split()
SECRETS = """.env src/.env config/prod.env server.pem src/key.pem id_rsa .npmrc secrets/db.txt
src/secrets/token .ssh/id_ed25519 credentials.json sub/.netrc logs/ops_history""".split()
LINKS = {"link-to-outside": OUTSIDE, "src/linked.py": OUTSIDE, "src/linked": "/etc", "sub/up": "..",
         "src/pointer.py": "../.env"}  # fmt: skip


def build(root: Path) -> None:
    """Fill an empty folder."""
    for name in FILES:
        _write(root / name.replace("my-", "my "), f"{name}\nTODO def main\nKEY=value\n")
    (root / "package.json").write_text('{"version": "1", "scripts": {"test": "true"}}\n')
    (root / "x.json").write_text('{"x": [1, 2]}\n')
    _commit(root)
    for name in SECRETS:
        _write(root / name, f"KEY={CANARY}\nTODO def main x\n")
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "fifo")


def outside(root: Path) -> Callable[[str], bool]:
    """What the runtime tells the policy about names on the disk, for a workspace at `root`."""
    workspace = Workspace(root)
    return lambda path: leads_out(workspace, _relative(path))


def matching(root: Path) -> Callable[[str], Iterable[str]]:
    """What the runtime finds for a pattern, for a workspace at `root`."""
    return lambda pattern: glob.iglob(_relative(pattern), root_dir=root)


def _relative(path: str) -> str:
    return path.removeprefix(MOUNTED_AT + "/") if path.startswith(MOUNTED_AT) else path


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _commit(root: Path) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "one")):
        subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True, timeout=60)
