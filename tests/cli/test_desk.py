"""The desk beside a real `gonogo serve`: links over HTTP, lists, groups, reviews."""

import json
import os
import re
import subprocess
import sys
from urllib.parse import urlsplit

import httpx
import pytest

from cli.conftest import SECONDS, environment
from fakes.openai_server import fake_openai

PUBLIC = "https://gonogo.example"
RULES = """\
[[review]]
command = "make"
reviewers = ["ann", "bob"]
approvals = 2

[[review]]
tool = "delete_file"
approvals = 2
"""


def does(word, tool, **arguments):
    call = {"name": tool, "arguments": arguments}
    end = {"name": "attempt_completion", "arguments": {"result": "done"}}
    return {"when": {"user": word}, "replies": [{"calls": [call]}, {"calls": [end]}]}


SCRIPT = {
    "rules": [
        does("Write", "write_file", path="a.txt", content="a\n"),
        does("Build", "execute_command", command="make all"),
        does("Delete", "delete_file", path="b.txt"),
    ],
    "default": {"text": "Yes?"},
}


class Served:
    """A server, and people who have tokens for it."""

    def __init__(self, url, gonogo):
        self.url, self.gonogo = url, gonogo
        self.tokens = {
            name: gonogo("token", "create", "--role", role, "--name", name).stdout.strip()
            for name, role in (("ann", "operator"), ("bob", "operator"), ("vic", "viewer"))
        }

    def say(self, session, content, name="ann"):
        """Say something to the coder; the question that comes of it."""
        message = {"type": "user_message", "content": content, "agent_type": "coder"}
        answer = httpx.post(
            f"{self.url}/api/v1/agent/message/stream", timeout=SECONDS, trust_env=False,
            headers={"Authorization": f"Bearer {self.tokens[name]}"},
            json={"session_id": session, "message": message},
        )  # fmt: skip
        found = re.findall(r'"approval_id":"(appr_\w+)"', answer.text)
        assert found, answer.text
        return found[-1]

    def page(self, url, host="gonogo.example", **form):
        """What a browser gets that follows a link, or sends its form."""
        where = f"{self.url}{urlsplit(url).path}"
        with httpx.Client(headers={"Host": host}, timeout=SECONDS, trust_env=False) as http:
            return http.post(where, data=form) if form else http.get(where)


@pytest.fixture
def served(home, tmp_path, born, gonogo):
    (home / "no-config").mkdir(parents=True)
    (home / "no-config" / "rules.toml").write_text(RULES)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "b.txt").write_text("b\n")
    with fake_openai(SCRIPT) as model:
        more = {
            "GONOGO_PUBLIC_URL": PUBLIC, "GONOGO_MODEL": "openai:scripted",
            "OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "x",
        }  # fmt: skip
        read, write = os.pipe()
        process = born.start(
            "gonogo", "serve", "--port", "0", "--workspace", str(tmp_path / "work"),
            env=environment(home, more), cwd=tmp_path,
            stdin=subprocess.DEVNULL, stdout=write, stderr=2,
        )  # fmt: skip
        os.close(write)
        with os.fdopen(read) as printed:
            told = [printed.readline(), printed.readline()]
            try:
                assert "Rules: 0, review rules: 2" in told[1], told
                yield Served(re.findall(r"http://[\d.]+:\d+", told[0])[0], gonogo)
            finally:
                process.kill()
                process.wait(timeout=SECONDS)


def test_a_link_is_printed_opened_and_decides_once_over_real_http(served, gonogo):
    asked = served.say("s1", "Write it")
    refused = gonogo("approvals", "link", asked, "--for", "bob")
    viewer = gonogo("approvals", "link", asked, "--for", "vic")
    made = gonogo("approvals", "link", asked, "--for", "ann")
    url = made.stdout.strip()

    assert refused.returncode == viewer.returncode == 1
    assert (
        "bob cannot see this question. The owner of the session (ann) and admins"
    ) in refused.stderr
    assert (
        "vic has the role viewer, and decisions need the role operator; ask an admin"
    ) in viewer.stderr
    assert url.startswith(f"{PUBLIC}/d/link_")
    assert "can decide once as ann" in made.stderr
    assert served.page(url, host="evil.example").status_code == 403
    shown = served.page(url)
    assert (shown.status_code, "a.txt" in shown.text, "<form" in shown.text) == (200, True, True)
    done = served.page(url, decision="approve", feedback="fine by me")
    assert (done.status_code, "Thank you, ann: Approved." in done.text) == (200, True)
    assert served.page(url).status_code == 410
    shown = gonogo("approvals", "show", asked, "--json")
    assert json.loads(shown.stdout)["decided_by"] == "ann"
    told = gonogo("audit", "show", "--session", "s1", "--action", "tool.approved").stdout
    assert re.search(r"through link_\w+ · after [^·]+ · “fine by me”", told)
    assert "ann can decide" in gonogo("audit", "show", "--action", "link.").stdout


