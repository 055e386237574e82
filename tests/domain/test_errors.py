"""Errors: each has its word and its status on the wire, and says whole what it knows."""

from typing import Annotated

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator

from gonogo.domain import errors
from gonogo.domain.errors import (
    AlreadyDecided,
    Busy,
    GonogoError,
    IdentityUnknown,
    IllegalTransition,
    ModelFailed,
    NoRole,
    NotValid,
    OutcomeUnknown,
    Reason,
    Said,
    ToolFailed,
    because,
    defect_of,
    defects_of,
    of_parts,
    parts_by_text,
    parts_of,
    together,
)
from gonogo.domain.failures import NoWork, classify
from gonogo.domain.replanning import BudgetSpent

WIRE = {
    "AlreadyDecided": ("already_decided", 409), "Busy": ("unavailable", 503),
    "Conflict": ("conflict", 409), "Expired": ("expired", 410), "Forbidden": ("forbidden", 403),
    "GonogoError": ("internal", 500), "IdentityUnknown": ("unavailable", 503),
    "IllegalTransition": ("conflict", 409), "Internal": ("internal", 500),
    "InternalFailure": ("internal", 500), "InvalidArguments": ("invalid_arguments", 422),
    "InvalidCursor": ("invalid_cursor", 400), "InvalidMessage": ("invalid_message", 422),
    "InvalidPlan": ("invalid_plan", 422), "ModelFailed": ("model_error", 502),
    "ModelNotConfigured": ("model_not_configured", 503), "NoRole": ("forbidden", 403),
    "NotFound": ("not_found", 404), "NotValid": ("unauthorized", 401),
    "OutcomeUnknown": ("internal", 500), "Unwritable": ("internal", 500),
    "PlaceLost": ("conflict", 409),
    "PolicyDenied": ("policy_denied", 403),
    "PromptTooLong": ("model_error", 502), "RateLimited": ("rate_limited", 429),
    "Refused": ("invalid_message", 422), "Superseded": ("conflict", 409),
    "ToolFailed": ("internal", 500), "TooLarge": ("too_large", 413),
    "Unauthorized": ("unauthorized", 401),
    "UnknownType": ("unknown_type", 422), "UnsupportedMedia": ("invalid_message", 415),
}  # fmt: skip


def test_each_error_has_its_word_and_its_status():
    made = {
        name: (kind.code, kind.status)
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, GonogoError)
    }
    # What it says does not matter to that; somebody has to say it.
    assert str(because("so")) == "so"
    assert made == WIRE
    assert (BudgetSpent.code, BudgetSpent.status) == ("rate_limited", 429)


def test_a_plan_that_does_nothing_is_a_models_failure_that_may_pass():
    told = classify(NoWork("It did nothing"))
    assert (NoWork.code, NoWork.status) == ("model_error", 502)
    assert told.facts == {
        "message": "It did nothing", "severity": "medium", "category": "no_work",
    }  # fmt: skip


def test_an_error_keeps_what_it_was_made_of():
    decided = AlreadyDecided("the plan", "approved", "Ann", "today")
    assert str(decided) == "the plan was already approved by Ann at today"
    moved = IllegalTransition("plan p", "failed", "paused")
    assert str(moved) == "plan p is failed and cannot become paused"
    assert (moved.subject, moved.state, moved.target) == ("plan p", "failed", "paused")
    unknown = OutcomeUnknown("the machine went down")
    assert (str(unknown), unknown.kind, unknown.why) == (
        "the machine went down", "unknown", "the machine went down",
    )  # fmt: skip
    assert (str(ToolFailed("timeout", "late")), ToolFailed("timeout", "late").kind) == (
        "late", "timeout",
    )  # fmt: skip


def test_a_model_that_failed_was_asked_and_will_fail_again_unless_it_is_said():
    plain = ModelFailed("x")
    assert (plain.http_status, plain.retry_after, plain.transient, plain.sent) == (
        None, None, False, True,
    )  # fmt: skip
    said = ModelFailed("x", http_status=503, retry_after=2.0, transient=True, sent=False)
    assert (said.http_status, said.retry_after, said.transient, said.sent) == (
        503, 2.0, True, False,
    )  # fmt: skip


