"""What people and models are told, in English and Russian.

Every text has a key and stands in both languages with the same fields, so that a caller names what
it wants to say and never how. Words of the wire (types, statuses, metadata) are not texts and never
change with the language.

What is said of plans and of audit entries is in `plans` and `audit`, which import more.
"""

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
    "cause_and_fix",
    "counted",
    "decimal",
    "duration",
    "estimate",
    "known_locale",
    "language_of",
    "phrase",
    "resolve",
    "say",
    "term",
    "told",
    "told_of",
]
