"""What the policy says of a call is said in Russian, too, and nothing is lost on the way."""

import ast
import json
import re
from collections.abc import Iterator, Set
from functools import cache
from inspect import signature
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
from gonogo.domain.states import ApprovalStatus, CallStatus, PlanStatus, SubtaskStatus, TurnStatus
from gonogo.domain.text_safety import mixed_letters
from gonogo.i18n import WIRE_WORDS, told, told_of
from gonogo.llm import BadModels
from gonogo.policy import BadRules, VerdictStage, check_command, load_contexts
from gonogo.server.auth import TooFast
from gonogo.server.requests import problem_of
from gonogo.webhooks import BadHooks
from gonogo.workspace.files.safe_open import OF_THE_SYSTEM

SOURCE = Path(__file__).parents[2] / "src" / "gonogo"
CASES = Path(__file__).parents[1] / "cases"
TEMPLATE_OF = {"because": 0, "_require": 1, "refusal": 0}
"""The functions that make reasons, with the place of the template among their arguments."""
OF_FILES = (BadHooks, BadModels, BadRules)
"""Errors of the operator's files."""
APART = {"NotValid", "Superseded"}
"""Errors whose reason is only for the log."""
SAID = {"said", "told", "why"}
"""What constructors call the argument that a client is told."""


@cache
def errors() -> dict[str, int]:
    """Our errors that say something, by name, with the place of it among their arguments."""
    found, left = dict[str, int](), [GonogoError]
    while left:
        kind = left.pop()
        left.extend(kind.__subclasses__())
        taken = list(signature(kind).parameters)
        if said := SAID.intersection(taken):
            found[kind.__name__] = taken.index(said.pop())
    assert {kind.__name__ for kind in OF_FILES} | {"ModelFailed", "NotFound"} <= found.keys()
    return {name: place for name, place in found.items() if name not in APART}


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
    places = TEMPLATE_OF | (errors() if "cli" not in path.parts else {})
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            place = places.get(getattr(node.func, "id", getattr(node.func, "attr", "")))
            if place is not None and len(node.args) > place:
                said = node.args[place]
                named = constants.get(said.id) if isinstance(said, ast.Name) else None
                yield f"{path.name}:{node.lineno}", named or said


@cache
def reasons() -> list[tuple[str, ast.expr]]:
    """What makes a reason anywhere in the source."""
    return [made for path in SOURCE.rglob("*.py") for made in calls(path)]


@cache
def templates() -> Set[str]:
    """Each reason that stands in the source."""
    made = [TooFast("", 1), AlreadyDecided("", "", "", ""), IllegalTransition("", "", "")]
    said = [error.said.template for error in made]
    plain = [str(error) for error in (Busy(), Internal(), NoRole(""), NotValid(""))]
    found = {
        expression.value
        for _, expression in reasons()
        if isinstance(expression, ast.Constant) and isinstance(expression.value, str)
    }
    of_the_system = {text for _, text in OF_THE_SYSTEM.values()}
    return {*found, *said, *plain, *MISTAKES.values(), *of_the_system}


def test_an_error_names_its_parts_so_that_each_client_can_say_it() -> None:
    formatted = [place for place, made in reasons() if isinstance(made, ast.JoinedStr)]
    assert formatted == []


