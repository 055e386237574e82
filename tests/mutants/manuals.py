"""What the programs' manuals say about changing, running and reading elsewhere.

Written from the manuals, not from the policy's tables, and the other way round: not what is
known to be harmless, but what is known to do harm. A program that is not here is not one that
only reads.
"""

import posixpath
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

from mutants.workspace import MOUNTED_AT

SECRET = """.env .env.* *.env .envrc .netrc .npmrc .pypirc .pgpass .git-credentials *.pem *.key
*.p12 *.pfx *.jks *.keystore *.kdbx id_rsa id_dsa id_ecdsa id_ed25519 credentials credentials.json
*_history""".split()
SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".kube", ".docker", ".gonogo", "secrets"})
NOT_SECRET = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """One program."""

    valued: str = ""
    """Letters of options that take what follows."""
    bad: str = ""
    """Letters that write, run, or read something else."""
    bad_long: tuple[str, ...] = ()
    """The same as words; what is short for one of them counts."""
    files: bool = True
    """Operands are files whose contents are shown."""
    data: int = 0
    """How many operands come before the files."""
    unless: str = ""
    """Letters (and words) that supply what the first operand otherwise is."""
    most: int = 10_000
    """How many operands there may be."""
    guard: str = ""
    """The option without which a walk through folders shows secrets."""
    long_dash: bool = False
    """Options are words with one dash."""
    valued_long: tuple[str, ...] = ()
    """Long options that take the next word."""
    also: Callable[[Sequence[str]], str | None] | None = None


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_DIFFS = _words(
    """--ext-diff --textconv --output --no-index --show-signature --open-files-in-pager --stdin
    --orderfile --pathspec-from-file --contents --ignore-revs-file --exclude-from --submodule
    --exclude-per-directory --git-path --resolve-git-dir --parseopt --mailmap-file --upload-pack"""
)
_GIT_READS = frozenset(
    """status diff log show branch rev-parse ls-files blame describe shortlog ls-tree remote tag
    stash""".split()
)
_GIT_FIXED = re.compile(
    r"(core\.(fsmonitor|sshCommand)=false|core\.hooksPath=/dev/null|core\.pager=cat"
    r"|core\.alternateRefsCommand=|credential\.helper=|gpg\.((ssh|x509)\.)?program=false"
    r"|log\.showSignature=false|protocol\.allow=never|submodule\.recurse=false)"
)
_SED_SCRIPT = re.compile(r"(/(\\.|[^/\\\n])*/I?|[0-9$,+~!; \t]|[pq])*")


_FIND_VALUED = re.compile(
    r"-(i?name|i?path|i?wholename|i?regex|regextype|x?type|size|[amc]time|[amc]min|perm|user|group"
    r"|links|inum|printf|maxdepth|mindepth|newer|anewer|cnewer|samefile)"
)
_FIND_BAD = re.compile(
    r"-(exec|execdir|ok|okdir|delete|fprint0?|fprintf|fls|files0-from|[LHD]|O\d)"
)


def _find(argv: Sequence[str]) -> str | None:
    acts = [word for before, word in pairwise(argv) if not _FIND_VALUED.fullmatch(before)]
    return next((f"find {word}" for word in acts if _FIND_BAD.fullmatch(word)), None)


def _sed(argv: Sequence[str]) -> str | None:
    quiet = any(re.fullmatch(r"-[nErsuz]*n[nErsuze]*|--quiet|--silent", word) for word in argv)
    scripts = [
        argv[n + 1] for n, word in enumerate(argv[:-1]) if re.fullmatch(r"-[nErsuz]*e", word)
    ]
    scripts += [word.partition("=")[2] for word in argv if word.startswith("--expression=")]
    scripts += [word.partition("e")[2] for word in argv if re.fullmatch(r"-[nErsuz]*e.+", word)]
    scripts += [argv[n + 1] for n, word in enumerate(argv[:-1]) if word == "--expression"]
    if not scripts:
        scripts = [next((word for word in argv[1:] if not word.startswith("-")), "")]
    odd = [script for script in scripts if not _SED_SCRIPT.fullmatch(script)]
    return f"the sed script {odd[0]!r}" if odd else None if quiet else "sed prints all"


def _jq(argv: Sequence[str]) -> str | None:
    out = re.compile(
        r"\$ENV|(?<!\.)\b(env|input|inputs|import|include|input_filename|halt_error|debug|stderr)\b"
    )
    values = {
        n + k for n, word in enumerate(argv) if word in ("--arg", "--argjson") for k in (1, 2)
    }
    words = [word for n, word in enumerate(argv[1:], 1) if n not in values and word[:1] != "-"]
    return next((f"the jq filter {word!r}" for word in words[:1] if out.search(word)), None)


