"""Commands that no rule, plan or person can allow: they ruin the host, or tamper with gonogo."""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain, islice, pairwise, takewhile
from posixpath import normpath

from gonogo.domain.commands import (
    SHELLS,
    begins_at,
    family,
    here,
    option_values,
    started_at,
    starts_others,
)
from gonogo.domain.errors import because
from gonogo.domain.paths import is_literal, write_guard
from gonogo.policy.programs import known
from gonogo.policy.shell import UNKNOWN, Suspicion, literal
from gonogo.policy.tampering import (
    CLIENTS,
    DATABASES,
    FIND_ACTS,
    HOST_PROGRAMS,
    LOOPBACK,
    READS_NAMES_ONLY,
    Argv,
    changes_host,
    changes_settings,
    ends_processes,
    operands_of,
    starts_by_settings,
    tampers,
)

_REMOVERS = frozenset({"rm", "rmdir", "unlink", "shred", "srm"})
_FAR_COPIERS = frozenset({"scp", "sftp", "rsync"})
_FAR = re.compile("[^/]*:")
"""The name of a file on another machine, as these programs write it."""
_OVERWRITERS = frozenset({"mv", "cp", "ln", "install"}) | _FAR_COPIERS
_FILLERS = frozenset(
    """tee touch truncate dd mkdir mkfifo mknod mktemp fallocate sponge ed red ex dos2unix unix2dos
    strip vi vim nvim nano pico emacs micro black isort rustfmt""".split()
)
"""Programs that make or write every file that their words name."""
_FILLED = {
    **dict.fromkeys(_FILLERS, slice(None)),
    # For some of these the word is only a prefix of the names.
    **dict.fromkeys(("uniq", "xxd", "split"), slice(1, None)), "sd": slice(2, None),
    **dict.fromkeys(("patch", "zip", "script", "logsave", "virtualenv"), slice(1)),
    **dict.fromkeys("objcopy convert magick link ffmpeg sox ditto".split(), slice(-1, None)),
}  # fmt: skip
"""Which of the files that they name these programs write."""
_LOOKS = {
    **dict.fromkeys(("vi", "vim", "nvim"), frozenset({"-R", "-M"})),
    **dict.fromkeys(("black", "isort", "rustfmt"), frozenset({"--check", "--diff", "-c"})),
    **dict.fromkeys(("sqlite", "sqlite3", "duckdb"), frozenset({"-readonly", "--readonly"})),
}
"""Options with which some programs only read."""
_REFERENCES = {
    **dict.fromkeys(("touch", "truncate"), re.compile("-r$|--reference$")),
    **dict.fromkeys(("chmod", "chown", "chgrp"), re.compile("--reference$")),
}
"""Options whose value is a file that is only looked at."""
_TARS = frozenset({"tar", "bsdtar", "gtar", "gnutar"})
_HAS_VERB = _TARS | {"git"}
_PACKERS = frozenset(
    """gzip gunzip pigz unpigz bzip2 bunzip2 pbzip2 lbzip2 xz unxz lzma unlzma lzip plzip zstd
    unzstd compress uncompress""".split()
)
"""Programs that replace every file that they name by another one, or write one beside it."""
_ONLY_UNPACKS = re.compile(r"-[a-zA-Z0-9]*[clotV]|--(?:st|to|te|li|ou)")
"""Options with which packers only read the files that they name."""
_EDITORS = frozenset({"sed", "gsed", "perl", "ruby", "yq"})
"""Programs that change the files after their script, with an option for editing in place."""
_REWRITES = re.compile("--(?:write|fix|in-?place|overwrite)$")
"""With one of these options any program changes the files that it names; some do with a letter."""
_REWRITERS = {
    **dict.fromkeys(("gofmt", "goimports", "gofumpt", "shfmt"), "-w"),
    **dict.fromkeys(("clang-format", "autopep8", "yapf"), "-i"),
}
_GOES_BY = re.compile(r"(?:--[\w-]*(?:ignore|exclude|config|path)[\w-]*|-c)$")
"""Options whose value is a file that such a program reads for settings, or leaves out."""
_INTO = {
    **dict.fromkeys(("cp", "mv", "ln", "install"), ("-t", "--target-directory")),
    "unzip": ("-d",), **dict.fromkeys(("cpio", "bsdcpio"), ("-D", "--directory")),
    "curl": ("-o", "--output", "--output-dir", "-D", "--dump-header", "-c", "--cookie-jar",
             "--trace", "--trace-ascii", "--stderr", "--etag-save", "--libcurl"),
    "wget": ("-O", "--output-document", "-P", "--directory-prefix", "-o", "--output-file",
             "-a", "--append-output", "--save-cookies"),
    "aria2c": ("-o", "--out", "-d", "--dir"), "axel": ("-o", "--output"),
    "csplit": ("-f", "--prefix"),
    **dict.fromkeys(("http", "https", "xh", "sort", "gpg"), ("-o", "--output")),
    "patch": ("-o", "--output", "-d", "--directory"),
    **dict.fromkeys(("gcc", "cc", "clang", "ld", "7z", "7za", "7zr", "7zz", "zstd"), ("-o",)),
    **dict.fromkeys(("unar", "shuf", "brotli", "base64", "uudecode"), ("-o", "--output")),
    "rsync": ("--backup-dir", "--partial-dir", "--temp-dir", "--log-file"), "ar": ("--output",),
    "git": ("--output", "--output-directory", "--separate-git-dir", "--export-marks"),
    **dict.fromkeys(("git apply", "git am"), ("--directory",)),
    "git checkout-index": ("--prefix",), **dict.fromkeys(("npm", "pnpm"), ("--prefix", "-C")),
    "zip": ("-O",), "find": ("-fprint", "-fprint0", "-fls", "-fprintf"),
    "openssl": ("-out",), "mktemp": ("-p", "--tmpdir"), "cmake": ("-B",), "tcpdump": ("-w",),
    "ctags": ("-f",), "javac": ("-d",),
    **dict.fromkeys(("pip", "pip3"), ("-t", "--target", "--prefix", "--root")),
}  # fmt: skip
"""Options whose value is a file to write, or a folder to put files into."""
_WORKS_IN = {name: tuple(options.split()) for names, options in (
    ("make gmake bmake remake", "-C --directory"), ("ninja samu go meson", "-C"),
    ("cargo", "-C --target-dir --root"), ("uv pdm", "--directory --project -p"),
    ("poetry", "-C --directory -P --project"), ("yarn bun", "--cwd"), ("pnpm", "--dir"),
    ("composer", "-d --working-dir"), ("just", "-d --working-directory"), ("task", "-d --dir"),
    ("gradle gradlew", "-p --project-dir"), ("mvn mvnw", "-f --file"), ("hg", "-R --repository"),
    ("ant", "-f -file -buildfile"), ("cmake", "--build --install --prefix"), ("nox", "--envdir"),
    ("mkdocs hugo jekyll coverage", "-d"), ("javadoc", "-d"), ("rollup", "-d --dir --file"),
    ("gem", "-i -n"), ("pip", "-d -w --src"), ("yt-dlp", "-P --paths"), ("logrotate", "-s"),
    ("pg_dump pg_dumpall", "-f --file"), ("mysqldump mariadb-dump", "-r"), ("psql", "-L"),
    ("ssh-keygen", "-f"), ("asciidoctor", "-D"), ("gcc cc clang", "-MF"), ("bundle", "--path"),
    ("parallel", "--workdir --wd --results"), ("unshare", "--wd -w"),
    ("python -m zipfile", "-c --create"), ("python -m tarfile", "-c --create"),
) for name in (names.split() if "-m" not in names else [names])}  # fmt: skip
"""Options whose value is the folder in which a program works, or a file that it writes.

Only protected paths are denied for these; about other paths a person may decide.
"""
_HERE = {
    **dict.fromkeys(_TARS, "-C"), **dict.fromkeys(("unzip", "patch"), "-d"),
    "git apply": "--directory=",
}  # fmt: skip
"""Options that set the folder for files that the command itself does not name."""
_OUTPUT = re.compile(
    r"(?P<name>-o|--?out[\w-]*|--\w+[-_]out|(?:DESTDIR|PREFIX)(?==)"
    r"|--(?:dest(?:ination)?|basetemp|junit-?xml|workdir|(?!git|e?x|ig|hid|no|sk|in[cpm]|so|src|lib"
    r"|templ|conf|plug|test)\w[\w-]*-(?:dir|report)|(?:log|result|data)-file))(?:=(?P<value>.*))?"
    r"|-o(?P<glued>.+)"
)
"""Options that name output files, for any program except those in `_MODES`."""
_MODES = frozenset(
    """cpio bsdcpio cat ps ssh test [ set shopt bash sh rsync zip unzip column pgrep lsof ag
    ack""".split()
)
"""Programs whose `-o` is not a file, but an action, an owner, a condition or a name."""
_GIT_MODES = frozenset("clone commit fetch grep ls-files ls-remote pull push".split())
"""Commands of git whose `-o` is not a file."""
_INDICATOR = "--output-indicator-"
"""With this option, git gets a character for the beginning of lines."""
_MADE = {
    **dict.fromkeys(("git init", "git worktree add", "git bundle create"), slice(1)),
    **dict.fromkeys(("git clone", "git worktree move", "git submodule add"), slice(1, 2)),
    "git mv": slice(-1, None),
    **dict.fromkeys(("sqlite", "sqlite3", "duckdb"), slice(None)),
    **dict.fromkeys("sphinx-build pdftotext pdftoppm pdfunite pdfseparate".split(), slice(1, None)),
    **{f"{program} {verb}": places for programs, verbs, places in (
        ("7z,7za,7zr,7zz,rar", "a d f m u", slice(1)), ("meson", "setup", slice(None)),
        ("ar", "d q r cr rc crs rcs cru rcu", slice(1)),
        ("python -m", "venv compileall", slice(None)),
        ("uv,cargo,ruff,go,terraform", "init new venv format fmt", slice(None)),
        ("hg,gh repo", "clone", slice(1, None)), ("svn", "checkout co export", slice(1, None)),
        ("docker,podman,kubectl,oc,aws s3,gsutil", "cp sync mv", slice(1, None)),
        ("rclone", "copy copyto sync move moveto", slice(1, None)),
    ) for program in programs.split(",") for verb in verbs.split()},
}  # fmt: skip
"""Which of the words after a program, or after its verb, name what it makes or changes."""
_MADE_VALUED = re.compile(
    r"-[bBcjou]$|--(?:br|or|up|dep|co|jo|ref|te|fi|shal|se|bu|ob|in|reas|na)[\w-]*$"
)
"""Options of these programs whose value is the next word."""
_PLACED = re.compile(
    r"(?is:(?P<own>GIT_(?:COMMON_)?DIR|GIT_INDEX_FILE|GIT_OBJECT_DIRECTORY)|GIT_WORK_TREE|DESTDIR|GOBIN"
    r"|GIT_TRACE\w*|PREFIX|CARGO_(?:TARGET_DIR|INSTALL_ROOT)|(?:PIP|NPM_CONFIG)_(?:TARGET|PREFIX)"
    r"|COVERAGE_FILE)=(?P<value>.*)"
)
"""Variables that say where something is written."""
_GIT_OWN = re.compile(r"(?:.*/)?\.git(?:/(?:modules|worktrees)/.*|/index[^/]*|/objects)?")
"""The usual places in git itself for what the variables in the group `own` name."""
_VALUED_LETTERS, _JAR_LETTERS = re.compile("[bCfFgIKLNTVX]"), re.compile("[efm]")
"""Letters in the first word of tar, and of jar, whose values are the next words, in order."""
_AWKS = frozenset({"awk", "gawk", "mawk", "nawk", "goawk"})
_SEDS = frozenset({"sed", "gsed"})
_WRITTEN = (
    (_AWKS, re.compile(r'>{1,2}\s*"([^"\n]+)"')),
    (_SEDS, re.compile(r"(?:^|[\s;{}/|,#$0-9gpeiIMm])w\s+([^\n;}]+)")),
    (DATABASES, re.compile(
        r"(?im)(?:^\s*(?:\.(?:output|once|excel|backup|save|clone|log)|\\(?:o|out|w|write|g|log))"
        r"\s+(?:main\s+)?|\b(?:into|copy\s[^;]*?\sto|attach(?:\s+database)?)\s*)[\"']?([^\s\"';|]+)"
    )),
)  # fmt: skip
"""Patterns that find the files that the code of a program writes."""
_EXTRACTS = re.compile(r"-\w*x\w*$|--(?:ext|ge)\w*$")
_TO_STDOUT = re.compile(r"-[^\WbCfFgHIKLNTVX]*O\w*$|--to-(?:stdout|command)")
_UNZIPS_NOTHING = re.compile(r"-[^dIOP]*[cltpvzZ]")
_TAKES_OUT = (
    ({"7z", "7za", "7zr", "7zz", "rar", "unrar"}, re.compile("[xe] [^ ]+ ")),
    ({"jar", "ar"}, re.compile(r"(?:-?\w*x\w*|--extract) [^ ]+ ")),
    ({"cpio", "bsdcpio"}, re.compile(r"(?:.* )?-(?:\w*[ip]|-extract |-pass-through )")),
    ({"python", "py", "pypy"}, re.compile(r"-m (?:tar|zip)file --?e\w* [^ ]+ ")),
    ({"pax"}, re.compile(r"(?:.* )?-\w*r")),
)
"""Other programs that extract what their words name, and how their words begin then."""
_CREATES = re.compile(r"-\w*[cruA]\w*$|--(?:create|append|update|catenate|concatenate)$")
_OWNERS = frozenset({"chmod", "chown", "chgrp", "setfacl", "chattr"})
_SYSTEM = re.compile(
    r"/(?:bin|boot|dev|etc|home|lib|lib32|lib64|mnt|opt|proc|root|run|sbin|srv|sys|usr|var"
    r"|Applications|Library|System|Users|[^/]*[*?\[][^/]*)(?:/|$)"
)
_DEVICE = re.compile(r"/dev/(?!null$|std(?:in|out|err)$|fd/|tty$|zero$|full$|u?random$)")
_RAW_DEVICE = re.compile(
    r"(?<!:)/+dev(?:/|/\.)+(?:[shv]d[a-z*?\[]|xvd|nvme|mmcblk|dm-|loop|mapper/|mem$|kmem$|port$)"
)
_SHOWN = (".git", ".gonogo", ".ssh", ".gnupg", ".aws", "shadow", "gshadow", "sudoers")
"""The names that a pattern may be meant for."""
_WILD = re.compile(r"\[[^\]]*\]|[*?]")
_MIN_PLAIN = 3
_SCRIPT = re.compile(r"-\w*e$|--expression$")
_PRIVATE_KEYS = re.compile(r"(?:^|/)\.(?:ssh|gnupg|aws)(?:/|$)|/etc/(?:shadow|sudoers|gshadow)")
_FORK_BOMB = re.compile(
    r"(?<![\w:.])([\w:.]{1,32})[ \t]{0,8}\([ \t]{0,8}\)\s{0,8}\{[^}]{0,200}?"
    r"\1\s{0,8}(?:\|\s{0,8}\1\s{0,8})?&"
)


