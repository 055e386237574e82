"""Paths of a workspace: which need more than the usual care, and the globs that speak of them.

They are judged by their names alone, by one list, so that file tools, commands, the sandbox and
the policy agree. Names are compared without regard to case, at any depth, and whether or not the
file exists: a start-up file that an agent creates is run as surely as one that it edits.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase, translate
from functools import cache, lru_cache
from itertools import pairwise
from typing import Literal

from gonogo.domain.errors import because
from gonogo.domain.text_safety import mixed_letters, undrawn

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
_RUN_BY_OTHERS = tuple(
    (
        # Repositories, their hooks, and what a folder switches on when one enters it.
        """.gitmodules .gitattributes .lfsconfig applypatch-msg pre-applypatch post-applypatch
        pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit pre-rebase
        post-checkout post-merge pre-push pre-receive post-receive post-update post-rewrite
        sendemail-validate pre-auto-gc fsmonitor-watchman lefthook*.yml lefthook*.yaml
        lefthook*.toml lefthook*.json .lefthook*.yml .lefthook*.yaml .lefthook*.toml
        .lefthook*.json .pre-commit-config.y*ml .pre-commit-hooks.y*ml .overcommit.y*ml
        .simple-git-hooks.* simple-git-hooks.* captainhook.json grumphp.y*ml* .rusty-hook.toml
        .envrc .autoenv* .tool-versions .prototools rust-toolchain* mise.toml .mise.toml
        mise.*.toml .mise.*.toml .rtx.toml pixi.toml devbox.json devenv.* *.nix config.fish
        config.nu .pam_environment .xsession crontab *.crontab *.service *.timer *.desktop"""
        # Builders, task runners, and what starts several programs.
        """ makefile makefile.* gnumakefile bsdmakefile *.mk justfile .justfile *.just taskfile
        taskfile.y*ml taskfile.*.y*ml rakefile rakefile.* *.rake gemfile gems.rb *.gemspec
        podfile *.podspec thorfile guardfile capfile dangerfile fastfile brewfile berksfile
        puppetfile cakefile jakefile* gulpfile.* gruntfile.* maskfile.md vagrantfile
        vagrantfile.* procfile procfile.* tiltfile earthfile snakefile sconstruct sconscript
        wscript tupfile nodemon.json modd.conf air.toml .air.toml bacon.toml .bacon.toml
        mprocs.y*ml process-compose*.y*ml poe_tasks.* dodo.py fabfile.py duties.py pavement.py
        noxfile.py tasks.py magefile.go gradlew gradlew.* *.gradle *.gradle.kts
        gradle.properties gradle-wrapper.* mvnw mvnw.* pom.xml maven-wrapper.* build.xml
        build.sbt build.sc build.mill *.csproj *.fsproj *.vbproj *.vcxproj *.props *.targets
        nuget.config *.pbxproj *.xcscheme package.swift cmakelists.txt *.cmake
        cmake*presets.json meson.build conanfile.* build.rs build.zig *.nimble *.nims nim.cfg
        *.rockspec dub.json dub.sdl shard.yml mix.exs .*.exs rebar.config* project.clj deps.edn
        bb.edn shadow-cljs.edn build.bazel workspace.bazel module.bazel *.bzl buck .buckconfig
        pants.toml setup.hs setup.lhs makefile.pl build.pl cpanfile dist.ini makefile.toml
        buf.gen*.y*ml .goreleaser.y*ml binding.gyp"""
        # Containers, and what others deploy with.
        """ dockerfile dockerfile.* dockerfile-* *.dockerfile containerfile containerfile.*
        docker-compose*.y*ml docker-stack*.y*ml compose.y*ml compose.*.y*ml compose-*.y*ml
        docker-bake*.hcl docker-bake*.json .devcontainer.json devfile.y*ml .devfile.y*ml
        skaffold.y*ml devspace.y*ml garden.y*ml okteto.y*ml helmfile*.y*ml terragrunt.hcl
        ansible.cfg serverless.* cdk.json pulumi*.y*ml firebase.json wrangler.* netlify.toml
        vercel.json now.json fly.toml render.y*ml heroku.yml railway.* amplify.yml"""
        # CI.
        """ jenkinsfile jenkinsfile.* .gitlab-ci*.y*ml .travis.y*ml azure-pipelines*.y*ml
        .azure-pipelines*.y*ml .drone.* bitbucket-pipelines.y*ml .woodpecker*.y*ml .cirrus.*
        appveyor.y*ml .appveyor.y*ml buildspec*.y*ml appspec.y*ml cloudbuild*.y*ml
        codemagic.y*ml bitrise.y*ml codefresh*.y*ml wercker.y*ml shippable.y*ml bamboo.y*ml
        .build.y*ml .buildkite.y*ml screwdriver.y*ml .prow.y*ml .gitpod.y*ml .gitpod.dockerfile
        .replit dagger.json renovate.json*"""
        # What languages, their packages and their tools load by themselves.
        """ conftest.py sitecustomize.py usercustomize.py setup.py hatch_build.py pdm_build.py
        tox.ini pytest.ini .pytest.ini mypy.ini .mypy.ini pylintrc .flake8 .gitlint .sqlfluff
        alembic.ini dbt_project.y*ml gunicorn.conf.py uwsgi.ini *.pth package.json composer.json
        deno.json deno.jsonc bunfig.toml pnpm-workspace.yaml .pnpmfile.* pnpmfile.* .pnp.*
        lerna.json nx.json project.json turbo.json rush.json angular.json tslint.json jest.*
        vitest.* webpack.* gatsby-*.js gatsby-*.ts knexfile.* plopfile.* cypress.json .eslintrc
        .prettierrc *.config.js *.config.cjs *.config.mjs *.config.ts *.config.cts *.config.mts
        *.config.json *.conf.js *.conf.cjs *.conf.mjs *.conf.ts .*rc .*rc.* .ghci .ocamlinit
        .rprofile .renviron .erlang .guile .gnuplot .perldb .busted .rspec* .rubocop.y*ml
        .simplecov config.ru phpunit.xml* .php-cs-fixer*.php phpstan*.neon* psalm.xml*
        rector.php ecs.php .user.ini .htaccess web.config .golangci.*"""
        # Editors and agents.
        """ *.code-workspace *.sublime-project *.sublime-workspace .project .classpath .cproject
        .kateproject* .ycm_extra_conf.py .clangd .dir-locals-2.el .emacs-project .local.vimrc
        .vimrc.local _vimrc _exrc .neoconf.json .luarc.json* .aider*.yml opencode.json*
        .crush.json crush.json .roomodes .kilocodemodes"""
    ).split()
)
"""Globs of one name each, in lower case: builds, tests, hooks, CI and editors run them unasked."""
_RUN_BY_OTHERS_DIRECTORIES = frozenset(
    """.github .gitlab .circleci .buildkite .woodpecker .semaphore .teamcity .tekton .builds
    .gitea .forgejo .harness .azuredevops .azure-pipelines bamboo-specs .ci .husky .githooks
    .git-hooks .hooks .lefthook .lefthook-local .cargo-husky .devcontainer .codesandbox .devenv
    .direnv .config .cargo .mise .mise-tasks mise-tasks .mvn .yarn .bundle .terraform
    .storybook .vs .nova .theia .settings .externaltoolbuilders .helix .ebextensions .platform
    .profile.d .s2i rakelib magefiles fastlane .bin .clinerules .roorules .opencode .kilocode
    .kiro .trae .junie .qwen .goose .amp .augment .openhands .crush .cody .copilot
    .agents""".split()
)
"""Folders of such files."""
_PACKAGES = frozenset(
    """node_modules .venv venv site-packages dist-packages __pypackages__ __pycache__ .tox .nox
    .pixi .eggs .gradle""".split()
)
"""Folders that tools fill in the course of their work."""
_ASKING_DIRECTORIES = _RUN_BY_OTHERS_DIRECTORIES | _PACKAGES
_PROGRAMS = frozenset(
    {(folder, below) for folder in (".venv", "venv", "env") for below in ("bin", "scripts")}
    | {("node_modules", ".bin"), ("vendor", "bin")}
)
"""Folders of installed programs, each with the folder above it: shells and editors start these."""
PROGRAM_FOLDERS = frozenset(below for _, below in _PROGRAMS)
"""Their names alone."""
_INSTRUCTIONS = frozenset(
    """agents.md agent.md claude.md claude.local.md gemini.md copilot-instructions.md .cursorrules
    .windsurfrules .clinerules .roorules .goosehints .rules skill.md agents.override.md qwen.md
    crush.md warp.md""".split()
)

SECRET_DIRECTORIES = tuple(
    """.ssh .gnupg .aws .azure .gcloud .kube .docker .gonogo .password-store secrets
    .secrets""".split()
)
"""Folders whose every file is a secret."""
SECRET_NAMES = tuple(
    """.env .env.* .env-* .env_* *.env .envrc .netrc _netrc .pypirc .npmrc .yarnrc.yml .pgpass
    pgpass.conf .my.cnf .dockercfg .htpasswd .git-credentials .vault-token .terraformrc .s3cfg .boto
    *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk *.asc *.gpg *.ovpn *.tfstate *.tfvars
    id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk
    credentials credentials.json credentials.toml credentials.yml credentials.yaml credentials.csv
    secrets.json secrets.toml secrets.yml secrets.yaml secrets.ini secrets.txt
    secret.json secret.toml secret.yml secret.yaml secret.txt
    token.json token.toml token.yml token.yaml token.txt
    service-account*.json service_account*.json client_secret*.json auth.json
    kubeconfig *kubeconfig kubeconfig.json kubeconfig.yml kubeconfig.yaml *_history""".split()
)
"""Globs of one name each, in lower case."""
COPIES = (
    *("~", "#", ".bak", ".backup", ".old", ".orig", ".save", ".swp", ".swo", ".swn"),
    *("_bak", "-bak", "_old", "-old"),
)
"""How the names of copies end that editors and people leave beside a file."""
_PACKED = re.compile(r"\.(?:7z|br|bz2|gz|lz4|rar|tar|t[bgx]z2?|xz|zip|zst)$")
"""Archives and packed files: who walks meets no text in them."""
_MARKED = (
    # One for each turn, or each day; of a backup, before its `~`.
    re.compile(r"\.~?[0-9][0-9-]*$"),
    _PACKED,
    # One of several: `.env2`, `credentials2.json`.
    re.compile(r"(?<=[a-z])[0-9]{1,3}(?=$|\.[^.]+$)"),
)
"""What else a name has of which there is more than one."""
_COPY = "copy|kopie|copie|copia|cópia|kopia|копия"
"""A copy, in the languages in which file managers speak."""
_MANAGED = re.compile(
    rf"^(?:{_COPY}) (?:\([0-9]+\) )?(?:of |von |de |di )?"
    rf"|(?: [-–—])? (?:\(?(?:{_COPY})(?: [0-9]+)?\)?|\(?[0-9]+\)?)(?=$|\.[^.]+$)"
)
"""What file managers put before the name of a copy, behind it, or before its ending."""
_LITERAL = tuple(name for name in SECRET_NAMES if not name.startswith("*"))
_ENDED = tuple(name.rsplit(".", 1) for name in _LITERAL if re.search(r"\w\.\w+$", name))
_MARKS = (" copy", " (copy)", " - copy", " 2", " (2)", ".1", ".~1~")
SECRET_GLOBS = (
    *(name + behind for name in SECRET_NAMES for behind in ("", *COPIES, *_MARKS)),
    *(f"{stem}{mark}.{end}" for stem, end in _ENDED for mark in _MARKS if mark[0] == " "),
    *(f"#{name}#" for name in _LITERAL),
    *(f"copy of {name}" for name in _LITERAL if re.match(r"\w[^*]*$", name)),
)
"""Globs of the names of secrets and of their copies as they are usual."""
_KIN = (
    *(".env*", "[._][npty]*rc*", "*pgpass*", ".[dms]*c[fn][fg]", ".[bghv]*[dnos]"),
    *("*.[eot][fnv][psv]*", "*.[agp][1efps][2cgkmx]", "*.[jk][dek][bsy]*", "id_*[9ak]"),
    *("credentials", "credentials.[cjty]*", "*secret*.[ijty]*", "service?account*.json"),
    *("*kubeconfig", "kubeconfig.[jy][ams][lmo]*", "token.[jty][amosx][lmot]*"),
    *("auth.json", "*_history"),
)
"""Globs that match each name of a secret together with some like it."""
_KIN_BEHIND = (
    *("[._]*", "pgpass*", "id_*", "credentials.[cjty]*", "secret.[ijty]*", "secret[ s]*.[ijty]*"),
    *("service?account*.json*", "client_secret*.json*", "kubeconfig*", "auth[ .]*json*"),
    "token[ .][-–—(ck0-9jty]*[a-zа-я0-9)]*",
    *("credentials", "credentials[ ~#]*", "credentials.[bos][alrw][cdiknopv]*"),
)
"""The same, with whatever may stand behind."""
_NUMBERED = ("secret", "secrets", "token", "auth", "pgpass", ".my", ".yarnrc")
"""What a file manager's mark may stand behind, with an ending after it."""
SECRET_FORMS = (
    (SECRET_NAMES,),
    (
        _KIN,
        ("[~#0-9]*", ".[bos][alrw][cdiknopv]*", "[-_][bo][al][dk]", " [-–—(ckк0-9]*", ".[~0-9]*"),
    ),
    (("[ckк]*[yfneiaя] ", "#", "."), _KIN_BEHIND),
    (
        _NUMBERED,
        (" [-–—(ckк]*[yeaя)0-9].[cijty]*", " [0-9]*.[cijty]*", "[0-9]*.[ijty][amnosx][ilmot]*"),
    ),
)
"""Globs of the names of secrets and of all their copies, in parts: one of each belongs together.

Of copies a few more are matched, such as `.bashrc~`, so that globs are few: whoever walks tries
each on each name.
"""