def _tar(argv: Sequence[str]) -> str | None:
    first = argv[1] if len(argv) > 1 else ""
    # "The first command line argument may be a bundle of old-style options", without a dash.
    if first[:1] != "-" and set(first) - set("tvzjJf"):
        return f"tar {first}"
    listing = any(re.fullmatch(r"-[tvzjJ]*t[tvzjJ]*(f.*)?|--list", word) for word in argv)
    if not listing and (first[:1] == "-" or "t" not in first):
        return "tar does not list"
    if remote := next((word for word in argv[1:] if ":" in word), None):
        return f"tar {remote}"
    dashed = _with_dashes(argv)
    archives = [word for before, word in pairwise(dashed) if re.fullmatch("-[tvzjJ]*f", before)]
    return next((found for word in archives if (found := place(word))), None)


def _with_dashes(argv: Sequence[str]) -> list[str]:
    """Tar's bundle without a dash as options; the values of its letters come after all of it."""
    first, *rest = argv[1:] or ("-",)
    if first[:1] == "-":
        return list(argv)
    said = list[str]()
    for letter in first:
        said += [f"-{letter}", *(rest[:1] if letter == "f" else ())]
        rest = rest[letter == "f" :]
    return [argv[0], *said, *rest]


def _tree(argv: Sequence[str]) -> str | None:
    """In its clusters a letter's value is always another word."""
    values = 0
    for word in argv[1:]:
        if values:
            values -= 1
        elif word == "--":
            return None
        elif re.match("-[^-]", word):
            if found := set(word) & set("oRlHT"):
                return f"tree {word}: {found}"
            values = sum(word.count(letter) for letter in "LIP")
    return None


def _argument_files(argv: Sequence[str]) -> str | None:
    return next((f"{argv[0]} {word}" for word in argv if word.startswith("@")), None)


def _make(argv: Sequence[str]) -> str | None:
    option = r"--|-k|-s|-sk|-ks|-j ?\d+|--keep-going|--silent|--jobs[ =]\d+|--no-print-directory"
    ok = re.fullmatch(rf"test( ({option}))*", " ".join(argv[1:]))
    return None if ok else "make does more than 'test'"


_TEST_FLAGS = """--silent --ci --bail --coverage --no-coverage --passWithNoTests --run --runInBand
    --verbose""".split()


def _npm(argv: Sequence[str]) -> str | None:
    rest = argv[2:] if argv[1:2] == ["test"] else None
    if rest is None:
        return "npm does more than 'test'"
    bad = [word for word in rest if word.startswith("-") and word not in ("-s", "--", *_TEST_FLAGS)]
    return f"npm test {bad[0]}" if bad else None


def _pytest(argv: Sequence[str]) -> str | None:
    """Plugins are only ever switched off."""
    for word, after in pairwise([*argv, ""]):
        found = re.match(r"-[^-kmnrcoW]*?p(.*)", word)
        if found and not (found[1] or after).startswith("no:"):
            return f"pytest {word}"
    return _argument_files(argv)


def _tail(argv: Sequence[str]) -> str | None:
    waits = [word for word in argv[1:] if re.fullmatch(r"\+\d*[bcl]?f", word)]
    return f"tail {waits[0]}" if waits else None


def _python(argv: Sequence[str]) -> str | None:
    if list(argv[1:2]) != ["-m"] or argv[2] not in ("pytest", "mypy"):
        return "python runs something else"
    return complaint(argv[2:])


def _ruff(argv: Sequence[str]) -> str | None:
    if argv[1] != "check":
        return "ruff does more than 'check'"
    told = {"--no-fix", "--no-fix-only", "--no-cache"} <= set(argv)
    return _argument_files(argv) if told else "ruff may write what the repository says"


def _git(argv: Sequence[str]) -> str | None:
    at = 1
    while at < len(argv) and argv[at] in ("--no-pager", "--no-optional-locks", "-c"):
        if argv[at] == "-c" and not _GIT_FIXED.fullmatch(argv[at + 1]):
            return f"git -c {argv[at + 1]}"
        at += 2 if argv[at] == "-c" else 1
    name, rest = argv[at], argv[at + 1 :]
    if name not in _GIT_READS:
        return f"git {name}"
    if name in ("diff", "log", "show") and not {"--no-ext-diff", "--no-textconv"} <= set(rest):
        return f"git {name} may run programs of the repository"
    return _git_options(name, rest)


