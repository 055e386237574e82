"""The gate: it answers allow, ask or deny before a call runs, and says why.

Promises: the answer is a pure function of the call, the rules, the conditions and the grant;
a command that is not understood is never allowed; a compound command gets the verdict of its
strictest part; an allowed command runs in its canonical form, not as it was written.
"""

from gonogo.domain.paths import covers
from gonogo.policy.products import products_of
from gonogo.policy.programs import programs_of
from gonogo.policy.reviewers import KnownPeople, Reviews, load_reviews, review_findings
from gonogo.policy.rules import (
    ALWAYS_ASK,
    BadRules,
    Conditions,
    Rule,
    RuleLook,
    Rules,
    RuleText,
    TraceStep,
    VerdictStage,
    VerdictTrace,
    kept_rule,
    lasting,
    load_rules,
    make_rule,
    make_rules,
    narrowest,
    read_prefix,
    session_rule,
)
from gonogo.policy.shell import ParsedCommand, Simple, Unparsed, parse_command
from gonogo.policy.verdict import (
    CONTROL,
    UNATTENDED,
    Answered,
    PolicyContext,
    as_toml,
    asks_anyway,
    check_asks,
    check_command,
    explain,
    load_contexts,
    read_contexts,
    suggest,
    takes_no_more,
    verdict,
)

__all__ = [
    "ALWAYS_ASK",
    "CONTROL",
    "UNATTENDED",
    "Answered",
    "BadRules",
    "Conditions",
    "KnownPeople",
    "ParsedCommand",
    "PolicyContext",
    "Reviews",
    "Rule",
    "RuleLook",
    "RuleText",
    "Rules",
    "Simple",
    "TraceStep",
    "Unparsed",
    "VerdictStage",
    "VerdictTrace",
    "as_toml",
    "asks_anyway",
    "check_asks",
    "check_command",
    "covers",
    "explain",
    "kept_rule",
    "lasting",
    "load_contexts",
    "load_reviews",
    "load_rules",
    "make_rule",
    "make_rules",
    "narrowest",
    "parse_command",
    "products_of",
    "programs_of",
    "read_contexts",
    "read_prefix",
    "review_findings",
    "session_rule",
    "suggest",
    "takes_no_more",
    "verdict",
]