def test_a_link_that_is_withdrawn_opens_nothing_and_unknown_names_are_told_what_to_do(
    served, gonogo
):
    asked = served.say("s1", "Write it")
    url = json.loads(gonogo("approvals", "link", asked, "--for", "ann", "--json").stdout)["url"]
    ended = gonogo("approvals", "unlink", asked)
    gone = served.page(url)
    nobody = gonogo("approvals", "link", asked, "--for", "nobody")
    unknown = gonogo("approvals", "link", "appr_1")

    assert (ended.returncode, gone.status_code, "revoked" in gone.text) == (0, 410, True)
    assert served.page(url, decision="approve").status_code == 410
    assert "gonogo token create" in nobody.stderr
    assert "see gonogo approvals list --status all" in unknown.stderr


def test_identical_questions_are_one_line_and_have_one_answer(served, gonogo):
    first, second = served.say("s1", "Write it"), served.say("s2", "Write it")
    listed = gonogo("approvals", "list").stdout.splitlines()
    wrong = gonogo("approvals", "decide", "--group", first, "hold")
    done = gonogo("approvals", "decide", "--group", second, "approve")

    assert len(listed) == 2
    assert listed[1].endswith("write_file (2 identical)")
    assert (wrong.returncode, "approve or reject" in wrong.stderr) == (2, True)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted([f"{first} decided", f"{second} decided"])
    assert gonogo("approvals", "list").stdout.splitlines()[1:] == []


def test_mine_is_what_i_may_approve_and_a_question_says_who_may(served, gonogo):
    build, delete = served.say("s1", "Build it"), served.say("s2", "Delete it")

    def ids(*words):
        lines = gonogo("approvals", "list", *words).stdout.splitlines()[1:]
        return {line.split("\t")[0] for line in lines}

    assert ids() == {build, delete}
    assert ids("--mine") == {delete}
    told = gonogo("approvals", "show", build).stdout
    assert "can approve: ann, bob" in told
    assert "approvals: 0 of 2" in told
    told = gonogo("approvals", "show", delete).stdout
    assert "can approve (no reviewers are named): ann, role:admin" in told
    refused = gonogo("approvals", "decide", build, "approve")
    assert (
        refused.returncode,
        ("Only these people can approve this: ann, bob; ask one of them") in refused.stderr,
    ) == (1, True)
    voted = gonogo("approvals", "decide", delete, "approve")
    assert "1 of 2" in voted.stdout
    assert ids("--mine") == set()


def test_questions_and_answers_of_all_sessions_are_followed_until_ctrl_c(
    served, gonogo, terminal, home
):
    at, quiet = terminal("approvals", "watch", "--bell"), terminal("approvals", "watch")
    at.expect("Open questions: 0")
    quiet.expect("Open questions: 0")
    asked = served.say("s1", "Write it")
    for each in (at, quiet):
        each.expect(f"? {asked} tool s1")
    gonogo("approvals", "decide", asked, "reject", "--feedback", "not now")
    for each in (at, quiet):
        each.expect(f"✗ {asked} tool s1 rejected by local: not now")
        each.interrupt()
        assert each.end() == 130

    # It rings for the question, and not for its answer.
    assert (at.output.count("\a"), quiet.output.count("\a")) == (1, 0)


COMPLETED = """
eval "$(gonogo --show-completion)"
complete -p gonogo
COMP_WORDS=(gonogo plans sh); COMP_CWORD=2; _gonogo_completion gonogo
echo "${COMPREPLY[@]}"
COMP_WORDS=(gonogo approvals show appr_); COMP_CWORD=3; _gonogo_completion gonogo
echo "${COMPREPLY[@]}"
"""


def test_bash_completes_commands_and_the_ids_of_what_waits(served, home, tmp_path):
    asked = served.say("s1", "Write it")
    program = tmp_path / "bin" / "gonogo"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gonogo "$@"\n')
    program.chmod(0o755)
    env = environment(home)
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETED], capture_output=True, text=True, timeout=SECONDS,
        env={**env, "PATH": f"{program.parent}:{env['PATH']}"}, check=False,
    )  # fmt: skip

    assert done.stdout.splitlines() == [
        "complete -o default -F _gonogo_completion gonogo", "show", asked,
    ], done.stderr  # fmt: skip
