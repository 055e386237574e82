"""What the policy says of a call is said in Russian, too, and nothing is lost on the way."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.catalogues import fields, texts
from gonogo.client import error_of
from gonogo.domain.errors import (
    MISTAKES,
    AlreadyDecided,
    Busy,
    Conflict,
    GonogoError,
    IllegalTransition,
    Internal,
    InvalidPlan,
    NoRole,
    NotFound,
    NotValid,
    Reason,
    ToolFailed,
    because,
    together,
)
from gonogo.domain.identity import Role
from gonogo.domain.states import (
    ApprovalStatus,
    CallStatus,
    PlanStatus,
    SubtaskStatus,
    TurnStatus,
)
from gonogo.domain.text_safety import mixed_letters
from gonogo.i18n import told, told_of
from gonogo.i18n.translations import WIRE_WORDS
from gonogo.llm import BadModels
from gonogo.policy import BadRules, VerdictStage, check_command, load_contexts
from gonogo.server.auth import TooFast
from gonogo.server.problems import problem_of
from gonogo.webhooks import BadHooks
from gonogo.workspace.files.safe_open import OF_THE_SYSTEM

SOURCE = Path(__file__).parents[2] / "src" / "gonogo"
CASES = Path(__file__).parents[1] / "cases"
TEMPLATE_OF = {"because": 0, "_require": 1, "refusal": 0, "ToolFailed": 1}
"""The functions that make reasons, with the place of the template among their arguments."""
OF_FILES = (BadHooks, BadModels, BadRules)
"""Errors of the operator's files."""
APART = {"NotValid", "Superseded"}
"""Errors whose reason is only for the log."""


def error_names() -> set[str]:
    """The errors whose first argument is what a client is told."""
    found, left = set[str](), [GonogoError]
    while left:
        kind = left.pop()
        left.extend(kind.__subclasses__())
        if kind.__init__ in {GonogoError.__init__, Internal.__init__, Busy.__init__}:
            found.add(kind.__name__)
    assert {kind.__name__ for kind in OF_FILES} <= found
    return found - APART


def calls(path: Path) -> Iterator[tuple[str, ast.expr]]:
    """What makes a reason, with its template; a constant's name stands for the constant."""
    tree = ast.parse(path.read_text("utf-8"))
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    places = TEMPLATE_OF | (dict.fromkeys(error_names(), 0) if "cli" not in path.parts else {})
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            place = places.get(getattr(node.func, "id", getattr(node.func, "attr", "")))
            if place is not None and len(node.args) > place:
                said = node.args[place]
                named = constants.get(said.id) if isinstance(said, ast.Name) else None
                yield f"{path.name}:{node.lineno}", named or said


def templates() -> set[str]:
    """Each reason that stands in the source; what has braces and no parts is not looked up."""
    made = [TooFast("", 1), AlreadyDecided("", "", "", ""), IllegalTransition("", "", "")]
    said = [error.said.template for error in made]
    plain = [str(error) for error in (Busy(), Internal(), NoRole(""), NotValid(""))]
    found = {
        expression.value
        for path in SOURCE.rglob("*.py")
        for _, expression in calls(path)
        if isinstance(expression, ast.Constant) and isinstance(expression.value, str)
    }
    of_the_system = {text for _, text in OF_THE_SYSTEM.values()}
    return {*found, *said, *plain, *MISTAKES.values(), *of_the_system} - without_parts(found)


def without_parts(found: set[str]) -> set[str]:
    """Texts with JSON in them, such as the shape of a message."""
    return {text for text in found if re.search(r'(?<![{$])[{](["c])[^{}]*[ ,:"]', text)}


def test_an_error_names_its_parts_so_that_each_client_can_say_it() -> None:
    formatted = [
        place
        for path in SOURCE.rglob("*.py")
        for place, expression in calls(path)
        if isinstance(expression, ast.JoinedStr)
    ]
    assert formatted == []


def test_each_reason_has_a_russian_one_with_the_same_fields_and_no_other_has() -> None:
    russian = texts("ru", "reason")

    assert set(russian) == templates() | set(map(str, VerdictStage))
    wrong = [en for en, ru in russian.items() if names(en) != names(ru)]
    assert wrong == []


def names(text: str) -> set[str]:
    """The parts that a text names; Russian has other quotation marks around them."""
    return {name for name, _ in fields(text)}