@cache
def _any_of(globs: tuple[str, ...]) -> re.Pattern[str]:
    # Not with the module: nearly every command imports it, and few look at a path.
    return re.compile("|".join(map(translate, globs)))


_SECRET_FOLDERS = frozenset(SECRET_DIRECTORIES)
_NO_SECRET = tuple(
    """*.example *.sample *.template *.dist *.pub *.d.ts .env.defaults .env.schema
    .env[-_]example .env[-_]sample .env[-_]template
    example.env sample.env template.env *.example.env *.sample.env *.template.env""".split()
)
_SEPARATOR = re.compile(r"[/\\]")


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
    if directories & _ASKING_DIRECTORIES or last in _INSTRUCTIONS:
        return "ask"
    is_program = not _PROGRAMS.isdisjoint(pairwise(names))
    is_run = is_program or _any_of(_RUN_BY_OTHERS).match(last)
    return "ask" if is_run or _holds_secrets(path, names) else None


def command_guard(path: str) -> Guard | None:
    """Whether a command that makes or changes `path` does more than its work.

    As `write_guard`, but for what tools install: no agent writes that by hand, and commands do it
    all the time. Of it only what is denied counts, and the programs.
    """
    guard = write_guard(path)
    return None if guard == "ask" and installed(path) == "package" else guard


