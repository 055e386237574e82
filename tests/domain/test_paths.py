"""Protected and secret paths are known by their names, at any depth, in any spelling."""

import json
import re
from fnmatch import fnmatchcase, translate
from itertools import product
from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.paths import (
    COPIES,
    PROGRAM_FOLDERS,
    SECRET_FORMS,
    SECRET_GLOBS,
    SECRET_NAMES,
    command_guard,
    installed,
    is_secret,
    write_guard,
)

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "cases/paths.jsonl").read_text("utf-8").splitlines()
]
PROTECTED = [case for case in CASES if case["category"] == "protected"]


@pytest.mark.parametrize("case", PROTECTED, ids=lambda case: case["id"])
def test_the_cases_of_protected_paths_hold(case):
    if case["tool"] == "read_file":
        found = "ask" if is_secret(case["path"]) else "allow"
    else:
        found = write_guard(case["path"]) or "allow"
    assert found in (case["expect"], *case["also_ok"])
    assert found != "allow"


@pytest.mark.parametrize(
    "path",
    [
        "src/app.py", "README.md", "docs/secrets.md", "src/secrets.py", "...", "..data/x",
        "a..b.txt", "~backup", "C:relative.txt", ".gitignore", ".github.md", "env.py",
        "tests/test_auth.py", "pyproject.toml", "a/.../b", "Cargo.toml", "requirements.txt",
        "tsconfig.json", "src/config.ts", "docs/dockerfiles.md", "build", "bin/x",
        "env/lib/x", "vendor/x", "src/hooks/use.ts", "compose/a.py", "a~b", "x.nixos", "src/arc.py",
    ],
)  # fmt: skip
def test_ordinary_files_are_free(path):
    assert write_guard(path) is None
    assert not is_secret(path)


@pytest.mark.parametrize(
    "path",
    [
        ".git", ".GIT/config", "a/b/.git/hooks/x", ".git ./config", ".git./config", "git~1/config",
        ".git::$INDEX_ALLOCATION/x", "a\\.git\\config", "x/../.git/y", ".gonogo",
        ".g\u200bit/config", ".gonogo/token", ".vscode/tasks.json", ".idea/x", ".zshrc",
        "sub/.profile", ".mcp.json", "",
        ".", "a/..",
    ],
)  # fmt: skip
def test_what_other_programs_obey_is_never_written(path):
    assert write_guard(path) == "deny"


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py", "tests/conftest.py", "MAKEFILE", "package.json", "CLAUDE.md", "x/AGENTS.md",
        ".github/workflows/x.yml", "a.pth", ".env", "certs/server.key", "secrets/a",
    ],
)  # fmt: skip
def test_what_runs_by_itself_is_written_only_with_a_persons_eyes(path):
    assert write_guard(path) == "ask"


