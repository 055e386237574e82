"""Which files of a workspace need more than the usual care, judged by their names alone.

One list, so that file tools, commands, the sandbox and the policy agree. Names are compared
without regard to case, at any depth, and whether or not the file exists: a start-up file that an
agent creates is run as surely as one that it edits.
"""

import re
import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

from gonogo.domain.visible import undrawn

Guard = Literal["deny", "ask"]

_STATE_DIRECTORIES = frozenset({".git", ".gonogo", ".hg", ".jj", ".sl", ".svn"})
_TOOL_DIRECTORIES = frozenset(
    """.claude .codex .gemini .cursor .windsurf .roo .cline .continue .aider .zed .vscode .idea
    .fleet .vim .emacs.d .nvim .ssh .gnupg .aws .azure .kube .docker""".split()
)
_STARTUP_FILES = frozenset(
    """.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv
    .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .inputrc .xprofile .xinitrc
    .vimrc .gvimrc .exrc .nvimrc .emacs .nanorc .tmux.conf .screenrc .gdbinit .lldbinit
    .nvim.lua .lvimrc .dir-locals.el .hgrc .pythonrc .pythonrc.py .irbrc .gitconfig .mcp.json
    mcp.json .curlrc .wgetrc .npmrc .yarnrc .yarnrc.yml .pypirc""".split()
)
_RUN_BY_OTHERS = frozenset(
    """.gitmodules .gitattributes .envrc .pre-commit-config.yaml makefile gnumakefile justfile
    rakefile taskfile.yml taskfile.yaml conftest.py package.json setup.py noxfile.py tasks.py
    sitecustomize.py usercustomize.py build.rs binding.gyp jenkinsfile .gitlab-ci.yml
    .travis.yml""".split()
)
_RUN_BY_OTHERS_DIRECTORIES = frozenset(
    {".github", ".gitlab", ".circleci", ".husky", ".githooks", ".devcontainer", ".cargo"}
)
_INSTRUCTIONS = frozenset(
    """agents.md agent.md claude.md claude.local.md gemini.md copilot-instructions.md .cursorrules
    .windsurfrules .clinerules .roorules .goosehints .rules skill.md""".split()
)

SECRET_DIRECTORIES = tuple(
    """.ssh .gnupg .aws .azure .gcloud .kube .docker .gonogo .password-store secrets
    .secrets""".split()
)
"""Folders whose every file is a secret."""
SECRET_NAMES = tuple(
    """.env .env.* *.env .envrc .netrc _netrc .pypirc .npmrc .yarnrc.yml .pgpass pgpass.conf .my.cnf
    .dockercfg .htpasswd .git-credentials .vault-token .terraformrc .s3cfg .boto
    *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk *.asc *.gpg *.ovpn *.tfstate *.tfvars
    id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk
    credentials credentials.json credentials.toml credentials.yml credentials.yaml credentials.csv
    secrets.json secrets.toml secrets.yml secrets.yaml secrets.ini secrets.txt
    secret.json secret.toml secret.yml secret.yaml secret.txt
    service-account*.json service_account*.json kubeconfig auth.json *_history""".split()
)
"""Globs of one name each, in lower case."""
_NO_SECRET = tuple("*.example *.sample *.template *.dist *.pub".split())


def write_guard(path: str) -> Guard | None:
    """Whether writing, moving or deleting `path` needs more than an approved plan.

    Args:
        path: Relative to the workspace, or absolute, with `/`.

    Returns:
        `deny` for what no call may change: repositories' insides, gonogo's own folder, start-up
        and settings files that other programs run. `ask` for what a person looks at each time:
        code that tests, builds and CI run by themselves, agent instructions, secrets.
        None for everything else.
    """
    names = _names(path)
    if not names:
        return "deny"
    directories, last = set(names), names[-1]
    if directories & (_STATE_DIRECTORIES | _TOOL_DIRECTORIES) or last in _STARTUP_FILES:
        return "deny"
    if directories & _RUN_BY_OTHERS_DIRECTORIES or last in _RUN_BY_OTHERS | _INSTRUCTIONS:
        return "ask"
    return "ask" if last.endswith(".pth") or is_secret(path) else None


def is_secret(path: str) -> bool:
    """Whether reading `path` would show credentials to a model and to logs."""
    names = _names(path)
    if not names:
        return False
    if not set(SECRET_DIRECTORIES).isdisjoint(names):
        return True
    if ".git" in names and names[-1] == "config":
        return True
    # `a:b.pem` is a file of that name, or a stream of the file `a`.
    whole = {names[-1], re.split(r"[/\\]", path)[-1].casefold()}
    return any(_matches(name, SECRET_NAMES) and not _matches(name, _NO_SECRET) for name in whole)


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _names(path: str) -> list[str]:
    """The path's names as the most forgiving file system would read them."""
    names: list[str] = []
    for raw in re.split(r"[/\\]", path):
        name = _plain(raw)
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return names


@lru_cache(maxsize=65_536)
def folded(name: str) -> str:
    """A name, or a glob of names, as the most forgiving file system compares it."""
    # To capitals and back: a dotless i, a long s and a Kelvin sign are plain letters then.
    large = unicodedata.normalize("NFKC", name).upper()
    small = unicodedata.normalize("NFKC", large.casefold()).replace("i\u0307", "i")
    return "".join(c for c in small if unicodedata.category(c) != "Cf" and not undrawn(c))


@lru_cache(maxsize=65_536)
def _plain(name: str) -> str:
    if name in (".", ".."):
        return name
    visible = folded(name)
    # NTFS: a stream's name after a colon, blanks and dots at the end, the short form of a name.
    plain = visible.split(":", 1)[0].rstrip(". ") or visible
    short = _SHORT.fullmatch(plain)
    return _lengthened(short[1], short[2] or "") or plain if short else plain


def _lengthened(stem: str, end: str) -> str | None:
    """A name that has this short form and needs care."""
    if stem == "env":
        return ".env"
    return _BY_SHORT.get((stem, end)) or _BY_SHORT_END.get(end)


_SHORT = re.compile(r"([^~.]{1,6})~[0-9]+(?:\.([^.]{1,3}))?")
"""FAT and NTFS give `GITHUB~1` to `.github`, and open it by that name too."""


def _short(name: str) -> tuple[str, str]:
    """The beginning and the end that a name's short form keeps."""
    stem, _, end = name.lstrip(".").rpartition(".")
    if not stem:
        stem, end = end, ""
    return stem.replace(".", "")[:6], end[:3]


_BY_SHORT = {
    _short(name): name
    for name in (
        *_INSTRUCTIONS, *_RUN_BY_OTHERS, *_RUN_BY_OTHERS_DIRECTORIES,
        *(name.replace("*", "") for name in SECRET_NAMES if not name.startswith("*")),
        *SECRET_DIRECTORIES,
        *_STARTUP_FILES, *_TOOL_DIRECTORIES, *_STATE_DIRECTORIES,
    )
}  # fmt: skip
"""The last ones decide where two have the same short form: they are denied."""
_BY_SHORT_END = {
    name[2:5]: f"x{name[1:]}" for name in SECRET_NAMES if re.fullmatch(r"\*\.\w{4,}", name)
}