def installed(path: str) -> Literal["package", "program"] | None:
    """Whether `path` is, or belongs to, what tools install.

    Returns:
        `program` for a folder of programs that people and editors start, and for what lies in it;
        not for those that packages keep for themselves.
    """
    names = _names(path)
    for n, name in enumerate(names):
        if tuple(names[n : n + 2]) in _PROGRAMS:
            return "program"
        if name in _PACKAGES:
            return "package"
    return None


def is_secret(path: str) -> bool:
    """Whether reading `path` would show credentials to a model and to logs."""
    names = _names(path)
    return bool(names) and _holds_secrets(path, names)


def _holds_secrets(path: str, names: list[str]) -> bool:
    if not _SECRET_FOLDERS.isdisjoint(names):
        return True
    if ".git" in names and names[-1].startswith("config"):
        return True
    # `a:b.pem` is a file of that name, or a stream of the file `a`.
    return any(map(_is_secret_name, {names[-1], _SEPARATOR.split(path)[-1].casefold()}))


def _is_secret_name(name: str) -> bool:
    """Whether a name is a secret's, or that of a copy, and not that of an example's copy."""
    originals = _originals(name)
    whole = {name, *originals}
    if any(map(_any_of(_NO_SECRET).match, whole)):
        return False
    is_packed = not _SECRET_FOLDERS.isdisjoint(originals) and any(map(_PACKED.search, whole))
    return is_packed or any(map(_any_of(SECRET_NAMES).match, whole))