def _git_options(name: str, rest: Sequence[str]) -> str | None:
    end = rest.index("--") if "--" in rest else len(rest)
    # These take the next word, whatever it begins with.
    takes = re.compile(r"--(no-)?(contains|merged)|--points-at")
    options = [word for before, word in zip(("", *rest), rest[:end], strict=False)
               if word.startswith("-") and not takes.fullmatch(before)]  # fmt: skip
    for word in options:
        if _short_for(word, _DIFFS) and word not in ("--no-ext-diff", "--no-textconv"):
            return f"git {name} {word}"
        if "%G" in word:
            return f"git {name} {word} runs gpg"
    letters = {
        "branch": "dDmMcCfuUt",
        "tag": "dasumFfv",
        "stash": "apqu",
        "blame": "S",
        "status": "v",
        "diff": "O",
        "log": "O",
        "show": "O",
    }
    for word in options:
        if re.match(
            rf"-[a-zA-Z]*[{letters.get(name, '')}]"
            if name in ("branch", "tag")
            else rf"-[{letters.get(name, '~')}]",
            word,
        ):
            return f"git {name} {word}"
    valued = re.compile(
        r"-[a-zA-Z]*[GSLnxUF]|--(since|until|after|before|author|committer|grep|date|skip|format|decorate-refs|exclude|sort|word-diff-regex)"
    )
    operands = [word for before, word in zip(("", *rest), rest, strict=False)
                if not word.startswith("-") and not valued.fullmatch(before)]  # fmt: skip
    return _git_operands(name, options, operands)


def _git_operands(name: str, options: Sequence[str], operands: Sequence[str]) -> str | None:
    listing = re.compile(
        r"-[a-z]*l[a-z]*|--list|--(no-)?(merged|contains)(=.*)?|--points-at(=.*)?|-n\d*"
    )
    if name in ("branch", "tag") and operands and not any(map(listing.fullmatch, options)):
        return f"git {name} {operands[0]} makes one"
    if name == "stash" and list(operands) != ["list"]:
        return "git stash changes the tree"
    if name == "remote" and operands:
        return "git remote with a command"
    for word in operands:
        for part in word.split(":", 1)[-1:]:
            names = name in ("status", "ls-files", "rev-parse", "describe", "ls-tree")
            if part and (found := place(part.lstrip(":/") if names else part, leaks=not names)):
                return found
    return None


_LOOKED_AT = {
    "find": _find, "sed": _sed, "jq": _jq, "tar": _tar, "git": _git, "make": _make, "npm": _npm,
    "pytest": _pytest, "tail": _tail, "ruff": _ruff, "mypy": _argument_files, "tree": _tree,
    "python": _python, "python3": _python,
}  # fmt: skip


def _manuals() -> dict[str, Manual]:
    text = Path(__file__).with_name("manuals.toml").read_text("utf-8")
    return {
        name: Manual(
            **{
                key: tuple(value.split()) if key.endswith("_long") else value
                for key, value in fields.items()
            },
            also=_LOOKED_AT.get(name),
        )
        for name, fields in tomllib.loads(text).items()
    }


MANUALS = _manuals()
_SHOWS_NAMES = frozenset(
    {"ls", "wc", "stat", "file", "du", "tree", "sha256sum", "md5sum", "tar", "find"}
)


def complaint(argv: Sequence[str], *, expanded: Iterable[str] = ()) -> str | None:
    """What is wrong with running this, or nothing.

    Args:
        expanded: Words that a pattern gave; these may be secrets where only names are shown.
    """
    manual = MANUALS.get(argv[0])
    if manual is None:
        return f"{argv[0]!r} is no program that only reads"
    if manual.also is not None and (found := manual.also(list(argv))):
        return found
    if manual.long_dash:
        return _starts(argv, set(expanded)) if argv[0] == "find" else None
    options, operands = _parted(argv, manual)
    unguarded = _unguarded(argv[0], options, manual)
    if isinstance(operands, str) or unguarded:
        return unguarded or str(operands)
    skipped = 0 if any(_supplies(word, manual) for word in options) else manual.data
    if argv[0] == "rg" and {"--files", "--type-list"} & set(options):
        skipped = 0
    if len(operands) > manual.most:
        return f"{argv[0]} with {len(operands)} operands"
    if not manual.files:
        return None
    by_pattern = set(expanded) if argv[0] in _SHOWS_NAMES else set[str]()
    return next(
        (bad for word in operands[skipped:] if (bad := place(word, leaks=word not in by_pattern))),
        None,
    )