def refusal(text: str, suspicion: Suspicion, workspace: str, home: str) -> str | None:
    """Why this command is denied, whatever the rules say; None if it is not.

    Args:
        workspace: Absolute path of the workspace.
        home: Absolute path of gonogo's own state; empty if it is unknown.
    """
    if _FORK_BOMB.search(text):
        return because("a fork bomb")
    seen = _seen(suspicion, workspace)
    own = home.rstrip("/")
    if own and any(own in form for word in words_of(seen) for form in (word, normpath(word))):
        return because("an agent may not read or change gonogo's own files")
    for target in seen.targets:
        if reason := _bad_target(target, workspace):
            return reason
    for argv in seen.commands:
        for check in _CHECKS:
            if reason := check(argv, workspace):
                return reason
    return None


def _seen(suspicion: Suspicion, workspace: str) -> Suspicion:
    """The suspicion, extended by names that patterns may match, and by paths after a `cd`."""
    commands = [*suspicion.commands]
    targets = [*suspicion.targets]
    for program, *words in suspicion.commands:
        shown = [_named(word) for word in words]
        if shown != words or not is_literal(program):
            commands += [(each, *shown) for each in _programs(program)]
    targets += [shown for shown in map(_named, targets) if shown not in targets]
    for folder in islice(_entered(suspicion.commands, workspace), _MAX_FOLDERS):
        commands += [_below(argv, folder) for argv in suspicion.commands]
        targets += [posixpath.join(folder, target) for target in suspicion.targets]
    for argv in suspicion.commands:
        if argv[:2] == ("git", "-C") and _is_protected("".join(argv[2:3]), workspace):
            commands.append(_below(("git", *argv[3:]), argv[2]))
    return Suspicion(tuple(commands), tuple(targets))


