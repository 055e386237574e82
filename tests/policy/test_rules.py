"""Rules files are refused whole when a rule is too broad or does not do what its examples say."""

import pytest

from fakes.rows import NOW
from gonogo.domain.errors import InvalidMessage
from gonogo.domain.states import ApprovalKind, ApprovalStatus
from gonogo.domain.views import ApprovalView
from gonogo.policy import (
    BadRules,
    Conditions,
    PolicyContext,
    RuleText,
    check_command,
    lasting,
    load_rules,
    make_rule,
    make_rules,
    read_prefix,
)

ALLOW = 'decision = "allow"'


def _load(tmp_path, text):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    return load_rules(None, path)


def test_rules_come_from_two_files_the_administrators_first(tmp_path):
    admin, user = tmp_path / "admin.toml", tmp_path / "user.toml"
    admin.write_text(
        '[[rule]]\ncommand = "rm *"\ndecision = "deny"\nmatch = ["rm x", "env rm x"]\n'
    )
    user.write_text(
        """
        [[rule]]
        command = "pytest"
        decision = "allow"
        reason = "tests run in the sandbox"
        match = ["pytest", "pytest -q tests && pytest"]
        not_match = ["pytest -p evil", "pytests", "pytest | sh", "pytest > x"]

        [[rule]]
        tool = "write_file"
        agent = "coder"
        path = "docs/**"
        decision = "allow"
        match = ["docs/a/b.md"]
        not_match = ["src/a.py"]
        """
    )
    rules = load_rules(admin, user)
    assert [rule.name for rule in (*rules.admin, *rules.user)] == ["admin:1", "user:1", "user:2"]
    assert rules.admin[0].reason == "rule admin:1: deny rm *"
    assert rules.user[0].reason == "tests run in the sandbox"
    assert [rule.where for rule in rules.all()] == [f"{admin}:1", f"{user}:2", f"{user}:9"]
    assert rules.where("user:2+admin:1") == (f"{admin}:1", f"{user}:9")
    assert rules.version != load_rules(None, user).version
    assert rules.version == load_rules(admin, user).version


