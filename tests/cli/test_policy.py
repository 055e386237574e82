"""`gonogo policy`: what the rules say, why, and what other rules would have said."""

import json
from pathlib import Path

import pytest

from gonogo.demo import lay_out
from gonogo.workspace import Sandbox

RULES = """\
[[rule]]
command = "rm"
decision = "deny"
reason = "nothing is removed"

[[rule]]
command = "ls"
decision = "allow"

[[rule]]
tool = "write_file"
path = "docs/**"
decision = "allow"
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    lay_out(tmp_path / "project")
    return tmp_path / "project"


def test_a_command_is_explained_with_the_winner_and_its_line(gonogo, rules):
    done = gonogo("policy", "explain", "--rules", str(rules), "--json", "--", "ls", "-la")
    told = json.loads(done.stdout)
    allowed = [step for step in told["steps"] if step["step"] == "allow rules"]

    assert done.returncode == 0
    assert (told["decision"], told["rule"], told["where"]) == ("allow", "user:2", [f"{rules}:6"])
    assert told["steps"][1]["step"] == "built-in deny"
    assert allowed[0]["part"] == "ls -la"
    assert allowed[0]["considered"][-1]["matched"] is True
    assert told["not_considered"] == [{"rule": "user:3", "where": f"{rules}:10"}]


def test_an_explanation_for_people_names_each_rule_with_why_it_does_not_fit(gonogo, rules):
    words = ["policy", "explain", "--rules", str(rules), "--", "cat a && rm b"]
    done = gonogo(*words)
    russian = gonogo(*words, env={"GONOGO_LOCALE": "ru"})

    assert done.stdout.startswith(f"deny: nothing is removed\n  user:1  {rules}:1\n")
    assert "deny rules: user:1\n" in done.stdout
    assert f"user:2  {rules}:6  not considered" in done.stdout
    assert "запрещающие правила: user:1\n" in russian.stdout
    assert "не рассматривалось" in russian.stdout

    other = gonogo(*words[:-1], "ls -la; make", env={"GONOGO_LOCALE": "ru"})
    assert other.stdout.startswith("спросить: «make»: ни одно правило не разрешает «make»\n")
    assert f"    user:1  {rules}:1  ни одна часть команды не начинается с " in other.stdout


@pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")
def test_readers_are_a_rule_of_what_runs_and_not_of_the_rules_alone(gonogo, project):
    explain = ("policy", "explain", "-C", str(project), "--json", "--", "ls")
    found = json.loads(gonogo(*explain).stdout)
    off = json.loads(gonogo(*explain, env={"GONOGO_READERS": "false"}).stdout)
    checked = json.loads(gonogo("policy", "check", "--", "ls").stdout)

    assert (found["decision"], found["rule"]) == ("allow", "builtin:readers")
    assert (found["steps"][-1]["step"], found["read_only"]) == ("readers", True)
    assert (off["decision"], off["rule"], off["steps"][-1]["step"]) == (
        "ask", "default:other", "default",
    )  # fmt: skip
    assert checked["decision"] == "ask"


def test_a_file_tool_is_explained_for_its_path_in_the_hands_of_an_agent(gonogo, rules, tmp_path):
    (tmp_path / "docs").mkdir()

    def told(*more: str, path: str = "docs/a.md") -> dict:
        arguments = json.dumps({"path": path, "content": "x"})
        words = ["write_file", arguments, "-C", str(tmp_path), "--rules", str(rules), "--json"]
        return json.loads(gonogo("policy", "explain", *words, *more).stdout)

    assert (told()["decision"], told()["rule"]) == ("allow", "user:3")
    assert told(path="a.md")["rule"] == "default:idempotent"
    assert told(path=".git/config")["rule"] == "builtin:protected_path"
    assert told("--agent", "ask")["rule"] == "builtin:unknown-tool"
    assert told("--agent", "ask")["steps"][-1]["decided"] == "builtin:unknown-tool"
    assert not (tmp_path / "docs" / "a.md").exists()


def test_an_unknown_tool_and_an_unknown_agent_are_said(gonogo):
    tool = gonogo("policy", "explain", "no_such_tool", "{}", "--json")
    agent = gonogo("policy", "explain", "--agent", "nobody", "--", "ls")
    bare = gonogo("policy", "explain", "list_files", "--json")

    assert json.loads(tool.stdout)["decision"] == "deny"
    assert (agent.returncode, "nobody" in agent.stderr) == (2, True)
    assert json.loads(bare.stdout)["tool"] == "list_files"


def test_the_administrators_rules_hold_whatever_file_is_tried(gonogo, rules, tmp_path):
    admin = tmp_path / "admin.toml"
    admin.write_text('[[rule]]\ncommand = "ls"\ndecision = "deny"\n')
    for verb in ("check", "explain"):
        words = ["policy", verb, "--rules", str(rules), *(["--json"] if verb == "explain" else [])]
        done = gonogo(*words, "--", "ls", env={"GONOGO_ADMIN_RULES": str(admin)})
        assert json.loads(done.stdout)["rule"] == "admin:1"


def test_a_rule_of_one_session_is_added_explained_listed_and_removed(gonogo, project, tmp_path):
    reviews = tmp_path / "reviews.toml"
    reviews.write_text('[[review]]\ncommand = "pytest"\napprovals = 2\n')
    assert gonogo("run", "Mend it", "-C", str(project), "--model", "demo").returncode == 3
    [session] = json.loads(gonogo("sessions", "list", "--json").stdout)["sessions"]
    of = session["session_id"]
    [waiting] = json.loads(gonogo("approvals", "list", "--json").stdout)["approvals"]

    plan = gonogo("approvals", "decide", waiting["approval_id"], "approve", "--for-session")
    no = gonogo("approvals", "decide", waiting["approval_id"], "reject", "--for-session")
    longer = ("--for-session", "--for-plan")
    both = gonogo("approvals", "decide", waiting["approval_id"], "approve", *longer)
    added = gonogo("policy", "add", of, "allow", "--command", "pytest -q", "--reason", "quick")
    broad = gonogo("policy", "add", of, "allow", "--command", "bash")
    explained = gonogo("policy", "explain", "--session", of, "--json", "--", "pytest", "-q")
    words = ["policy", "explain", "--session", of, "--rules", str(reviews)]
    reviewed = gonogo(*words, "--json", "--", "pytest", "-q")
    read = gonogo(*words, "--", "pytest", "-q")
    listed = gonogo("policy", "list", of)
    removed = gonogo("policy", "remove", of, "session:1")
    left = json.loads(gonogo("policy", "list", of, "--json").stdout)

    assert (plan.returncode, no.returncode, broad.returncode) == (2, 2, 2)
    assert (both.returncode, "either --for-session or --for-plan" in both.stderr) == (2, True)
    assert added.stdout.startswith("session:1 rule_")
    assert json.loads(explained.stdout)["rule"] == "session:1"
    assert json.loads(reviewed.stdout)["rule"] == "default:other"
    [back] = json.loads(reviewed.stdout)["not_considered"]
    assert (back["rule"], back["stands_back"]) == ("session:1", True)
    assert "not applied: a review rule covers this call" in read.stdout
    assert "quick" in listed.stdout
    assert (removed.returncode, left) == (0, [])


def test_other_rules_are_tried_on_what_was_judged_and_what_was_approved_is_suggested(
    gonogo, project, tmp_path
):
    done = gonogo("run", "Mend it", "-C", str(project), "--model", "demo", "--yes=all")
    assert done.returncode == 0, done.stderr
    strict, same = tmp_path / "strict.toml", tmp_path / "same.toml"
    strict.write_text('[[rule]]\ntool = "read_file"\ndecision = "deny"\n')
    same.write_text("")

    told = json.loads(gonogo("policy", "replay", str(strict), "--json").stdout)
    shown = gonogo("policy", "replay", str(strict))
    nothing = json.loads(gonogo("policy", "replay", str(same), "--json").stdout)
    none = gonogo("policy", "replay", str(strict), "--since", "2999-01-01")
    suggested = gonogo("policy", "suggest", "--min", "1")
    rare = gonogo("policy", "suggest", "--min", "99", env={"GONOGO_LOCALE": "ru"})

    assert set(told["counts"]) == {"allow → deny"}
    assert told["changed"][0]["where"] == [f"{strict}:1"]
    assert told["changed"][0]["call"]["tool_name"] == "read_file"
    assert f"allow → deny: {told['counts']['allow → deny']}\n" in shown.stdout
    assert (nothing["changed"], nothing["judged"] > 0) == ([], True)
    assert "Calls evaluated again: 0" in none.stdout
    assert suggested.stdout.startswith("# Rules for what was approved at least 1 time and")
    assert "одобренных хотя бы 99 раз" in rare.stdout
    saved = tmp_path / "suggested.toml"
    saved.write_text(suggested.stdout)
    assert gonogo("policy", "check", "--rules", str(saved), "--", "ls").returncode == 0


def test_a_rules_file_is_checked_before_it_holds_and_says_whom_it_misses(gonogo, tmp_path):
    file = tmp_path / "new.toml"
    file.write_text('[[review]]\nreviewers = ["ann"]\n[[rule]]\ntool = "x"\ndecision = "deny"\n')
    done = gonogo("policy", "check", "--rules", str(file))

    told = json.loads(done.stdout)
    assert (done.returncode, told["files"], told["rules"], told["reviews"]) == (
        0,
        [str(file)],
        1,
        1,
    )
    assert [each["code"] for each in told["findings"]] == ["review_nobody", "review_too_few"]
    assert {each["where"] for each in told["findings"]} == {f"{file}:1"}


def test_an_explanation_reads_in_the_language_of_the_person_line_by_line(gonogo, rules):
    words = ("policy", "explain", "--rules", str(rules), "--", "ls -la; make 'a\nb'")
    done = gonogo(*words, env={"GONOGO_LOCALE": "ru", "GONOGO_READERS": "false"})

    assert done.stdout.splitlines() == [
        r"спросить: «make a\nb»: «a\nb» ведёт за пределы рабочей папки, к секрету или не к файлу",
        "  builtin:outside",
        "встроенные запреты: -",
        "встроенные запреты: -",
        "встроенные запреты: -",
        "запрещающие правила: -",
        f"     user:1  {rules}:1  ни одна часть команды не начинается с «rm»",
        "встроенные вопросы: -",
        "правила, требующие одобрения: -",
        "встроенные вопросы (ls -la): -",
        r"встроенные вопросы (make a\x0ab): builtin:outside",
        "     builtin:outside  подходит",
        "разрешающие правила (ls -la): user:2",
        f"     user:2  {rules}:6  подходит",
        r"встроенные вопросы (make a\x0ab): builtin:outside",
        "     builtin:outside  подходит",
        f"    user:3  {rules}:10  не рассматривалось: уже решено",
    ]


def test_what_a_rules_file_misses_is_told_in_the_language_of_the_person(gonogo, tmp_path):
    for name, role in (("ann", "operator"), ("ann", "viewer"), ("eve", "admin")):
        made = gonogo("token", "create", "--role", role, "--name", name, "--json")
    gonogo("token", "revoke", json.loads(made.stdout)["token_id"])
    file = tmp_path / "new.toml"
    file.write_text('[[review]]\nreviewers = ["ann", "eve", "state-folder"]\napprovals = 2\n')
    done = gonogo("policy", "check", "--rules", str(file), env={"GONOGO_LOCALE": "ru"})

    findings = [
        ("review_nobody", f"в reviewers указано имя {name}, которого нет. "
         f"Создайте токен: gonogo token create --name {name} --role operator")
        for name in ("eve", "state-folder")
    ] + [
        ("review_too_few",
         "нужно одобрений: 2, людей, которые могут их дать: 1. Назначьте больше проверяющих "
         "или требуйте меньше одобрений.")
    ]  # fmt: skip
    rule = "user:review:1"
    assert json.loads(done.stdout) == {
        "files": [str(file)], "rules": 0, "reviews": 1,
        "findings": [
            {
                "severity": "warning", "code": code, "rule": rule, "where": f"{file}:1",
                "text": f"{rule}: {text}",
            }
            for code, text in findings
        ],
    }  # fmt: skip


def test_a_context_is_named_unless_there_is_only_one(gonogo, tmp_path):
    two, one = tmp_path / "two.json", tmp_path / "one.json"
    two.write_text('{"a": {"allow": ["ls"]}, "b": {}}')
    one.write_text('{"a": {"allow": ["ls"]}}')

    def check(*words):
        done = gonogo("policy", "check", *words, "--", "ls")
        return done.returncode, done.stderr or json.loads(done.stdout)["decision"]

    assert check("--context", str(one)) == (0, "allow")
    assert check("--context", str(two), "--name", "a") == (0, "allow")
    assert check("--context", str(two), "--name", "b") == (0, "ask")
    assert check("--name", "a") == (0, "ask")
    for file, name, known in ((two, "", "a, b"), (two, "z", "a, b"), (one, "z", "a")):
        said = f"gonogo: There is no context {name!r}; with --name, give one of: {known}\n"
        assert check("--context", str(file), "--name", name) == (2, said)
    nothing = gonogo("policy", "check", "--context", str(one))
    assert (nothing.returncode, nothing.stderr) == (
        2, "gonogo: Name a command, for example: gonogo policy check -- git push\n",
    )  # fmt: skip


def test_a_line_of_a_batch_that_names_no_context_is_judged_in_that_of_the_command(gonogo, tmp_path):
    file = tmp_path / "contexts.json"
    file.write_text('{"a": {"allow": ["ls"]}, "b": {}}')
    words = ("policy", "check", "--batch", "--context", str(file), "--name", "a")
    done = gonogo(*words, stdin='{"cmd": "ls"}\n{"cmd": "ls", "policy_context": "b"}\n\nx\n')

    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"decision": "allow", "reason": "rule user:1: allow ls", "rule": "user:1"},
        {"decision": "ask", "reason": "no rule allows 'ls'", "rule": "default:other"},
        {
            "decision": "deny", "rule": "builtin:unreadable-line",
            "reason": "line 4: Not valid JSON: Expecting value: line 1 column 1 (char 0)",
        },
    ]  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        "gonogo: line 4: Not valid JSON: Expecting value: line 1 column 1 (char 0)\n"
    )