def _named(word: str) -> str:
    """The word, with each pattern replaced by a name from `_SHOWN` that it may match."""
    if is_literal(word):
        return word
    return "/".join(
        part if is_literal(part) else next((n for n in _SHOWN if _meets(n, part)), part)
        for part in word.split("/")
    )


def _meets(name: str, pattern: str) -> bool:
    # A pattern that matches nearly everything is not meant for this name.
    plain = len(_WILD.sub("", pattern)) >= _MIN_PLAIN
    return plain and pattern[0] in (name[0], "[") and fnmatchcase(name, pattern)


def _programs(name: str) -> Iterable[str]:
    """The known programs that a pattern in the place of the name may mean; else the name."""
    if is_literal(name):
        return (name,)
    return filter(lambda each: fnmatchcase(each, name), _PROGRAMS)


def _entered(commands: Iterable[Argv], workspace: str) -> Iterator[str]:
    """Folders to which a command changes, if they are outside the workspace or protected."""
    for argv in commands:
        names = ("-C", "--chdir") if argv[0] == "env" else ()
        for folder in argv[1:2] if argv[0] in ("cd", "pushd") else option_values(argv, names):
            if _is_out_of_bounds(folder, workspace):
                yield folder


def _below(argv: Argv, folder: str) -> Argv:
    """A command as if its paths were written below a folder; extractors get an option for it."""
    stays, kept = ("-", "~"), 2 if argv[0] in _HAS_VERB else 1
    words = (
        word if word.startswith(stays) else posixpath.join(folder, word) for word in argv[kept:]
    )
    here = _HERE.get(argv[0]) or _HERE.get(" ".join(argv[:2]))
    return (*argv[:kept], *words, *((here + folder,) if here else ()))