def _originals(name: str) -> set[str]:
    """The names of the files that this one may be a copy of."""
    ending = next((ending for ending in COPIES if name.endswith(ending)), "")
    shorter = name.removesuffix(ending) if ending else _MANAGED.sub("", name, count=1)
    without = (mark.sub("", shorter, count=1) for mark in _MARKED)
    original = next((plain for plain in without if plain != shorter), shorter)
    if original == name:
        return set()
    # Vim puts a dot before the name of a swap file, and Emacs a `#` before that of its own.
    bare = {original.removeprefix("."), original.removeprefix("#")}
    return {shorter, original, *bare, *_originals(original)}


def _names(path: str) -> list[str]:
    """The path's names as the most forgiving file system would read them."""
    names: list[str] = []
    for raw in _SEPARATOR.split(path):
        name = _plain(raw)
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return names


@lru_cache(maxsize=65_536)
def folded(name: str) -> str:
    """A name, or a glob of names, as the most forgiving file system compares it."""
    if name.isascii():
        return name.lower()
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
    plain = visible.split(":", 1)[0].strip().rstrip(". ") or visible
    short = _SHORT.fullmatch(plain)
    return _lengthened(short[1], short[2] or "") or plain if short else plain


def _lengthened(stem: str, end: str) -> str | None:
    """A name that has this short form and needs care."""
    if stem == "env":
        return ".env"
    return _BY_SHORT.get((stem, end)) or next(
        (name for glob, name in _BY_SHORT_GLOB if fnmatchcase(f"{stem}.{end}", glob)), None
    )