SENTENCE = re.compile(r"[a-z]{2,}'?[a-z]* (?:[a-z]{2,}|‹)|› [a-z]{2,}")
"""Two words one after the other, or a word beside something that is filled in."""
CARRIES = {"reason", "why", "said", "problem", "fault", "feedback"}
"""What arguments are called that people read later."""
NOT_FOR_PEOPLE = {"AssertionError", "ConnectionError", "TypeError", "_Malformed", *APART}
"""Errors of which a program is told, the log, or nobody."""
NO_TEXTS = {
    "a message is one object": "JSON-RPC, told to the editor's program",
    "id is a number or a string": "JSON-RPC, told to the editor's program",
    "method is a string": "JSON-RPC, told to the editor's program",
    "a message has a method or an id": "JSON-RPC, told to the editor's program",
    "error is an object": "JSON-RPC, told to the editor's program",
    "its type is none of those that count": "a line of the log",
    "it is not for signatures": "a line of the log",
    "an RSA key of ‹› bits": "a line of the log",
    "the connection is lost": "in the place of the driver's own words, for the log",
    "PostgreSQL keeps no text that has a NUL (0x00)": "a defect of the code",
    "a moment without a time zone cannot be stored": "a defect of the code",
    "Multiple rows were found when one or none was required": "a defect of the code",
    "No row was found when one was required": "a defect of the code",
    "approved by ‹›": "a reason that scripts read; people are told of the decision",
    "run again, as ‹› decided": "a reason that scripts read; people are told of the decision",
    "subtask ‹›": "a reason that clients say by its cause",
}


def spoken(path: Path) -> Iterator[tuple[str, ast.expr]]:
    """What an error is raised with, and what is passed on as a reason."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            kind = getattr(node.exc.func, "id", getattr(node.exc.func, "attr", ""))
            if kind not in NOT_FOR_PEOPLE:
                given = [each.value for each in node.exc.keywords if each.arg != "see"]
                yield from ((f"{path.name}:{node.lineno}", a) for a in [*node.exc.args, *given])
        elif isinstance(node, ast.keyword) and node.arg in CARRIES:
            yield f"{path.name}:{node.value.lineno}", node.value


def text_of(expression: ast.expr) -> str:
    """A text as it is written; what is filled in is `‹›`."""
    if isinstance(expression, ast.JoinedStr):
        parts = (p.value if isinstance(p, ast.Constant) else "‹›" for p in expression.values)
        return "".join(map(str, parts))
    return str(expression.value) if isinstance(expression, ast.Constant) else ""


def test_no_error_and_no_reason_speaks_to_people_outside_the_catalogue() -> None:
    known = templates() | NO_TEXTS.keys()
    found = [
        f"{place}: {text}"
        for path in SOURCE.rglob("*.py")
        if "cli" not in path.parts
        for place, expression in spoken(path)
        if SENTENCE.search(text := text_of(expression)) and text not in known
    ]
    assert found == []


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
    assert set(WIRE_WORDS.values()) == {*kinds, "role", "command line"}


def test_an_error_is_said_in_russian_after_it_went_over_the_wire() -> None:
    inner = InvalidPlan("goal: a plan needs a goal")
    sent = [
        Conflict(
            "Plan {plan_id} is {plan_status} and cannot be paused; only a running plan can",
            plan_id="p",
            plan_status="draft",
        ),
        InvalidPlan("Subtask {subtask_id!r}: {problem}", subtask_id="a", problem=inner),
        NotFound("{name!r} cannot be an id; copy the id from a list", name="a b"),
    ]
    said = []
    for error in sent:
        body = json.loads(bytes(problem_of(error).body))
        back = error_of(body)
        assert (type(back), back.code, str(back)) == (type(error), error.code, str(error))
        said.append(told(back.said, "ru"))
    assert said == [
        (
            "План p нельзя приостановить (состояние: черновик). Приостановить можно только план, "
            "который выполняется"
        ),
        "Подзадача «a»: goal: у плана должна быть цель",
        "«a b» не может быть id. Скопируйте id из списка",
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
    said = "{path!r} does not contain `old`{near}"
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
    whole = together(("a rule's own words", what, because("there is nobody to ask")))

    assert whole == "a rule's own words; 'a number' is not a number; there is nobody to ask"
    assert told(whole, "ru") == "a rule's own words; «a number» — не число; спросить некого"
    assert type(told(whole, "en")) is str
    assert told(whole, "en") == told(whole, "de") == told(whole, None) == whole
    assert isinstance(mixed_letters("pаypal"), Reason)


def test_what_was_stored_is_translated_where_it_names_nothing() -> None:
    assert told("it changes nothing", "ru") == "ничего не меняет"
    for stored in ("{path!r} is protected", "as Ann wants it", "{", ""):
        assert told(stored, "ru") == stored
