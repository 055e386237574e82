"""The rules of a session: made by its owner, obeyed by the gate, written in the audit log."""

from datetime import datetime
from typing import Any

from gonogo.domain.errors import InvalidMessage, RateLimited
from gonogo.domain.identity import Principal
from gonogo.domain.records import SessionRule
from gonogo.policy import Rule, RuleText, kept_rule, session_rule
from gonogo.store import Connection, new_id
from gonogo.store import events as log
from gonogo.store.sessions import active_rules, add_rule, end_rule, next_rule

_MOST = 256


def rules_of(conn: Connection, session_id: str, plan_id: str | None) -> list[tuple[Rule, datetime]]:
    """The rules that hold in a session now, or in a plan of it, and when each was made."""
    found = [r for r in active_rules(conn, session_id) if r.plan_id in {None, plan_id}]
    kept = ((kept_rule(r.position, r.rule, r.made_by), r.created_at) for r in found)
    return [(rule, made_at) for rule, made_at in kept if rule is not None]


def make_session_rule(
    conn: Connection,
    session_id: str,
    text: RuleText,
    by: Principal,
    now: datetime,
    plan_id: str | None = None,
    **about: Any,  # noqa: ANN401 - JSON values
) -> SessionRule:
    """Make a rule that holds in a session from now on.

    Args:
        plan_id: The plan that it holds in, where it is for no other.
        about: What else the audit log says of it.

    Raises:
        InvalidMessage: the rule has a defect.
        RateLimited: the session has too many rules.
    """
    if len(active_rules(conn, session_id)) >= _MOST:
        raise RateLimited(f"A session has at most {_MOST} rules")
    position = next_rule(conn, session_id)
    checked = session_rule(position, text, by.name)
    if isinstance(checked, str):
        raise InvalidMessage(f"rule: {checked}")
    written = text.model_dump(mode="json", exclude_defaults=True)
    made = SessionRule(
        id=new_id("rule"), session_id=session_id, position=position, rule=written,
        made_by=by.name, created_at=now, ended_at=None, plan_id=plan_id,
    )  # fmt: skip
    add_rule(conn, made)
    log.note(
        conn, session_id, now, actor=by.id, action="rule.made", subject=checked.name,
        rule_id=made.id, text=written, reason=checked.reason,
        **about, **({"plan_id": plan_id} if plan_id else {}),
    )  # fmt: skip
    return made


def remove_session_rule(conn: Connection, rule: SessionRule, by: Principal, now: datetime) -> None:
    """End a rule; what it allowed asks again."""
    if end_rule(conn, rule.id, now):
        log.note(
            conn, rule.session_id, now, actor=by.id, action="rule.removed",
            subject=f"session:{rule.position}", rule_id=rule.id, text=rule.rule,
        )  # fmt: skip