RUN_BY_OTHERS = """
lefthook.yml .lefthook.toml lefthook-local.yml .lefthook/pre-commit/x hooks/pre-commit .husky/x
.pre-commit-config.yaml .overcommit.yml mise.toml .mise.toml mise.local.toml .config/mise.toml
.tool-versions devbox.json flake.nix .envrc rust-toolchain.toml Makefile rules.mk justfile
Taskfile.yml Rakefile Gemfile x.gemspec Vagrantfile Procfile.dev Guardfile gulpfile.js
CMakeLists.txt x.cmake build.gradle settings.gradle.kts gradlew gradlew.bat
gradle/wrapper/gradle-wrapper.properties pom.xml mvnw .mvn/extensions.xml x.csproj build.zig
mix.exs Dockerfile Dockerfile.dev dev.dockerfile Containerfile docker-compose.yml
docker-compose.dev.yaml compose.yaml compose.override.yml docker-bake.hcl .devcontainer.json
.devcontainer/x skaffold.yaml azure-pipelines.yml azure-pipelines-nightly.yaml .drone.yml
.drone.star bitbucket-pipelines.yml Jenkinsfile Jenkinsfile.release .gitlab-ci.yml .travis.yml
.woodpecker.yml .woodpecker/x appveyor.yml .cirrus.yml .buildkite/pipeline.yml .circleci/config.yml
.github/workflows/x.yml cloudbuild.yaml buildspec.yml .gitpod.yml .ci/run netlify.toml vercel.json
jest.config.ts jest.setup.js vite.config.mts vitest.config.ts eslint.config.mjs .eslintrc
.eslintrc.json .prettierrc.cjs babel.config.js .babelrc webpack.config.js webpack.dev.js
next.config.mjs tailwind.config.cjs playwright.config.ts karma.conf.js .mocharc.yml .lintstagedrc
deno.json composer.json turbo.json nx.json angular.json .pnpmfile.cjs .pnp.cjs .storybook/main.js
conftest.py tox.ini pytest.ini mypy.ini .coveragerc .pylintrc .pdbrc setup.py noxfile.py .rspec
.pryrc .rubocop.yml .golangci.yml .goreleaser.yaml .ghci .Rprofile phpunit.xml .iex.exs
x.code-workspace x.sublime-project .ycm_extra_conf.py .dir-locals-2.el opencode.json
.aider.conf.yml node_modules/.bin/tsc node_modules/x/index.js .venv/bin/python venv/x
env/bin/python vendor/bin/x x/site-packages/y.py __pycache__/x.pyc .tox/x .yarn/releases/yarn.cjs
crontab x.service x.desktop
"""


@pytest.mark.parametrize("path", RUN_BY_OTHERS.split())
def test_what_others_run_is_known_at_any_depth_and_in_any_case(path):
    assert write_guard(path) == "ask"
    assert write_guard(f"a/b/{path}") == "ask"
    assert write_guard(path.upper()) == "ask"
    assert write_guard(f"a\\{path}. ") == "ask"
    assert write_guard(f"{path}::$DATA") == "ask"


@pytest.mark.parametrize(
    "path",
    [
        ".env", ".ENV", "a/.env.local", "prod.env", "id_rsa", "x.pem", ".ssh/config", "secrets/db",
        ".aws/credentials", ".git/config", "sub/.git/config", "credentials.json", ".bash_history",
        "my-service/service-account-1.json", "a:b.pem", "a.pem:b", "src/HEAD:.env",
    ],
)  # fmt: skip
def test_credentials_are_secret(path):
    assert is_secret(path)


@pytest.mark.parametrize(
    "path",
    [
        ".env~",
        "prod.env.bak",
        "a/id_rsa.old",
        ".id_rsa.swp",
        ".npmrc.swp",
        "k.pem.orig.save",
        "#.env#",
        "#id_rsa#",
        ".id_rsa.swo",
        "x.tfstate.backup",
        ".git/config~",
        ".git/config.worktree",
        "id_rsa (copy)",
        "id_rsa copy",
        "id_rsa copy 2",
        "id_rsa - Copy",
        "id_rsa - Copy (3)",
        "Copy of id_rsa",
        "Copy (2) of id_rsa",
        "a/id_rsa 2",
        ".env (1)",
        ".env (copy 2)~",
        "secrets (copy).json",
        "secrets - Copy (2).yaml",
        "credentials copy.csv",
        "a/auth (1).json",
        "Copy of secrets 2.toml.bak",
        "id_rsa_old",
        ".env-bak",
        "x.key_old",
        "id_rsa - Kopie",
        "Kopie von id_rsa",
        "secrets - Kopie (2).yaml",
        "Copie de id_rsa",
        "auth (copie).json",
        "Cópia de credentials.json",
        "id_rsa — копия",
        "id_rsa (копия 2)",
        "secrets копия.json",
        "Копия .netrc",
        "key.pem.1",
        "id_rsa.~1~",
        ".npmrc.old.2",
        "x.key.2026-01-31",
        "a/client_secret.json",
        "client_secret_12.apps.json.3",
        "token.json",
        "a/token (2).yaml",
        "Copy of token.txt",
        "kubeconfig.yaml",
        "prod-kubeconfig",
        "kubeconfig copy.yml",
        ".env2",
        ".env-prod",
        ".env_local.bak",
        "id_rsa2",
        "credentials2.json",
        "auth2.json",
    ],
)
def test_copies_of_credentials_are_secret_and_left_out_of_walks(path):
    assert is_secret(path)
    assert is_secret(path.upper())
    assert ".git" in path or left_out(path.split("/")[-1].lower())