def _bad_target(target: str, workspace: str) -> str | None:
    if _DEVICE.match(target) or target.startswith("/dev/sd"):
        return because("writes to the device {target}", target=target)
    if not target.startswith("/dev/") and _is_system(target, workspace):
        return because("writes to the system file {target}", target=target)
    if _is_protected(target, workspace) and not target.isdigit():
        return because("writes to the protected {target}", target=target)
    return None


def _removal(argv: Argv, workspace: str) -> str | None:
    if argv[0] not in _REMOVERS:
        return None
    for operand in operands_of(argv):
        # If the variable is not set, only the root is left.
        if operand in (UNKNOWN + "/", UNKNOWN + "/*"):
            return because("removes everything if the variable is not set")
        if _is_root(operand, workspace) or _is_system(operand, workspace):
            return because("removes {operand}", operand=operand)
        if any(write_guard(path) == "deny" for path in _meant(operand, workspace)):
            return because("removes the protected {operand}", operand=operand)
    return None


def _overwriting(argv: Argv, workspace: str) -> str | None:
    operands = _overwriting_words(argv)
    for operand in operands if argv[0] in _OVERWRITERS else ():
        if _DEVICE.match(operand) and argv[0] != "cp":
            return because("writes to the device {target}", target=operand)
        is_last = operand == operands[-1]
        guarded = not is_last and _is_protected(operand, workspace)
        rooted = _is_root(operand, workspace) and not (is_last and normpath(operand) == ".")
        if argv[0] == "mv" and (guarded or rooted):
            return because("moves {operand}", operand=operand)
    for target in _copied(operands, workspace) if argv[0] in _OVERWRITERS else _filled(argv):
        if _DEVICE.match(target) and argv[0] != "cp":
            return because("writes to the device {target}", target=target)
        if _is_system(target, workspace) or _is_protected(target, workspace):
            return because("writes to the protected {target}", target=target)
    return None


