"""Who decides a question, what it is about, and the links and comments that go with it."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime

import pytest

from gonogo.domain.checks import DoneCheck
from gonogo.domain.findings import ProfileFacts
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan import Scope, Subtask
from gonogo.domain.records import Comment
from gonogo.domain.reviews import (
    NO_REVIEW,
    DecisionLink,
    Deed,
    Doings,
    Review,
    comment_facts,
    deed_of,
    is_genuine,
    link_id_of,
    link_token,
    reviewer_id,
    reviewer_name,
    standing_comments,
    strictest,
)
from gonogo.domain.tool_calls import Access, ToolClass

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ANN = Principal(id="user:ann", name="ann", role=Role.OPERATOR)


def test_without_a_review_anybody_who_sees_a_question_decides_it_alone():
    assert NO_REVIEW.admits(ANN)
    assert NO_REVIEW.has_role(ANN)
    assert not NO_REVIEW.names(ANN)
    assert not NO_REVIEW.bars(ANN, ANN.id)
    assert NO_REVIEW.problem(ANN.id) is None
    assert NO_REVIEW.model_dump() == {
        "needed": 1, "role": "operator", "reviewers": None, "not_requester": False,
        "expires_after": None, "escalate_after": None, "escalate_to": (), "escalate_role": None,
        "also": (), "also_role": None, "asked_too": (), "rules": (),
    }  # fmt: skip


def test_the_strictest_of_no_reviews_is_none():
    assert strictest([]) == NO_REVIEW
    assert strictest([Review(expires_after=9.0), Review(expires_after=5.0)]).expires_after == 5.0
    late = [Review(escalate_after=n, escalate_to=("user:bob",)) for n in (3.0, 8.0)]
    assert strictest(late).escalate_after == 8.0
    # Without somebody to let in, nobody waits for it.
    assert strictest([Review(escalate_after=3.0)]).escalate_after is None


@pytest.mark.parametrize(
    ("review", "asked_by", "problem"),
    [
        ({"reviewers": ()}, None, "the rules of review name no reviewer in common"),
        ({"reviewers": (), "rules": ("admin:review:1", "user:review:2")}, None,
         "the rules of review name no reviewer in common (admin:review:1, user:review:2)"),
        ({"reviewers": ("user:ann",), "needed": 2}, None,
         "2 approvals are needed, and 1 may approve"),
        ({"reviewers": ("user:ann",), "not_requester": True, "rules": ("r",)}, "user:ann",
         "1 approvals are needed, and 0 may approve (r)"),
        ({"reviewers": ("user:ann", "user:bob"), "not_requester": True,
          "asked_too": ("user:bob",)}, "user:ann", "1 approvals are needed, and 0 may approve"),
        ({"reviewers": ("user:ann",), "not_requester": False}, "user:ann", None),
        ({"reviewers": ("user:ann",), "also": ("user:bob",), "needed": 2}, None, None),
        ({"reviewers": (), "also": ("user:bob",)}, None, None),
        ({"reviewers": (), "also_role": "admin"}, None, None),
    ],
)  # fmt: skip
def test_why_nobody_can_approve_is_said(review, asked_by, problem):
    assert Review(**review).problem(asked_by) == problem


def test_people_are_named_in_files_without_what_says_that_they_are_people():
    names = {"ann": "user:ann", "oidc:1": "oidc:1", "local": "local"}
    assert {written: reviewer_id(written) for written in names} == names
    assert [reviewer_name(each) for each in ("user:ann", "oidc:1", "local")] == [
        "ann", "oidc:1", "local",
    ]  # fmt: skip


def test_a_deed_is_all_that_a_call_does():
    access = Access(reads=("r",), writes=("w",), deletes=("d",), command="ls", cwd="sub")
    assert deed_of("coder", "execute_command", access) == Deed(
        agent="coder", tools=frozenset({"execute_command"}), commands=("ls",), declared=False,
        paths=("r", "w", "d"), cwd="sub",
    )  # fmt: skip
    assert deed_of("coder", "read_file", Access(command="")).commands == ("",)
    assert deed_of("coder", "read_file", Access()) == Deed(
        agent="coder", tools=frozenset({"read_file"})
    )
    assert Deed() == Deed(
        agent=None, tools=frozenset(), commands=(), declared=False, paths=(), cwd="."
    )


def test_what_subtasks_could_do_is_told_without_what_asks_anyway():
    doings = Doings(
        agents={"coder": ProfileFacts(tools=("write_file", "execute_command", "delete_file"))},
        tools={"write_file": ToolClass.IDEMPOTENT, "execute_command": ToolClass.OTHER,
               "delete_file": ToolClass.IRREVERSIBLE},
        always_ask=frozenset({"delete_file"}),
    )  # fmt: skip

    def of(**more):
        return doings.of([Subtask(id="a", description="x", agent="coder", **more)])

    scope = Scope(paths=("src/**",), commands=("make",))
    both, write = frozenset({"write_file", "execute_command"}), frozenset({"write_file"})
    told = {"agent": "coder", "declared": True}
    assert of(scope=scope) == (Deed(tools=both, commands=("make",), paths=("src/**",), **told),)
    assert of() == (Deed(tools=write, paths=("**",), **told),)
    checked = of(scope=Scope(paths=("a",)), done_when=(DoneCheck(command="pytest"),))
    assert checked == (Deed(tools=both, commands=("pytest",), paths=("a",), **told),)
    assert Doings().of([Subtask(id="a", description="x", agent="coder")]) == (Deed(**told),)


LINK = DecisionLink(
    id="link_" + "a" * 32, approval_id="appr_1", digest="sha256:1", principal_id="user:ann",
    name="ann", role=2, made_by="user:bob", created_at=NOW, expires_at=NOW, used_at=None,
    revoked_at=None,
)  # fmt: skip


def test_a_link_is_signed_over_all_that_it_stands_for():
    signed = f'["{LINK.id}","appr_1","sha256:1","user:ann","2026-11-21T12:00:00+00:00"]'
    mac = hmac.new(b"key", signed.encode(), hashlib.sha256).digest()
    token = f"{LINK.id}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"

    assert link_token(LINK, b"key") == token
    assert link_id_of(token) == LINK.id
    assert is_genuine(token, LINK, b"key")
    assert not is_genuine(token, LINK, b"other")
    for wrong in ("", LINK.id, token + "=", f"x{token}", token.replace(".", "!")):
        assert link_id_of(wrong) is None
        assert not is_genuine(wrong, LINK, b"key")


def comment(key, **more):
    return Comment(
        id=key, session_id="s1", plan_id="p1", revision=1, subtask_id=None, author_id="user:ann",
        author="ann", content="Why?", created_at=NOW, **more,
    )  # fmt: skip


def test_a_comment_is_shown_while_it_is_open_and_with_the_revision_that_answers_it():
    open_, told, older = (
        comment("c1"), comment("c2", answer="So.", answered_revision=2),
        comment("c3", answer="So.", answered_revision=1),
    )  # fmt: skip
    facts = {"author": "ann", "revision": 1, "content": "Why?"}
    assert standing_comments([open_, told, older], 2) == [
        {"comment_id": "c1"} | facts,
        {"comment_id": "c2", "answer": "So.", "answered_revision": 2} | facts,
    ]
    of_subtask = Comment(
        id="c4", session_id="s1", plan_id="p1", revision=1, subtask_id="a", author_id="user:ann",
        author="ann", content="Why?", created_at=NOW,
    )  # fmt: skip
    assert comment_facts(of_subtask) == {"comment_id": "c4", "subtask_id": "a"} | facts