def test_who_signs_in_is_told_less_than_the_log():
    hidden, told = NotValid("no exp"), NotValid("it has expired", "The token has expired")
    assert (str(hidden), hidden.reason) == (
        (
            "This server does not accept this token; get a new one from your identity provider, or "
            "create one: gonogo token create"
        ),
        "no exp",
    )
    assert (str(told), told.reason) == ("The token has expired", "it has expired")
    stranger = NoRole("oidc:1")
    assert stranger.principal_id == "oidc:1"
    assert str(stranger) == (
        "This token gives you no role here; ask an admin to map one of its roles"
    )


def test_what_is_away_says_when_to_come_again_and_why_only_to_the_log():
    plain, known = Busy(), IdentityUnknown("Try later", reason="id.example.org")
    said = "The database cannot be used now; try again in a moment"
    assert (str(plain), plain.reason, plain.retry_after) == (said, said, 2)
    assert (str(known), known.reason) == ("Try later", "id.example.org")


class Form(BaseModel):
    size: Annotated[int, Field(ge=1)]
    inner: dict[str, int] = {}
    pair: tuple[int, ...] = ()
    why: Said = ""

    @field_validator("size")
    @classmethod
    def _even(cls, size: int) -> int:
        if size % 2:
            raise ValueError("it is odd")
        return size


@pytest.mark.parametrize(
    ("fields", "said", "of_whole"),
    [
        ({"size": 3}, "size: it is odd", "size: it is odd"),
        ({"size": 2, "inner": {"a": "x"}},
         "inner.a: Input should be a valid integer, unable to parse string as an integer", None),
        ({"size": 2, "pair": 3}, "pair: Input should be a valid list", None),
        ([], "Input should be a valid dictionary or instance of Form",
         "form: Input should be a valid dictionary or instance of Form"),
    ],
)  # fmt: skip
def test_the_first_defect_is_told_with_its_field(fields, said, of_whole):
    with pytest.raises(ValidationError) as refused:
        Form.model_validate(fields)
    assert defect_of(refused.value) == said
    assert defect_of(refused.value, "form") == (of_whole or said)


def test_a_reason_knows_its_words_and_several_are_one():
    first, second = because("{who} asks", who="ann"), because("{n} times", n=2)
    assert (first, first.template, first.fields) == ("ann asks", "{who} asks", {"who": "ann"})
    both = together([first, second])
    assert (both, both.template) == ("ann asks; 2 times", "{first}; {then}")
    assert both.fields == {"first": first, "then": second}
    assert together([first]) is first
    assert isinstance(Form(size=2, why=first).why, Reason)
    assert Form(size=2, why="stored").why == "stored"


def test_the_parts_of_several_sentences_are_told_by_their_texts():
    nobody = because("nobody asks")
    assert parts_by_text([because("{who} asks", who="ann"), nobody, "as it is"]) == {
        "ann asks": {"template": "{who} asks", "params": {"who": "ann"}},
        "nobody asks": {"template": "nobody asks", "params": {}},
    }
    assert parts_by_text([]) == {}


def test_a_sentence_whose_parts_did_not_arrive_is_a_plain_text():
    said = because("{who} asks", who=because("{name} of us", name="ann"))
    assert of_parts(str(said), parts_of(said)) == said
    assert of_parts(str(said), parts_of(said)).template == "{who} asks"
    for body in ({}, {"template": "{who} asks"}, {"template": 1, "params": {}}):
        assert type(of_parts("ann asks", body)) is str


def test_a_defect_of_a_plan_knows_its_subtask_and_others_pass_as_they_are():
    with pytest.raises(errors.InvalidPlan) as refused, defects_of("a"):
        raise errors.InvalidPlan("x")
    assert refused.value.subtask_id == "a"
    assert errors.InvalidPlan("x").subtask_id is None
    with pytest.raises(errors.Conflict), defects_of("a"):
        raise errors.Conflict("x")