def _overwriting_words(argv: Argv) -> tuple[str, ...]:
    """The words that name files on this machine; the last one is the target."""
    *sources, target = operands_of(argv) or ("",)
    if argv[0] == "rsync":
        # `--exclude .git` names files that are not copied.
        sources = [word for word in _own_words(argv[1:], _LEFT) if word in sources]
    far = _FAR.match(target) if argv[0] in _FAR_COPIERS else None
    if far and not LOOPBACK.search(far[0]):
        return ()
    return (*sources, target[far.end() :] if far else target)


_LEFT = re.compile(r"--(?:exc|inc|fil|comp|copy-d|link-d)[\w-]*$")


def _copied(operands: Sequence[str], workspace: str) -> Iterator[str]:
    """The target, and the files that the sources become in it, if it must be a folder."""
    *sources, target = operands or ("",)
    yield target
    is_folder = len(sources) > 1 or target.endswith("/") or normpath(target) == "."
    if is_folder and (not target.startswith(("/", "~")) or _in_workspace(target, workspace)):
        names = (source.rpartition("/")[2].rpartition(":")[2] for source in sources)
        yield from (posixpath.join(target, name) for name in names if name.strip("."))


def _filled(argv: Argv) -> Sequence[str]:
    """The files that a program writes because its words name them."""
    operands = operands_of(argv)
    if argv[0] == "dd":
        return [word.removeprefix("of=") for word in operands if word.startswith("of=")]
    if argv[0] in _PACKERS:
        return () if any(map(_ONLY_UNPACKS.match, argv[1:])) else operands
    if not _LOOKS.get(argv[0], frozenset()).isdisjoint(argv):
        return ()
    if argv[0] in _FILLED:
        return _changed(argv)[_FILLED[argv[0]]]
    return _edited(argv, operands)