@pytest.mark.parametrize(
    "path",
    [
        "key.pem.gz",
        ".env.zip",
        "id_rsa.tar.gz",
        "token.json.xz",
        "x.kdbx.7z.bak",
        "secrets.yaml.tgz",
        ".ssh.tgz",
        ".aws.zip",
        "secrets.tar.gz",
        "x/.Kube.7z.bak",
        "secrets (1).zip",
    ],
)
def test_credentials_that_were_packed_are_secret(path):
    assert is_secret(path)


@pytest.mark.parametrize("path", ["secrets.py", "aws.zip", "secret.zip", "x.ssh.zip"])
def test_what_is_packed_beside_them_is_not(path):
    assert not is_secret(path)


@pytest.mark.parametrize("end", ["\n", " \t", "\r\n", ". "])
def test_a_name_with_a_blank_that_nobody_sees_needs_the_same_care(end):
    assert is_secret(f".env{end}")
    assert is_secret(f"{end}key.pem{end}")
    assert write_guard(f".git{end}/config") == "deny"
    assert write_guard(f"Makefile{end}") == "ask"


def left_out(name):
    """The globs by which a command that walks leaves out a name."""
    globs = ("".join(parts) for form in SECRET_FORMS for parts in product(*form))
    return [glob for glob in globs if fnmatchcase(name, glob)]


def test_the_usual_copies_of_every_secret_are_left_out_of_walks():
    # A name of each glob; what ends with `*` may end with nothing.
    for name in (glob.replace("*", "") for glob in SECRET_GLOBS):
        assert left_out(name), name
        assert is_secret(name) or name == "service-account.json" or name.endswith("_history"), name


MARKS = (" copy", " (copy)", " - copy (2)", " 2", " (12)", " copy 3", " - kopie", " — копия")
TURNS = (".1", ".20260131", ".~3~", ".old.2")


def copies(name):
    """What editors, people and file managers call a copy of it."""
    yield from (name + behind for behind in (*COPIES, *MARKS, *TURNS))
    stem, _, end = name.rpartition(".")
    yield from (f"{stem}{mark}.{end}" for mark in MARKS if stem)
    yield from (
        f"copy of {name}",
        f"copy (2) of {name}",
        f"kopie von {name}",
        f"#{name}#",
        f".{name}.swp",
    )


@pytest.mark.parametrize("within", ["", "x", "-prod"])
def test_every_copy_that_is_secret_is_left_out_of_walks(within):
    globs = ("".join(parts) for form in SECRET_FORMS for parts in product(*form))
    left = re.compile("|".join(map(translate, globs)))
    names = [name.replace("*", within) for name in SECRET_NAMES]
    known = {copy for name in names for copy in copies(name) if is_secret(copy)}
    assert len(known) > 19 * len(names)
    assert [name for name in (*names, *known) if not left.match(name)] == []


def test_so_few_globs_leave_them_out_that_a_walk_is_not_slowed():
    # Programs that walk compare each of them with each name.
    assert sum(prod(map(len, form)) for form in SECRET_FORMS) <= 225