_SHORT = re.compile(r"([^~.]{1,6})~[0-9]+(?:\.([^.]{1,3}))?")
"""FAT and NTFS give `GITHUB~1` to `.github`, and open it by that name too."""


def _short(name: str) -> tuple[str, str]:
    """The beginning and the end that a name's short form keeps; of a glob, what is sure of them."""
    stem, _, end = name.lstrip(".").rpartition(".")
    if not stem:
        stem, end = end, "*" if "*" in end else ""
    return _begun(stem.replace(".", ""), 6), _begun(end, 3)


def _begun(part: str, most: int) -> str:
    known, wild, _ = part.partition("*")
    return known[:most] + "*" if wild and len(known) < most else known[:most]


_BY_SHORT = {
    _short(name): name
    for name in (
        *_INSTRUCTIONS, *_RUN_BY_OTHERS, *_ASKING_DIRECTORIES,
        *(name.replace("*", "") for name in SECRET_NAMES if not name.startswith("*")),
        *SECRET_DIRECTORIES,
        *_STARTUP_FILES, *_TOOL_DIRECTORIES, *_STATE_DIRECTORIES,
    )
    if "*" not in name
}  # fmt: skip
"""The last ones decide where two have the same short form: they are denied."""
_BY_SHORT_GLOB = tuple(
    (".".join(_short(glob)), glob.replace("*", "x"))
    for glob in (*SECRET_NAMES, *_RUN_BY_OTHERS)
    if re.search(r"\*\.\w{4}|\*\.\w+\.|\w\*", glob)
)
"""Not those whose end is short and stays as it is, nor those of which nothing would be left."""


# Globs of paths, relative to the workspace: `*` within a name, `**` across folders.


def covers(globs: Iterable[str], path: str) -> bool:
    """Whether one of the globs matches the whole path.

    A glob without a wildcard also covers what lies below it: `src` is `src` and `src/**`.
    """
    return any(_compiled(glob)(path) for glob in globs)


