"""What an attacker would have a command do in its box, one a line, and what stands before it.

Each is a script for bash. Whatever it does: what was guarded is as it was, what was hidden was not
shown, and of what git or others would obey from now on nothing is there that nobody sees.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from gonogo.domain.paths import write_guard

CANARY = "CANARY-SECRET"
LAID = {
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\tbare = false\n\trepositoryformatversion = 0\n",
    ".git/hooks/pre-commit": "#!/bin/sh\nexit 0\n",
    ".git/objects/info/x": "",
    ".git/refs/heads/x": "",
    ".gonogo/rules.toml": "",
    ".vscode/settings.json": "{}\n",
    ".envrc": "CANARY-SECRET\n",
    ".env": f"KEY={CANARY}\n",
    ".npmrc": "x=1\n",
    "Makefile": "all:\n",
    "package.json": "{}\n",
    "AGENTS.md": "be kind\n",
    ".github/workflows/ci.yml": "on: push\n",
    "secrets/deep/key.pem": f"{CANARY}\n",
    "sub/.git/config": "[core]\n",
    "sub/.git/HEAD": "ref: refs/heads/main\n",
    "sub/.git/objects/x": "",
    "sub/.git/refs/x": "",
    "sub/code.py": "x = 1\n",
    "deep/a/b/c/.git/config": "[core]\n",
    "deep/a/b/c/.git/hooks/x": "",
    "store/HEAD": "ref: refs/heads/main\n",
    "store/config": "[core]\n\tbare = true\n",
    "store/objects/x": "",
    "store/refs/x": "",
    "node_modules/dep/.git/config": "[core]\n",
    "node_modules/dep/index.js": "",
    "node_modules/.bin/tsc": "#!/bin/sh\n",
    "deep/web/.venv/bin/python": "#!/bin/sh\n",
    "half/objects/x": "",
    "half/refs/x": "",
    "half/config": "[core]\n",
    "worktree/.git": "gitdir: ../.git/worktrees/w\n",
    "plain/file.txt": "plain\n",
}
_LINKS = {
    "hooks": ".git/hooks", "linked/.git": "../real", "up/.vscode": "../conf", "envlink": ".env",
}  # fmt: skip
_BEHIND = {
    "real/HEAD": "ref: x\n", "real/config": "[core]\n", "real/objects/x": "", "real/refs/x": "",
    "conf/settings.json": "{}\n",
}  # fmt: skip
UNTOUCHED = (
    ".git", ".gonogo", ".vscode", ".envrc", ".env", ".npmrc", "secrets", "sub/.git",
    "deep/a/b/c/.git", "node_modules/dep/.git", "store/HEAD", "store/config", "store/objects",
    "store/refs", "worktree/.git", "real", "conf", "node_modules/.bin", "deep/web/.venv/bin",
)  # fmt: skip
"""What no command changes that nobody looked at; it may be moved together with its folder."""


class Workshop:
    """A workspace with something of everything, and what was in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for path, text in {**LAID, **_BEHIND}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        for path, target in _LINKS.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to(target)
        self._before = {name: (_which(root / name), _tree(root / name)) for name in UNTOUCHED}

    def changed(self) -> list[str]:
        """What is not as it was, or is gone; wherever its folder may be now."""
        now = {_which(path): path for path in _everything(self.root)}
        return [
            name
            for name, (which, tree) in self._before.items()
            if which not in now or _tree(now[which]) != tree
        ]

    def obeyed(self) -> dict[str, tuple[str, int]]:
        """What somebody would run or obey: by its name, or since git says that it is a repository.

        A second opinion: it walks everything, and asks git itself. With each path: which it is.
        """
        bare = (
            path / "HEAD" for path in _everything(self.root) if path.is_dir() and _is_bare(path)
        )
        named = (
            path
            for path in _everything(self.root)
            if write_guard(_below(path, self.root)) == "deny"
        )
        return {_below(path, self.root): _which(path) for path in (*bare, *named)}


