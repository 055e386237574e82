"""What the policy says of a call is said in Russian, too, and nothing is lost on the way."""

import ast
import json
import re
from pathlib import Path

from fakes.catalogues import fields, texts
from gonogo.domain.errors import Reason, because, together
from gonogo.domain.text_safety import mixed_letters
from gonogo.i18n import told
from gonogo.policy import VerdictStage, check_command, load_contexts

SOURCE = Path(__file__).parents[2] / "src" / "gonogo"
CASES = Path(__file__).parents[1] / "cases"
TEMPLATE_OF = {"because": 0, "_require": 1}
"""The functions that make reasons, with the place of the template among their arguments."""


def templates() -> set[str]:
    """Each reason that stands in the source."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = TEMPLATE_OF.get(node.func.id)
                if place is not None and isinstance(node.args[place], ast.Constant):
                    found.add(node.args[place].value)
    return found


def test_each_reason_has_a_russian_one_with_the_same_fields_and_no_other_has() -> None:
    russian = texts("ru", "reason")

    assert set(russian) == templates() | set(map(str, VerdictStage))
    wrong = [en for en, ru in russian.items() if fields(en) != fields(ru)]
    assert wrong == []


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