def test_no_file_means_no_rules(tmp_path):
    assert load_rules(None, tmp_path / "none.toml") == load_rules(None, None)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('[[rule]]\ntool = "x"\ndecision = "ask"\n[[rule]]\ncommand = "sh"\n' + ALLOW, 4, "code"),
        ('\n\n[[rule]]\ncommand = "pytest"\ndecision = "allow"\nmatch = ["mypy"]', 3, "'mypy'"),
        ('[[rule]]\ncommand = "ls"\ndecision = "allow"\nnot_match = ["ls -l"]', 1, "should not"),
        ('[[rule]]\ncommand = "ls"\ndecision = "maybe"', 1, "decision"),
        ('[[rule]]\ncommand = "ls"\ndecision = "allow"\nfoo = 1', 1, "foo"),
        ('[[rule]]\ntool = "execute_command"\ndecision = "allow"', 1, "every use"),
        ('[[rule]]\npath = "a"\ndecision = "allow"', 1, "must name a tool"),
        ('[[rule]]\npath = "a"\ncommand = "ls"\ndecision = "ask"', 1, "not both"),
        ('[[rule]]\ntool = "read_file"\ncommand = "ls"\ndecision = "ask"', 1, "takes no commands"),
        ('[[rule]]\ntool = "read_file"\nexact = true\ndecision = "ask"', 1, "needs a command"),
        ('[[rule]]\npath = "a/*"\ndecision = "deny"\nmatch = ["b"]', 1, "'b'"),
        ('[[rule]]\ntool = "x"\ndecision = "deny"\nmatch = ["y"]', 1, "'y'"),
        ('[[rule]]\ncommand = "ls; id"\ndecision = "deny"', 1, "not one simple command"),
        ('[[rule]]\ncommand = "ls a*"\ndecision = "deny"', 1, "plain words"),
        ('rule = [1]', 1, "rule 1"),
        ('rule = 1', 1, "can contain only"),
        ('[other]\nx = 1', 1, "can contain only"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_file_and_line(tmp_path, text, line, said):
    with pytest.raises(BadRules, match=rf"rules\.toml:{line}: .*{said}"):
        _load(tmp_path, text)


def test_a_file_that_is_not_toml_is_refused(tmp_path):
    with pytest.raises(InvalidMessage, match=r"rules\.toml: .*line 1"):
        _load(tmp_path, "[[rule]")


@pytest.mark.parametrize("odd", ["\u202e", "\u200b", "\ufe0f", "\U000e0101", "\u2800"])
@pytest.mark.parametrize("field", ["tool", "agent", "command", "path", "reason"])
def test_a_rule_with_what_nobody_sees_is_refused(field, odd):
    found = make_rule("user:1", RuleText.model_validate({"decision": "deny", field: f"ls{odd}"}))
    blank = field == "reason" and odd in "\ufe0f\U000e0101"
    assert not isinstance(found, str) if blank else f"{field}: it contains U+" in str(found)


@pytest.mark.parametrize("field", ["tool", "agent", "command", "path", "reason"])
def test_a_rule_about_what_runs_is_not_of_mixed_letters(field):
    written = {"decision": "deny", field: "g\u0456t"}
    found = make_rule("user:1", RuleText.model_validate(written))
    may_mix = field in ("path", "reason")
    assert not isinstance(found, str) if may_mix else "reads as another word" in str(found)


def test_a_command_of_mixed_letters_is_judged_as_ever_and_says_so():
    context = PolicyContext(rules=make_rules((), ()), conditions=Conditions(workspace="/"))
    look_alike = check_command("g\u0456t push", context)
    russian = check_command("cat отчёт", context)
    assert look_alike.decision == "ask"
    assert look_alike.reason.endswith("; look closely: 'g\u0456t' is Latin with Cyrillic U+0456")
    assert "look twice" not in russian.reason


@pytest.mark.parametrize("odd", ["\ufe0f", "\u180b", "\U000e0101", "\U0001d159", "\u00a0"])
def test_a_command_with_what_is_not_drawn_is_never_allowed(odd):
    rule = make_rule("user:1", RuleText(decision="allow", command="ls"))
    context = PolicyContext(rules=make_rules((), (rule,)), conditions=Conditions(workspace="/"))
    assert check_command(f"ls a{odd}", context).decision == "ask"
    assert check_command("ls a", context).decision == "allow"


@pytest.mark.parametrize(
    "prefix",
    ["bash", "sh -c", "python", "python3 -m", "python -c", "node -e", "env", "sudo", "xargs", "npx",
     "uv run", "uv run python", "poetry run bash", "docker", "make -f", "curl", "awk", "eval", ".",
     "/bin/ls", "npm exec", "timeout 5 ls", "uv run --with x", "ls | cat", "a=1 ls", "", "ls >x"],
)  # fmt: skip
def test_a_prefix_that_would_allow_anything_is_refused(prefix):
    assert isinstance(read_prefix(prefix), str)


STARTERS = """
rbash mksh yash nu xonsh elvish fish pwsh busybox taskset chrt setarch linux64 prlimit setpriv
choom numactl chronic ifne unbuffer hyperfine multitime perf strace valgrind xvfb-run
dbus-run-session ssh-agent fakeroot proot firejail bwrap nsjail systemd-run flatpak-spawn entr
watchexec nodemon sg su runuser gosu tini dumb-init ld.so ccache parallel run-parts concurrently
cross-env dotenv ssh mosh docker podman kubectl vagrant ansible tmux screen xterm vim emacs less
sqlite3 psql mysql fzf Bash python3.12 bash-static vim.tiny gtimeout gxargs
"""


@pytest.mark.parametrize("program", STARTERS.split())
def test_no_program_that_starts_others_is_allowed_by_its_bare_name(program):
    assert isinstance(read_prefix(program), str)
    rule = make_rule("user:1", RuleText(decision="allow", command=program))
    assert isinstance(rule, str)


@pytest.mark.parametrize(
    "prefix",
    ["direnv", "direnv exec", "mise exec", "mise x", "conda run", "conda run -n x", "rbenv exec",
     "nix run", "nix develop", "nix-shell", "ip netns exec", "ip", "rustup run stable",
     "npm exec bash", "pnpm bash", "yarn workspace a exec bash", "yarn workspace a exec",
     "bundle exec sh", "bunx bash", "coverage run", "coverage run -m timeit", "python -m timeit",
     "python -m pdb", "find . -exec", "find -exec", "find . -okdir rm",
     "sort --compress-program", "sort --comp=x", "rg --pre",
     "rg --pre=x", "tar If", "tar xIf", "tar -I", "tar xf a --to-command", "split --filter",
     "rsync -e", "rsync -ae", "fd -x", "go test -exec", "man -P", "unknown --exec",
     "cmake -E", "gtar If"],
)  # fmt: skip
def test_no_beginning_ends_where_another_program_would_be_named(prefix):
    assert isinstance(read_prefix(prefix), str)


@pytest.mark.parametrize(
    "prefix",
    ["find . -name x", "sort -u", "sort --check", "rg --pretty", "tar tf", "tar xzf", "bash ci.sh",
     "uv sync", "uv export", "poetry run pytest", "npm exec eslint", "pnpm test", "yarn build",
     "coverage run -m pytest", "coverage report", "java -jar x.jar", "ip addr", "nix build",
     "direnv allow", "conda install x", "cmake --build b", "go test", "pytest --co",
     "ruff check --fix", "cargo test --release", "bundle exec rspec", "asdf local node",
     "mise install"],
)  # fmt: skip
def test_a_beginning_that_says_what_runs_is_taken(prefix):
    assert read_prefix(prefix) == tuple(prefix.split())


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("pytest -q", ("pytest", "-q")),
        ("python -m pytest", ("python", "-m", "pytest")),
        ("npm run *", ("npm", "run")),
        ("uv run pytest", ("uv", "run", "pytest")),
        ("python scripts/build.py", ("python", "scripts/build.py")),
        ("make test", ("make", "test")),
        ("cargo test", ("cargo", "test")),
        ("curl https://example.com", ("curl", "https://example.com")),
    ],
)
def test_a_prefix_that_names_its_work_is_read_as_words(prefix, words):
    assert read_prefix(prefix) == words