def _changed(argv: Argv) -> tuple[str, ...]:
    """The operands, without a reference file whose time, size or mode is only copied."""
    reference = _REFERENCES.get(argv[0])
    # If the option appears twice, the second may be the value of the first.
    if reference is None or "--" in argv or sum(map(bool, map(reference.match, argv))) != 1:
        return operands_of(argv)
    return tuple(_own_words(argv[1:], reference))


def _edited(argv: Argv, operands: Sequence[str]) -> Sequence[str]:
    letter = _REWRITERS.get(argv[0])
    if argv[0] not in _EDITORS and (letter in argv or any(map(_REWRITES.match, argv))):
        return tuple(_own_words(argv[1:], _GOES_BY))
    in_place = argv[0] in _EDITORS and any(re.match(r"-\w*i|--in-place", a) for a in argv)
    if not in_place and not (argv[0] in _AWKS and "inplace" in operands):
        return ()
    scripts = {word for option, word in pairwise(argv) if _SCRIPT.match(option)}
    return [word for word in operands if word not in (scripts or operands[:1])]


def _meant(operand: str, workspace: str) -> Iterator[str]:
    """A path in the workspace, and protected names that it matches if it is a pattern."""
    path = _inside(operand, workspace)
    yield path
    yield from (name for name in (".git", ".gonogo") if fnmatchcase(name, path))


def _told_places(argv: Argv, workspace: str) -> str | None:
    """Why a command writes to a protected place that an option or code names; else None."""
    names = _INTO.get(argv[0], ()) + _INTO.get(" ".join(argv[:2]), ())
    is_tar = argv[0] in _TARS or argv[0] == "jar"
    places = _tar_places(argv) if is_tar else option_values(argv, names)
    places = (*places, *_members(argv))
    codes = [code for programs, code in _WRITTEN if argv[0] in programs]
    named = (name for code in codes for word in argv[1:] for name in code.findall(word))
    for place in (*places, *named):
        is_device = place.startswith("/dev/") and not _DEVICE.match(place)
        far = _normal(place) == "/" or (_is_system(place, workspace) and not is_device)
        if far or _is_protected(place, workspace):
            return because("writes to the protected {target}", target=place)
    # Only protected places are denied here: not every program means by the option what most do.
    outputs = (place for number, place in _outputs(argv) if not _is_known(argv, number))
    heads = (" ".join((family(argv[0]), *argv[1:length])) for length in (1, 3))
    works = (_WORKS_IN.get(argv[0], ()), *(_WORKS_IN.get(head, ()) for head in heads))
    told = option_values(argv, tuple(chain.from_iterable(works)))
    for place in (*outputs, *_made(argv), *filter(_is_named, told)):
        if _is_protected(place, workspace):
            return because("writes to the protected {target}", target=place)
    return None


def _set_places(argv: Argv, workspace: str) -> str | None:
    """Why a command writes to a protected place that a variable names; else None."""
    told = option_values(argv, ("--git-dir",) if argv[0] == "git" else ())
    settings = (
        argv[1:] if argv[0] in ("env", "export", "=") else [f"GIT_DIR={value}" for value in told]
    )
    for found in filter(None, map(_PLACED.fullmatch, settings)):
        is_own = found["own"] and _GIT_OWN.fullmatch(_normal(found["value"]))
        if not is_own and _is_named(found["value"]) and _is_protected(found["value"], workspace):
            return because("writes to the protected {target}", target=found["value"])
    return None


def _is_named(path: str) -> bool:
    """Whether a path is not just the root."""
    return _normal(path) != "/"


