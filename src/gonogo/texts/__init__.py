"""What people and models are told, in English and Russian.

Every text has a key and stands in both languages with the same fields, so that a caller names what
it wants to say and never how. Words of the wire (types, statuses, metadata) are not texts and never
change with the language.
"""

from gonogo.texts._language import DEFAULT, LOCALES, Locale, language_of, resolve
from gonogo.texts._plan import account, plan_summary, rejected_plan
from gonogo.texts._question import Asked, asked
from gonogo.texts._reasons import told
from gonogo.texts._say import cause_and_fix, keys, say
from gonogo.texts._time import duration
from gonogo.texts._why import about, why

__all__ = [
    "DEFAULT",
    "LOCALES",
    "Asked",
    "Locale",
    "about",
    "account",
    "asked",
    "cause_and_fix",
    "duration",
    "keys",
    "language_of",
    "plan_summary",
    "rejected_plan",
    "resolve",
    "say",
    "told",
    "why",
]