_WILDCARD = re.compile(r"[*?\[]")


def is_literal(glob: str) -> bool:
    """Whether the glob names one path."""
    return _WILDCARD.search(glob) is None


@lru_cache(maxsize=1_024)
def _compiled(glob: str) -> Callable[[str], object]:
    plain = glob.removeprefix("./").rstrip("/")
    if plain in ("", "."):
        return _anything
    tokens = re.findall(r"\*\*/?|[\s\S]", plain)
    if sum(token.startswith("*") for token in tokens) > _BACKTRACKED:
        return _Steps(tokens).match
    below = "(?:/[\\s\\S]*)?" if is_literal(plain) else ""
    return re.compile("".join(map(_translated, tokens)) + below).fullmatch


_BACKTRACKED = 2
"""Wildcards of a glob that a regular expression may try out one after the other."""


def _anything(path: str) -> bool:
    del path
    return True


class _Steps:
    """A glob of many wildcards, matched in one pass: each bit is a token that may be next."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self._takes: dict[str, int] = {}
        """The tokens that take a character, by it."""
        self._one = self._name = self._any = self._folders = 0
        bit = 1
        for token in tokens:
            match token:
                case "*":
                    self._name |= bit
                case "**":
                    self._any |= bit
                case "?":
                    self._one |= bit
                case "**/":
                    # No folder at all, or what ends with a slash: a place before it and one in it.
                    self._folders |= bit
                    bit <<= 1
                    self._takes["/"] = self._takes.get("/", 0) | bit
                case _:
                    self._takes[token] = self._takes.get(token, 0) | bit
            bit <<= 1
        self._end = bit

    def match(self, path: str) -> bool:
        """Whether the whole path is matched."""
        inside, live = self._folders << 1, self._reached(1)
        for character in path:
            if character == "/":
                stay, takes = self._any | inside, 0
            else:
                stay, takes = self._any | inside | self._name, self._one
            taken = live & (takes | self._takes.get(character, 0))
            live = self._reached((live & stay) | (taken << 1))
        return bool(live & self._end)

    def _reached(self, live: int) -> int:
        """Those places, and what can be reached from them without a character."""
        while True:
            over = (live & (self._name | self._any | self._folders)) << 1
            more = live | over | ((live & self._folders) << 2)
            if more == live:
                return live
            live = more


def _translated(token: str) -> str:
    match token:
        case "**/":
            return r"(?:[\s\S]*/)?"
        case "**":
            return r"[\s\S]*"
        case "*":
            return r"[^/]*"
        case "?":
            return r"[^/]"
        case _:
            return re.escape(token)


# Characters that show a person something other than what a program gets.

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_SPOOFING = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_DOUBTFUL = frozenset({"Cn", "Zs"})


def spoofing(text: str) -> str | None:
    """What hides or reorders text: controls, bidi marks, zero-width and other invisible signs.

    Returns:
        The first such character as `U+202E`, or None.
    """
    return _first(text, _SPOOFING, _INVISIBLE.__contains__)


def doubtful(text: str) -> str | None:
    """Blanks that no shell splits at, what is not drawn, code points without a meaning yet."""
    return _first(text, _DOUBTFUL, undrawn)


def misread(field: str, written: str) -> str | None:
    """What in a field of a rule is read as something else than it says, if anything is."""
    said = spoofing(written) or (None if field == "reason" else doubtful(written))
    if said:
        return because("{field}: it contains {said}, which is invisible", field=field, said=said)
    # Files and sentences may mix letters; what runs is never meant to.
    if field in ("tool", "agent", "command") and (mixed := mixed_letters(written)):
        return because("{field}: it reads as another word: {mixed}", field=field, mixed=mixed)
    return None


def _first(text: str, categories: frozenset[str], odd: Callable[[str], bool]) -> str | None:
    if text.isascii() and text.isprintable():
        return None
    for character in text:
        if character in "\t\n" or (character.isascii() and character.isprintable()):
            continue
        if unicodedata.category(character) in categories or odd(character):
            return f"U+{ord(character):04X}"
    return None