def _outputs(argv: Argv) -> Iterator[tuple[int, str]]:
    """The positions of options whose names mean output, and the paths that they name."""
    is_mode = argv[0] in _MODES or (argv[0] == "git" and not _GIT_MODES.isdisjoint(argv[1:2]))
    # Words after another command that this one starts belong to that command.
    for number, word in enumerate(argv[: begins_at(argv) or len(here(argv))]):
        if word.startswith(_INDICATOR) or (is_mode and word.startswith("-o")):
            continue
        if number and (found := _OUTPUT.fullmatch(word)):
            following = (*argv, "")[number + 1]
            yield (
                number,
                found["glued"] or (following if found["value"] is None else found["value"]),
            )


def _made(argv: Argv) -> Iterator[str]:
    """The places of repositories, archives, copies and so on that a word names."""
    if not _LOOKS.get(argv[0], frozenset()).isdisjoint(argv):
        return
    trees = option_values(argv, ("--work-tree",) if argv[0] == "git" else ())
    yield from (f"{tree}/x" for tree in trees)
    for length in (1, 2, 3):
        made = _MADE.get(" ".join((family(argv[0]), *argv[1:length])))
        if made is not None:
            yield from tuple(_own_words(argv[length:], _MADE_VALUED))[made]


def _is_known(argv: Argv, number: int) -> bool:
    """Whether the option belongs to a program that only reads, even one that others start."""
    option, program = argv[number].partition("=")[0], family(argv[0])
    behind = (n + 1 for n, word in enumerate(argv) if starts_others(word, program))
    starts = (start for start in (0, *started_at(argv[:number]), *behind) if start < number)
    found = (known([literal(word) for word in argv[start:]]) for start in starts)
    return any(each and option in each.table.options and not each.table.runs_code for each in found)


def _tar_places(argv: Argv) -> Iterator[str]:
    """The places where tar puts extracted files, or the archive that it makes."""
    first = (*argv, "")[1]
    is_bundle = not first.startswith("-")
    options = (f"-{first}" if is_bundle else first, *argv[2:])
    names: tuple[str, ...] = ()
    if any(map(_EXTRACTS.match, options)):
        names = ("-C", "--directory", "--cd", "--one-top-level")
        for renamed in option_values(argv, ("--transform", "--xform")):
            yield "".join(re.split(re.escape(renamed[1:2]) or "$", renamed)[2:3]).lstrip("/")
    elif any(map(_CREATES.match, options)):
        names = ("-f", "--file")
    yield from option_values(argv, names)
    valued = _JAR_LETTERS if argv[0] == "jar" else _VALUED_LETTERS
    letters = valued.findall(first) if is_bundle else []
    yield from (
        value for letter, value in zip(letters, argv[2:], strict=False) if f"-{letter}" in names
    )


def _members(argv: Argv) -> Iterator[str]:
    """The members that a program is told to extract from an archive into files.

    A word that may be the value of an option is not a member, but an archive or an exclusion.
    """
    if argv[0] in _TARS:
        yield from _tar_members(argv)
    elif argv[0] == "unzip":
        yield from _unzip_members(argv)
    else:
        yield from _taken_out(argv)


def _taken_out(argv: Argv) -> Iterator[str]:
    told = " ".join(argv[1:])
    for programs, begun in _TAKES_OUT:
        found = begun.match(told) if family(argv[0]) in programs else None
        if found:
            yield from told[found.end() :].split(" ")


def _tar_members(argv: Argv) -> Iterator[str]:
    first, rest = (*argv, "")[1], argv[2:]
    is_bundle = not first.startswith("-")
    options = (f"-{first}" if is_bundle else first, *takewhile(lambda word: word != "--", rest))
    if any(map(_EXTRACTS.match, options)) and not any(map(_TO_STDOUT.match, options)):
        values = len(_VALUED_LETTERS.findall(first)) if is_bundle else 0
        words = rest[values:] if is_bundle else argv[1:]
        yield from (word.lstrip("/") for word in _own_words(words, _TAR_VALUED))


_TAR_VALUED = re.compile(r"-\w*[bCfFgHIKLNTVX]$|--(?:fi|di|cd|exc|li|ad|sta|ind|ne)[\w-]*$")


def _unzip_members(argv: Argv) -> Iterator[str]:
    first, *rest = (*argv[1:], "")
    options = takewhile(lambda word: word.startswith("-"), argv[1:])
    if not any(map(_UNZIPS_NOTHING.match, options)):
        words = takewhile(lambda word: word != "-x", rest if first.startswith("-") else argv[1:])
        yield from islice(_own_words(words, re.compile("-d$")), 1, None)


