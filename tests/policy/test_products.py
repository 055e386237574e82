"""What commands are known to make: only by words that somebody allowed, and only where they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass
from gonogo.policy import Conditions, Rules, covers, explain, products_of, programs_of, verdict
from gonogo.policy.products import products


def expects(command: str, *commands: str, paths: tuple[str, ...] = (), cwd: str | None = None):
    """What a command that a plan allows is expected to make."""
    call = Call(
        tool="execute_command", tool_class=ToolClass.OTHER, agent="coder", arguments={},
        access=Access(command=command, cwd=cwd), plan_id="p", revision=1, subtask_id="a",
    )  # fmt: skip
    grant = Grant(
        grant_id="g", plan_id="p", revision=1, subtask_id="a",
        scope=Scope(commands=commands, paths=paths),
    )  # fmt: skip
    found = verdict(call, Rules(), Conditions(workspace="/ws"), grant)
    assert found.decision == "allow", found.reason
    return found.expects


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("git init", {".git"}),
        ("git init sub", {"sub/.git"}),
        ("git init .", {".git"}),
        ("git clone https://example.org/a/b.git", {"b"}),
        ("git clone https://example.org/a/b.git c/d", {"c/d"}),
        ("git clone git@example.org:a/b", {"b"}),
        ("git clone -b main https://example.org/a/b", {"b"}),
        ("git clone ../x", {"x"}),
        ("git clone https://example.org/x .", {".git"}),
        ("git clone", set()),
        ("git clone x ../y", set()),
        ("git init ../y", set()),
        ("git init /tmp/y", set()),
        ("cd sub && git init", {"sub/.git"}),
        ("cd .. && git init", set()),
        ("cd a b && git init", {".git"}),
        ("hg init", {".hg"}),
        ("jj git init", {".jj", ".git"}),
        ("cargo new app", {"app/.git"}),
        ("uv init", {".git"}),
        ("npm install left-pad", {"package.json", "node_modules"}),
        ("cd web && pnpm add x", {"web/package.json", "web/node_modules"}),
        ("yarn", {"package.json", "node_modules", ".yarn", ".pnp.*"}),
        ("python3 -m venv env", {"env"}),
        ("python3.12 -m venv", {".venv"}),
        ("pip install x", {".venv", "venv"}),
        ("pip3 install x", {".venv", "venv"}),
        ("poetry install", {".venv", "venv"}),
        (".venv/bin/pip install x", {".venv"}),
        ("cd sub && env/bin/python3 -m pip install x", {"sub/env"}),
        (".venv/bin/python -m venv other", {"other"}),
        ("./npm install", set()),
        ("../.venv/bin/pip install x", set()),
        ("cmake -B build", {"**/Makefile*", "**/*.cmake"}),
        ("rm -rf node_modules .tox __pycache__", set()),
        ("touch venv/bin/git", {"venv/bin/git"}),
        ("touch sub/.envrc", {"sub/.envrc"}),
        ("touch .github/workflows/ci.yml", {".github/workflows/ci.yml"}),
        ("echo x > .envrc", {".envrc"}),
        ("make all", set()),
        ("ls .vscode && cat .envrc && make", set()),
        ("echo git clone x y .envrc; make", set()),
        ("make # git init", set()),
        ("make 'git init'", set()),
        ("touch *.pth .env*", set()),
        ("touch . ..", set()),
        ("touch ../.envrc /x/.envrc", set()),
        ("for x in 1; do git init; done", set()),
    ],
)  # fmt: skip
def test_who_approves_a_command_knows_what_its_words_make(text: str, made: set[str]) -> None:
    assert set(products_of(text, ".")) == made


PACKAGES = {".venv", "venv"}
NODE = {"package.json", "node_modules"}
YARN = NODE | {".yarn", ".pnp.*"}
VERBS = "init install i ci add remove rm uninstall update upgrade up dedupe"


@pytest.mark.parametrize(
    ("commands", "made"),
    [
        ("git init; cargo new; cargo init; uv init", {".git"}),
        ("git clone x; hg clone x; jj git clone x; svn checkout x; svn co x", {"x"}),
        ("bundle install", {".bundle", "vendor"}),
        ("composer install", {"vendor"}),
        ("terraform init", {".terraform"}),
        ("python -m venv x; virtualenv x; uv venv x", {"x"}),
        ("pip install x; pip3 install x; python -m pip install x; uv sync; uv add x", PACKAGES),
        ("uv remove x; uv pip install x; uv run x; poetry install; poetry add x", PACKAGES),
        ("pdm install; pdm add x; pdm sync; pipenv install; pipenv sync", PACKAGES),
        ("cmake; ./configure; autoreconf", {"**/Makefile*", "**/*.cmake"}),
        ("; ".join(f"{tool} {v}" for tool in ("npm", "pnpm", "bun") for v in VERBS.split()), NODE),
        ("; ".join(["yarn", *(f"yarn {verb}" for verb in VERBS.split())]), YARN),
    ],
)
def test_each_command_that_is_known_to_make_something_makes_it(
    commands: str, made: set[str]
) -> None:
    for command in commands.split("; "):
        assert set(products_of(command, ".")) == made, command


def test_a_bare_repository_is_made_of_names() -> None:
    made = products_of("git init --bare store", ".")

    assert {"store/HEAD", "store/config", "store/hooks", "store/objects", "store/refs"} <= {*made}
    assert all(path.startswith("store/") for path in made)


def test_the_folder_that_it_runs_in_counts() -> None:
    assert products_of("git init", "a/b") == ("a/b/.git",)
    assert products_of("touch ../.envrc", "a/b") == ("a/.envrc",)


def test_only_words_that_somebody_vouches_for_say_what_a_command_makes() -> None:
    assert products([(("git", "init", "x"), 1)], ".") == ()
    assert products([(("git", "init", "x"), 2)], ".") == ("x/.git",)
    assert products([(("python3", "-m", "venv", "x"), 2)], ".") == ()


def test_a_plan_expects_what_it_declares_and_nothing_that_an_agent_adds() -> None:
    assert expects("npm install x", "npm install") == ("package.json", "node_modules")
    assert expects("touch sub/main.c", "touch") == ()
    assert expects("cargo new app", "cargo new", cwd="sub") == ("sub/app/.git",)


def test_a_path_that_a_plan_declares_by_its_name_is_expected() -> None:
    paths = ("Makefile", "src/**", ".vscode/tasks.json", "package.json", "*.pth")

    assert expects("make all", "make all", paths=paths) == ("Makefile", "package.json")


@given(st.lists(st.sampled_from(
    ["git", "init", "clone", "npm", "install", "cd", "..", "/", "sub", ".", "-b", "x:y", "venv",
     "python", "-m", "--bare", "", "~"]
), min_size=1, max_size=6), st.sampled_from([".", "a", "a/b"]))  # fmt: skip
def test_nothing_outside_the_workspace_and_never_all_of_it_is_expected(
    words: list[str], cwd: str
) -> None:
    for made in products([(tuple(words), len(words))], cwd):
        assert not made.startswith(("/", "..")), made
        assert not covers([made], "src/.vscode/tasks.json") or "src" in words, made


# Programs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "programs"),
    [
        ("rg -n x src | head -3 && make", {"rg": True, "head": True, "make": False}),
        ("git push && pytest -q", {"git": True, "pytest": False}),
        ("python -m pytest", {"python": False}),
        ("for f in *; do ls $f; python x; done", {"ls": True, "python": False}),
        ("git -C x frob $(cat y)", {"git": True, "cat": True}),
    ],
)
def test_of_each_program_it_is_known_whether_it_only_reads(
    text: str, programs: dict[str, bool]
) -> None:
    found = programs_of(text)

    assert {name: found[name] for name in programs} == programs


def judged(command: str, *own: str, **access):
    call = Call(
        tool="execute_command", tool_class=ToolClass.OTHER, agent="coder", arguments={},
        access=Access(command=command, **access),
    )  # fmt: skip
    found, _ = explain(call, Rules(), Conditions(workspace="/ws", own_programs=own), None)
    return found


def test_a_program_of_the_workspace_is_not_what_the_table_is_about() -> None:
    assert judged("rg -n x", "rg").reason == (
        "no rule allows 'rg', a program of the workspace itself,"
    )
    assert judged("rg -n x").reason == "no rule allows 'rg'"


def test_files_that_nobody_looked_at_make_any_command_ask() -> None:
    assert "not checked: a, b" in judged("make", unlooked=("a", "b")).reason
    assert judged("rm -rf /", unlooked=("a",)).decision == "deny"


def test_what_is_seldom_there_is_no_part_of_the_digest_of_what_lacks_it() -> None:
    def digest(**access) -> str:
        call = Call(
            tool="t", tool_class=ToolClass.OTHER, agent="a", arguments={}, access=Access(**access)
        )
        return call.digest("1")

    plain = digest(command="make")
    assert plain == "sha256:ad4bd31c1976f6c518387c265bbdbd64127e7881ed77b82baf71a9d2d73e790b"
    assert len({plain, digest(command="make", own_programs=("x",)),
                digest(command="make", unlooked=("x",))}) == 3  # fmt: skip


@pytest.mark.parametrize(
    ("path", "covered"), [("1a2b3cd", True), ("1a2b3c", False), ("abc/", False)]
)
def test_a_question_mark_among_many_wildcards_is_one_character_of_a_name(path, covered):
    assert covers(["*a*b*c?"], path) is covered
