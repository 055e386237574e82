"""What people and models are told, in English and Russian.

Every text has a key and stands in both languages with the same fields, so that a caller names what
it wants to say and never how. Words of the wire (types, statuses, metadata) are not texts and never
change with the language.
"""

from gonogo.i18n.audit import about, why
from gonogo.i18n.plans import QuestionText, account, asked, plan_summary, rejected_plan, terms_of
from gonogo.i18n.translations import (
    DEFAULT,
    LOCALES,
    Locale,
    cause_and_fix,
    counted,
    decimal,
    duration,
    estimate,
    known_locale,
    language_of,
    phrase,
    resolve,
    say,
    term,
    told,
    told_of,
)

__all__ = [
    "DEFAULT",
    "LOCALES",
    "Locale",
    "QuestionText",
    "about",
    "account",
    "asked",
    "cause_and_fix",
    "counted",
    "decimal",
    "duration",
    "estimate",
    "known_locale",
    "language_of",
    "phrase",
    "plan_summary",
    "rejected_plan",
    "resolve",
    "say",
    "term",
    "terms_of",
    "told",
    "told_of",
    "why",
]