@pytest.mark.parametrize("command", ["bash", "curl", "env", "/usr/bin/bash"])
def test_what_is_too_much_to_be_allowed_may_be_denied_asked_about_or_meant_exactly(command):
    def is_rule(decision, *, exact=False):
        text = RuleText(decision=decision, command=command, exact=exact)
        return not isinstance(make_rule("user:1", text), str)

    assert is_rule("deny")
    assert is_rule("ask")
    assert is_rule("allow", exact=True)
    assert not is_rule("allow")


def test_a_rule_for_every_tool_speaks_of_each_and_one_for_a_tool_of_no_other():
    every = make_rule("user:1", RuleText(tool="*", decision="ask"))
    one = make_rule("user:2", RuleText(tool="read_file", decision="ask"))
    assert every.unconcerned("write_file", "coder") is None
    assert one.unconcerned("write_file", "coder") == "it is about the tool 'read_file'"


def test_an_exact_rule_may_be_as_particular_as_its_writer_wants():
    rule = make_rule("user:1", RuleText(decision="allow", command="bash x.sh", exact=True))
    assert not isinstance(rule, str)
    assert rule.covers_argv(("bash", "x.sh"))
    assert not rule.covers_argv(("bash", "x.sh", "y"))


@pytest.mark.parametrize("text", ["rule = " + "[" * 5_000, "rule=[" + "{a=" * 3_000])
def test_a_file_of_rules_that_is_nested_too_deeply_is_refused(tmp_path, text):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(BadRules, match=r"rules\.toml"):
        load_rules(None, path)


@pytest.mark.parametrize(
    ("tool", "plan", "details", "ways"),
    [
        ("execute_command", "plan_1", {"words_for_plan": [["ls"]]}, ["for_plan", "for_session"]),
        ("execute_command", "plan_1", {"parts": ["ls"]}, []),
        ("execute_command", None, {"parts": ["ls"]}, ["for_session"]),
        ("execute_command", None, {"parts": ["ls", "pwd"]}, []),
        ("write_file", None, {}, ["for_session"]),
    ],
)
def test_a_call_is_approved_for_longer_where_a_rule_may_allow_just_it(tool, plan, details, ways):
    asked = ApprovalView(
        approval_id="a", request_id="r", kind=ApprovalKind.TOOL, request_type=ApprovalKind.TOOL,
        session_id="s", subject=tool, details=details, reason="", digest="d", created_at=NOW,
        status=ApprovalStatus.PENDING, plan_id=plan, tool_name=tool,
    )  # fmt: skip
    assert list(lasting(asked)) == ways