@pytest.mark.parametrize(
    "path",
    [
        "app.py~",
        "id_rsa.pub.bak",
        "id_rsa.pub.1",
        "ssh-key.1",
        "app.log.1",
        "notes.bak",
        ".main.rs.swp",
        ".bak",
        "notes 2",
        "Copy of notes",
        "id_rsa.pub (copy)",
        " (copy)",
        " 2",
        "my notes (copy).json",
        "notes - Copy.txt",
        "credentials.py",
        "copy of credentials.py",
        "secrets checklist.json",
        "#notes#",
        "notes — копия.txt",
        "Kopie von notes",
        "notes_old",
        "kubeconfig_backend.go",
        "credentials_backend.py",
        "id_rsa.pub",
        ".secretlintrc.json",
        "notes (copy).md",
        "env.example",
        "secrets.yml.example",
        "environment.ts",
        "kubeconfig.go",
        "kubeconfig_test.go",
        "id_generator.py",
        ".npmrc.example",
        ".eslintrc.json",
        "main.py~",
        "keys.ts.orig",
        "package 2.json",
        "monkey.py",
        "service_account.py",
        "tokens.py",
        "token.py",
        "token.ts",
        "token.test.ts",
        "token.interceptor.ts",
        "Token.java",
        "tokens.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "kubeconfig.ts",
        "kubeconfig.java",
        "env2.py",
        "auth2.py",
        "id_rsa.pub2",
        "model1.json",
        "app.tar.gz",
        "keys.py.gz",
        "id_rsa.pub.gz",
    ],
)
def test_copies_of_other_files_are_neither_secret_nor_left_out_of_walks(path):
    assert not is_secret(path)
    assert not left_out(path.lower())


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".env.example",
        ".env.sample",
        ".env.local.example",
        ".env.example.bak",
        ".env.example (copy)",
        ".env-example",
        ".env_sample.bak",
        ".env.example.gz",
        ".env.d.ts",
        ".env.schema",
        "example.env",
        "prod.sample.env",
        "id_rsa.pub",
        ".git/HEAD",
    ],
)
def test_examples_and_public_halves_are_not_secret(path):
    assert not is_secret(path)


@given(st.text(max_size=40), st.sampled_from([".git/x", ".env", "conftest.py", ".gonogo/y"]))
def test_no_folder_in_front_takes_the_guard_away(folder, path):
    assert write_guard(f"{folder}/{path}") is not None


@pytest.mark.parametrize(
    ("path", "guard"),
    [
        ("GITHUB~1/workflows/x.yml", "ask"), ("CONFTE~1.PY", "ask"), ("a/ENV~1", "ask"),
        ("PACKAG~1.JSO", "ask"), ("ID_ED2~1", "ask"), ("VSCODE~1/x", "deny"), ("ZSHRC~1", "deny"),
        ("GIT~1/x", "deny"), ("NODE_M~1/x", "ask"), ("CREDEN~1.JSO", "ask"),
        ("SERVER~1.PEM", "ask"),
        ("ENV~1.LOC", "ask"), ("DOCKER~1.YML", "ask"), ("README~1.MD", None), ("APP~1.PY", None),
    ],
)  # fmt: skip
def test_a_short_form_of_a_name_is_that_name(path, guard):
    assert write_guard(path) == guard


@pytest.mark.parametrize(
    ("path", "what", "guard"),
    [
        (".venv/bin/python", "program", "ask"), ("venv/Scripts/x.exe", "program", "ask"),
        ("env/bin/python", "program", "ask"), ("env/scripts/x", "program", "ask"),
        ("a/node_modules/.bin/tsc", "program", "ask"), ("vendor/bin/x", "program", "ask"),
        (".venv/lib/x.py", "package", None), ("node_modules/a/index.js", "package", None),
        ("node_modules/a/node_modules/.bin/x", "package", None), (".tox/x", "package", None),
        ("node_modules/.git/config", "package", "deny"), ("env/lib/x", None, None),
        ("vendor/x", None, None), ("src/app.py", None, None), ("Makefile", None, "ask"),
    ],
)  # fmt: skip
def test_what_tools_install_is_told_from_what_people_write(path, what, guard):
    assert installed(path) == what
    assert command_guard(path) == guard
    assert {"bin", ".bin", "scripts"} == PROGRAM_FOLDERS