def _unguarded(program: str, options: Sequence[str], manual: Manual) -> str | None:
    """What is wrong with a walk through folders that may meet secrets."""
    walks = program != "grep" or any(
        re.match("--(rec|deref)", word)
        or (word[:2] != "--" and not set("rR").isdisjoint(_letters(word, manual)))
        for word in options
    )
    unguarded = manual.guard and walks and manual.guard not in options
    return f"{program} walks unguarded" if unguarded else None


def place(word: str, *, leaks: bool = True) -> str | None:
    """What is wrong with a file to read."""
    if word in ("-", "/dev/null"):
        return None
    whole = posixpath.normpath(posixpath.join(MOUNTED_AT, word))
    if whole != MOUNTED_AT and not whole.startswith(MOUNTED_AT + "/"):
        return f"{word!r} is outside"
    names = [name.casefold() for name in whole.split("/") if name]
    if not leaks:
        return None
    if not SECRET_FOLDERS.isdisjoint(names) or names[-2:] == [".git", "config"]:
        return f"{word!r} is a secret"
    known = any(fnmatchcase(names[-1], glob) for glob in SECRET)
    return (
        f"{word!r} is a secret"
        if known and not any(fnmatchcase(names[-1], g) for g in NOT_SECRET)
        else None
    )


def _starts(argv: Sequence[str], by_pattern: set[str]) -> str | None:
    for word in argv[1:]:
        if word.startswith("-") or word in ("(", "!"):
            return None
        if found := place(word, leaks=word not in by_pattern):
            return found
    return None


def _supplies(word: str, manual: Manual) -> bool:
    if word.startswith("--"):
        return word.split("=")[0] in ("--regexp", "--expression", "--list")
    return any(letter in manual.unless for letter in _letters(word, manual))


def _letters(word: str, manual: Manual) -> str:
    """The options of a cluster, without the value of the last."""
    for at, letter in enumerate(word[1:], 1):
        if letter in manual.valued:
            return word[1 : at + 1]
    return word[1:]


def _parted(argv: Sequence[str], manual: Manual) -> tuple[list[str], list[str] | str]:
    options: list[str] = []
    operands: list[str] = []
    words = (_with_dashes(argv) if argv[0] == "tar" else list(argv))[1:]
    while words:
        word = words.pop(0)
        if word == "--":
            return options, operands + words
        if not word.startswith("-") or word == "-" or argv[0] in ("echo", "true", "false"):
            operands.append(word)
            continue
        options.append(word)
        if bad := _bad(argv[0], word, manual):
            return options, bad
        if argv[0] == "tree" and not word.startswith("--"):
            # Each letter of a cluster that takes a value takes a word of its own.
            del words[: sum(word.count(letter) for letter in manual.valued)]
        elif _takes_next(word, manual) and words:
            words.pop(0)
        if argv[0] == "jq" and word in ("--arg", "--argjson"):
            del words[:2]
    return options, operands


def _bad(program: str, word: str, manual: Manual) -> str | None:
    if not word.startswith("--"):
        harm = set(_letters(word, manual)) & set(manual.bad)
        if harm:
            return f"{program} {word}"
        read = re.fullmatch(r"-[^f]*f(.+)", word) if program == "grep" else None
        return place(read[1]) if read and "f" in _letters(word, manual) else None
    if _short_for(word, manual.bad_long):
        return f"{program} {word}"
    name, _, value = word.partition("=")
    if name in ("--from-file", "--to-file", "--file", "--cov") and value:
        return place(value)
    return None


def _short_for(word: str, names: Iterable[str]) -> bool:
    name = word.split("=")[0]
    return len(name) > 2 and any(
        name == full or (full.startswith(name) and name not in _EXACT) for full in names
    )


_EXACT = frozenset(
    {
        "--no-color",
        "--text",
        "--pretty",
        "--exclude",
        "--show",
        "--no-ignore-case",
        "--color",
        "--slurp",
        "--cov",
        "--no-ext-diff",
        "--co",
        "--arg",
        "--file",
    }
)
"""Whole options of their own that one could take for the beginning of another."""


def _takes_next(word: str, manual: Manual) -> bool:
    if word.startswith("--"):
        return word in manual.valued_long
    letters = _letters(word, manual)
    return letters[-1:] in manual.valued and len(letters) == len(word) - 1 and letters != ""