def test_each_word_of_the_wire_within_a_reason_has_a_russian_one() -> None:
    kinds = {
        "plan": PlanStatus, "subtask": SubtaskStatus, "call": CallStatus,
        "question status": ApprovalStatus, "turn": TurnStatus,
    }  # fmt: skip
    for context, words in kinds.items():
        assert set(texts("ru", context)) >= set(map(str, words))
    assert set(texts("ru", "role")) == {role.word for role in Role}
    assert set(WIRE_WORDS.values()) == {*kinds, "role"}


def test_an_error_is_said_in_russian_after_it_went_over_the_wire() -> None:
    inner = InvalidPlan("goal: a plan needs a goal")
    sent = [
        Conflict(
            "Plan {plan_id} is {plan_status} and cannot be paused", plan_id="p", plan_status="draft"
        ),
        InvalidPlan("Subtask {subtask_id!r}: {problem}", subtask_id="a", problem=inner),
        NotFound("Nothing has this id; check the id"),
    ]
    said = []
    for error in sent:
        body = json.loads(bytes(problem_of(error).body))
        back = error_of(body)
        assert (type(back), back.code, str(back)) == (type(error), error.code, str(error))
        said.append(told(back.said, "ru"))
    assert said == [
        (
            "План p нельзя приостановить: черновик. Приостановить можно только план, который "
            "выполняется"
        ),
        "Подзадача «a»: goal: у плана должна быть цель",
        "Ничего с таким id нет. Проверьте id",
    ]


@pytest.mark.parametrize(
    "parts",
    [
        {"template": "No plan found with id={plan_id}", "params": {}},
        {"template": "{x:>999999999}", "params": {"x": 1}},
        {"template": "{x.__class__}", "params": {"x": 1}},
        {"template": 7, "params": []},
        {"params": {"x": 1}},
    ],
)
def test_what_a_server_says_amiss_is_told_as_it_came(parts) -> None:
    assert told(error_of({"code": "x", "detail": "as it came", **parts}).said, "ru") == "as it came"


def test_why_a_call_did_not_work_is_said_in_the_language_of_its_session() -> None:
    near = because("; similar lines: {spots}; read the file again", spots="4-5")
    said = "{path!r} does not hold `old`{near}"
    failure = ToolFailed("not_found_in_file", said, path="a", near=near)

    assert told_of(failure, "ru") == (
        "not_found_in_file: в «a» нет текста `old`; похожие строки: 4-5; прочитайте файл ещё раз"
    )
    assert told_of(failure, None) == f"not_found_in_file: {failure}"
    whole = Conflict("The files cannot be compared: {failure}; try again", failure=failure)
    assert "в «a» нет текста" in told(whole.said, "ru")
    assert told_of(ToolFailed("bad_path", "{name!a} is {x}", name="й", x=1), "ru") == (
        "bad_path: '\\u0439' is 1"
    )


def test_what_the_policy_says_of_any_command_is_known_in_russian() -> None:
    contexts = load_contexts(CASES / "policy_contexts.json")
    english: set[str] = set()
    for line in (CASES / "commands.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        if isinstance(case["cmd"], str):
            reason = check_command(case["cmd"], contexts[case["policy_context"]]).reason
            if not re.search("[а-яё]", told(reason, "ru")):
                english.add(reason)
    written = {rule.reason for context in contexts.values() for rule in context.rules.all()}
    assert english <= written


def test_a_reason_in_a_reason_is_translated_and_what_it_names_is_not() -> None:
    what = because("{word!r} is not {what}", word="a number", what=because("a number"))
    whole = together(("a rule's own words", what, because("nobody can be asked")))

    assert whole == "a rule's own words; 'a number' is not a number; nobody can be asked"
    assert told(whole, "ru") == "a rule's own words; «a number» — не число; спросить некого"
    assert type(told(whole, "en")) is str
    assert told(whole, "en") == told(whole, "de") == told(whole, None) == whole
    assert isinstance(mixed_letters("pаypal"), Reason)


def test_what_was_stored_is_translated_where_it_names_nothing() -> None:
    assert told("it changes nothing", "ru") == "ничего не меняет"
    for stored in ("{path!r} is protected", "as Ann wants it", "{", ""):
        assert told(stored, "ru") == stored