def _everything(root: Path) -> Iterator[Path]:
    """All that has a path, but for what lies in folders called `.git`."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if len(f"{folder}/{name}") < 4_000]
        yield from (Path(folder) / name for name in (*folders, *files))
        folders[:] = [name for name in folders if name != ".git"]


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _which(path: Path) -> tuple[str, int]:
    return path.name, path.lstat().st_ino


def _tree(path: Path) -> dict[str, str]:
    if path.is_symlink() or path.is_file():
        return {"": os.readlink(path) if path.is_symlink() else path.read_text("latin-1")}
    return {
        _below(each, path): each.read_text("latin-1") if each.is_file() else "folder"
        for each in sorted(path.rglob("*"))
    }


def _is_bare(folder: Path) -> bool:
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", "rev-parse", "--absolute-git-dir"],
        cwd=folder, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(folder.parent),
             "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nowhere"},
    )  # fmt: skip
    return done.returncode == 0 and Path(done.stdout.strip()) == folder.resolve()


_W = "echo pwned >"
_HOOK = "printf '#!/bin/sh\\n' >"
_EVIL = "printf '[core]\\n fsmonitor = x\\n' >"
TRICKS = {
    # Straight at it
    "a hook": f"{_HOOK} .git/hooks/post-commit",
    "the settings": f"{_EVIL} .git/config",
    "the settings, appended": "printf x >> .git/config",
    "through a link": f"{_HOOK} hooks/post-commit",
    "by removal": "rm -rf .git .vscode sub/.git",
    "by rename": "mv .git x; mv .vscode y; mv .envrc z; mv sub/.git w",
    "renamed onto": "mkdir evil; touch evil/config; mv -T evil .git; mv plain/file.txt .envrc",
    "exchanged": "python3 -c \"import ctypes; print(ctypes.CDLL(None).renameat2("
                 "-100, b'plain', -100, b'.git', 2))\"",
    "a secret": "cat .env secrets/deep/key.pem envlink .envrc",
    "a secret by /proc": "cat /proc/self/cwd/.env /proc/1/root$PWD/.env",
    "a secret by an open folder": "exec 9<.; cat /dev/fd/9/.env /proc/self/fd/9/.envrc",
    "a secret by tar": "tar c . | grep -a CANARY",
    "a secret by cp": "cp -rL . /tmp/x; grep -r CANARY /tmp/x",
    "a secret by hard link": "ln .env /tmp/e; ln .env e; cat e /tmp/e; ln -L envlink f; cat f",
    # Rights and attributes
    "chmod": "chmod -R 777 .git .vscode .envrc; touch .git/x",
    "chown": "chown -R 1 .git; touch .git/x",
    "truncate": "truncate -s 0 .git/config .envrc .npmrc Makefile",
    "touch": "touch -d 2001-01-01 .git/config; touch -a .git",
    "attributes": "setfattr -n user.x -v y .git/config; chattr -i .git/config; setfacl -m"
                  " u::rw .git",
    "shut": "chmod 0 sub deep; chmod 0 plain; mkdir shut; touch shut/.envrc; chmod 0 shut",
    # Hard links
    "a hard link to the settings": f"ln .git/config plain/c; {_EVIL} plain/c",
    "hard links to all": "cp -rl .git copy 2>/dev/null; echo pwned >> copy/config",
    "a hard link to a guarded file": f"ln Makefile plain/m && {_W} plain/m",
    "a link by the descriptor": "exec 8<.git/config; ln -L /proc/self/fd/8 plain/c; echo x >>"
                                " plain/c",
    # Renames of what is above
    "the folder above": f"mv sub moved; mkdir -p sub/.git; {_EVIL} sub/.git/config",
    "two above": "mv deep/a deep/z; mkdir -p deep/a/b/c/.git; touch deep/a/b/c/.git/config",
    "above, there and back": "mv sub x; mv x sub; touch sub/.git/y; rm -rf sub/.git",
    "above, into itself": "mkdir box; mv sub box/; mv box/sub/.git . ; mv box/sub plain/",
    "above, removed": "rm -rf sub deep store node_modules",
    "exchanged above": "mkdir -p n/.git; touch n/.git/config; python3 -c \"import ctypes;"
                       " ctypes.CDLL(None).renameat2(-100, b'n', -100, b'sub', 2)\"",
    "the root itself": "cd ..; mv ws wt; mv /tmp/ws x; rmdir ws",
    # Mounts and namespaces
    "umount": "umount .git; umount -l .git; umount .envrc; touch .git/x",
    "a namespace": "unshare -Urm sh -c 'umount .git; umount -l .git; touch .git/x; cat .env'",
    "a bind of what lies below": "unshare -Urm sh -c 'mkdir -p /tmp/m; mount --bind . /tmp/m;"
                                 " cat /tmp/m/.env; touch /tmp/m/.git/x'",
    "a bind of all": "unshare -Urm sh -c 'mkdir -p /tmp/m; mount --rbind / /tmp/m;"
                     " umount -l /tmp/m$PWD/.git; touch /tmp/m$PWD/.git/x; cat /tmp/m$PWD/.env'",
    "remounted": "unshare -Urm sh -c 'mount -o remount,rw,bind .git; touch .git/x'",
    "moved mounts": "unshare -Urm sh -c 'mkdir -p /tmp/m; mount --move .git /tmp/m; touch .git/x'",
    "a new root": "unshare -Urm sh -c 'mkdir -p /tmp/r; mount --rbind / /tmp/r; cd /tmp/r;"
                  " pivot_root . tmp; umount -l /tmp; touch .git/x'",
    "an overlay": "unshare -Urm sh -c 'mkdir -p /tmp/u /tmp/w /tmp/o; mount -t overlay o -o"
                  " lowerdir=.,upperdir=/tmp/u,workdir=/tmp/w /tmp/o; cat /tmp/o/.env'",
    "a tmpfs in its place": "unshare -Urm sh -c 'mount -t tmpfs t .git; touch .git/x'",
    "chroot": "unshare -Ur chroot . /bin/sh -c 'touch /.git/x'",
    "processes outside": "ls /proc | wc -l; kill -9 -1; for p in /proc/[0-9]*; do cat"
                         " $p/environ; done",
    "ptrace": "gdb -p 1 -batch; strace -p 1; cat /proc/1/mem",
    "a device": "mknod d b 254 0; mknod plain/.git p; cat d",
    "a name by its handle": "python3 -c \"import ctypes, os; c = ctypes.CDLL(None);"
                            " b = ctypes.create_string_buffer(b'\\x80' + b'\\0' * 200);"
                            " m = ctypes.c_int();"
                            " print(c.name_to_handle_at(-100, b'.', b, ctypes.byref(m), 0),"
                            " c.open_by_handle_at(os.open('.', 0), b, 0))\"",
    "io_uring": "python3 -c \"import ctypes; print(ctypes.CDLL(None).syscall(425, 8, 0))\"",
    # New repositories
    "git init": "git init -q new",
    "git init here": "cd plain; git init -q",
    "git init in the ignored": "echo hidden > .gitignore; mkdir hidden; git init -q hidden/x",
    "a copy": "cp -r sub copied",
    "tar": "tar c sub | tar x -C plain",
    "a move": "mkdir x; cp -r sub/.git x/g; mv x/g plain/.git",
    "python": "python3 -c \"import os; os.makedirs('n/.git/hooks'); open('n/.git/config', 'w')\"",
    "a file that points": "mkdir e; cp -r sub/.git e/d; echo 'gitdir: ../e/d' > plain/.git",
    "a link that points": "mkdir e; cp -r sub/.git e/d; ln -s ../e/d plain/.git",
    "a link to nothing": "ln -s ../later plain/.git",
    "a link whose end comes": "ln -s ../later plain/.vscode; mkdir later; touch later/tasks.json",
    "bare": "git init -q --bare plain",
    "bare by names": "mkdir plain/objects plain/refs; echo 'ref: refs/heads/x' > plain/HEAD",
    "bare by half": f"echo 'ref: refs/heads/x' > half/HEAD; {_EVIL} half/config",
    "bare at the root": "mkdir objects refs; echo 'ref: refs/heads/x' > HEAD; touch config",
    "bare by commondir": "mkdir -p c/objects c/refs; echo 'ref: refs/heads/x' > c/HEAD; mkdir d;"
                         " cp c/HEAD d/; echo ../c > d/commondir",
    "bare by a link": "mkdir l; ln -s ../sub/.git/objects l/objects; ln -s ../sub/.git/refs l/refs;"
                      " ln -s ../sub/.git/HEAD l/HEAD",
    "bare in the modules": "mkdir -p node_modules/e; cp -r sub/.git/* node_modules/e/",
    "a hook of a bare one": f"mkdir store/hooks; {_HOOK} store/hooks/post-checkout",
    "settings of a bare one": f"{_EVIL} store/config; {_EVIL} store/config.worktree",
    "a worktree": "mkdir -p w/.git; echo x > w/.git/HEAD; echo ../../.git > w/.git/commondir",
    "a submodule": "printf '[submodule \"x\"]\\n path = x\\n url = ./x\\n' > .gitmodules",
    "a repository in the secrets": "git init -q secrets/x; mkdir -p secrets/deep/.git",
    "another system": "mkdir .hg; printf '[hooks]\\nupdate = x\\n' > .hg/hgrc; mkdir .svn .jj",
    # Names in odd spellings
    "upper case": "mkdir plain/.GIT; touch plain/.GIT/config",
    "a blank behind": "mkdir 'plain/.git ' 'plain/.git.'",
    "a stream": "mkdir 'plain/.git::$INDEX_ALLOCATION' 'plain/.git:x'",
    "the short name": "mkdir plain/GIT~1",
    "invisible": "mkdir $'plain/.g\\u200cit'; touch $'plain/.vscode\\ufe0f'",
    "other letters": "touch $'plain/.\\uff45nvrc' $'plain/.npmr\\uff43'",
    "no UTF-8": "touch $'plain/.env.\\xff'; mkdir $'plain/\\xff'; mkdir $'plain/\\xff/.git'",
    "a new line": "mkdir $'plain/a\\nb'; touch $'plain/a\\nb/.envrc'",
    "a long name": "d=$(printf 'x%.0s' $(seq 250)); mkdir -p plain/$d/$d/$d; touch"
                   " plain/$d/$d/$d/.envrc",
    "very deep": "cd plain; for n in $(seq 300); do mkdir d; cd d; done; touch .envrc",
    "deeper than paths": "cd plain; d=$(printf 'x%.0s' $(seq 250)); for n in $(seq 30);"
                         " do mkdir $d; cd $d; done; mkdir .git; touch .git/config",
    # Files of others
    "settings of editors": "mkdir -p .idea plain/.vscode; touch .idea/workspace.xml"
                           " plain/.vscode/tasks.json",
    "start-up files": "touch .bashrc plain/.zshrc plain/.gitconfig; mkdir .ssh; touch .ssh/config",
    "agents": "mkdir .claude .cursor; touch CLAUDE.md .mcp.json plain/AGENTS.md .cursorrules",
    "direnv": "cp Makefile plain/.envrc; mkdir n; touch n/.envrc n/.npmrc n/.yarnrc.yml",
    "builds": "touch plain/Makefile plain/setup.py plain/conftest.py plain/sitecustomize.py"
              " plain/x.pth",
    "continuous": "mkdir -p plain/.github/workflows .circleci; touch plain/.github/workflows/a.yml",
    "installed programs": "echo evil > node_modules/.bin/tsc; touch deep/web/.venv/bin/git;"
                          " ln -sf /bin/sh deep/web/.venv/bin/python; rm -rf node_modules",
    "an environment in its place": "mv deep/web/.venv deep/web/v; mkdir -p deep/web/.venv/bin;"
                                   " mv deep/web deep/w; mkdir -p deep/web/.venv/.vscode",
    "an environment anew": "mkdir -p plain/.venv/bin plain/venv/.git; touch plain/.venv/bin/git",
    "ours": "mkdir -p plain/.gonogo; touch plain/.gonogo/rules.toml .gonogo/evil",
    # Hiding
    "many files": "mkdir many; cd many; seq 3000 | xargs touch; mkdir -p z/.git; touch"
                  " z/.git/config",
    "many folders": "for n in $(seq 400); do mkdir -p many/$n/$n; done; mkdir -p many/400/400/.git",
    "many repositories": "for n in $(seq 60); do mkdir -p r$n/.git; touch r$n/.git/config; done",
    "many links": "mkdir l; for n in $(seq 300); do ln -s ../sub l/$n; done; ln -s . l/.git",
    "a loop of links": "ln -s loop loop; mkdir -p lp; ln -s ../lp lp/lp; touch lp/.envrc",
    "made and shut": "mkdir -p shut/.git; touch shut/.git/config; chmod 0 shut",
    "among the modules": "mkdir -p node_modules/a/node_modules/b/.git venv/x/.vscode"
                         " __pycache__/.git",
    "under another's name": "mkdir -p plain/node_modules plain/venv; cp -r sub/.git"
                            " plain/venv/.git",
    "times put back": "touch -r plain r; mkdir plain/.git; touch plain/.git/config; touch -r"
                      " r plain",
    "times put back, deeper": "touch -r deep/a/b r; mkdir deep/a/b/.vscode; touch -r r"
                              " deep/a/b deep/a",
    "times of the future": "mkdir plain/.git; touch -d 2100-01-01 plain plain/.git",
    "in place of a folder": "rm -r plain; mkdir plain; mkdir plain/.git",
    "in place of a file": "rm plain/file.txt; mkdir -p plain/file.txt/.git",
    "swapped": "mkdir q; mkdir q/.git; touch q/.git/config; mv plain p; mv q plain; mv p q",
    "linked elsewhere": "rm linked/.git; ln -s ../conf linked/.git",
    "behind a link": f"{_EVIL} real/config; {_W} conf/tasks.json; rm -rf conf; mkdir conf",
    "left running": "(setsid sh -c 'sleep 0.2; mkdir plain/.git; touch plain/.git/config' &); true",
    "left running, hidden": "(trap '' HUP TERM; exec -a sh setsid nohup sh -c 'sleep 0.3;"
                            " mkdir plain/.vscode' >/dev/null 2>&1 &); true",
    "a race": "for n in $(seq 200); do mkdir -p z/.git; rm -rf z; done; mkdir z; touch z/.envrc",
    "a race of renames": "mkdir -p e/.git; (for n in $(seq 300); do mv e f; mv f e; done)"
                         " 2>/dev/null",
    "killed in the middle": "mkdir plain/.git; touch plain/.git/config; kill -9 $$",
    "no output, no end": "mkdir plain/.git; exec >&-; exec 2>&-; exit 7",
    "a socket": "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('plain/.envrc')\"",
    "a pipe": "mkfifo plain/.envrc plain/.npmrc",
    "sparse": "truncate -s 1G plain/.envrc",
}  # fmt: skip