def _own_words(words: Iterable[str], valued: re.Pattern[str]) -> Iterator[str]:
    """The words that are neither options nor values of options in `valued`."""
    for before, word in pairwise(("", *words)):
        if word and not word.startswith("-") and not valued.match(before):
            yield word


def _ownership(argv: Argv, workspace: str) -> str | None:
    if argv[0] not in _OWNERS:
        return None
    for operand in _changed(argv):
        far = _is_root(operand, workspace) or _is_system(operand, workspace)
        if far or _is_protected(operand, workspace):
            return because("changes the mode or owner of {operand}", operand=operand)
    return None


def _wide_find(argv: Argv, workspace: str) -> str | None:
    acts = FIND_ACTS & set(argv)
    destroys = "-delete" in acts or _REMOVERS & set(argv)
    if argv[0] != "find" or not acts or not destroys:
        return None
    words = re.sub(r"^(?:-[HLP] |-O\d* |-D \S+ |-- )+", "", " ".join(argv[1:])).split(" ")
    for word in takewhile(lambda word: not word.startswith(("-", "(", "!")), words):
        if _is_out_of_bounds(word, workspace):
            return because("deletes files below {word}", word=word)
    return None


def _devices(argv: Argv, workspace: str) -> str | None:
    del workspace
    for word in argv[1:]:
        if _RAW_DEVICE.search(word) and argv[0] not in READS_NAMES_ONLY:
            return because("touches the raw device {word}", word=word)
    return None


def _keys(argv: Argv, workspace: str) -> str | None:
    if argv[0] in ("echo", "printf"):
        return None
    for word in argv[1:]:
        for path in (word, *re.split(r"[=@]|^-[a-zA-Z]|file://", word)[1:]):
            far = path.startswith(("/", "~", "../")) and not _in_workspace(path, workspace)
            if far and _PRIVATE_KEYS.search(path):
                return because("touches the keys in {word}", word=word)
    return None


_CHECKS: Sequence[Callable[[Argv, str], str | None]] = (
    _removal, _overwriting, _told_places, _set_places, _ownership, _wide_find, ends_processes,
    changes_host, _devices, _keys, changes_settings, starts_by_settings, tampers,
)  # fmt: skip


_MAX_FOLDERS = 4
_PROGRAMS = sorted(
    HOST_PROGRAMS | _INTO.keys() | _FILLED.keys() | _AWKS | _SEDS | _TARS | _REMOVERS | _OVERWRITERS
    | _PACKERS | _OWNERS | DATABASES | CLIENTS | SHELLS | {"perl", "gonogo", "find", "git"}
)  # fmt: skip


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
    if bare.startswith("../"):
        # Beside the workspace a person may decide.
        whole = normpath(posixpath.join(workspace, bare))
        bare = bare if whole.split("/")[1] == workspace.split("/")[1] else whole
    return bool(_SYSTEM.match(bare)) or (bare.startswith("~/.") and bare.count("/") == 1)


def _is_out_of_bounds(path: str, workspace: str) -> bool:
    """Whether a path leads out of the workspace, or to what is protected in it."""
    far = path.startswith(("/", "~", "..")) and not _in_workspace(path, workspace)
    return far or _is_protected(path, workspace)


def _is_protected(path: str, workspace: str) -> bool:
    return write_guard(_inside(path, workspace)) == "deny"


def _in_workspace(operand: str, workspace: str) -> bool:
    return _normal(operand).startswith(workspace.rstrip("/") + "/")


def _normal(operand: str) -> str:
    without_glob = re.sub(r"(?:^|(?<=/))(?:\*|\.\*)$", "", operand)
    if operand.startswith("/"):
        return "/" + posixpath.normpath("/" + without_glob).lstrip("/")
    return posixpath.normpath(without_glob) if without_glob else ""


def _inside(operand: str, workspace: str) -> str:
    """A path relative to the workspace; for the workspace itself, a name in it."""
    path = _normal(operand).removeprefix(workspace.rstrip("/") + "/")
    return "x" if path in ("", ".") else path


def words_of(suspicion: Suspicion) -> Iterable[str]:
    """Every word that may name a file: arguments and targets of redirections."""
    yield from suspicion.targets
    for argv in suspicion.commands:
        yield from argv[1:]
