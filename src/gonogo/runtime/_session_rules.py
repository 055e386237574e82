"""The rules of a session: the verbs of its owner."""

from typing import Any

from gonogo.agents import make_session_rule, remove_session_rule
from gonogo.domain.errors import Forbidden, NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import validated
from gonogo.domain.records import SessionRule
from gonogo.domain.views import SessionRuleView
from gonogo.policy import RuleText
from gonogo.runtime._parts import Parts
from gonogo.runtime._sessions import visible
from gonogo.store import Connection
from gonogo.store.sessions import active_rules


class SessionRules:
    """The verbs about the rules of a session."""

    parts: Parts

    async def add_session_rule(
        self, principal: Principal, session_id: str, rule: dict[str, Any]
    ) -> SessionRuleView:
        """Make a rule that holds in a session from now on.

        Raises:
            Forbidden: the principal is neither the session's owner nor an admin.
            InvalidMessage: the rule is not one that a file could hold.
            NotFound: there is no such session that the principal may see.
        """
        principal.require(Role.OPERATOR)
        text = validated(RuleText, rule)
        return _view(await self.parts.store.write(self._add_rule, principal, session_id, text))

    async def session_rules(self, principal: Principal, session_id: str) -> list[SessionRuleView]:
        """The rules that hold in a session, in the order in which they were made.

        Raises:
            NotFound: there is no such session that the principal may see.
        """
        rows = await self.parts.store.read(_rules, principal, session_id)
        return [_view(row) for row in rows]

    async def remove_session_rule(
        self, principal: Principal, session_id: str, rule_id: str
    ) -> None:
        """End a rule, by its id or its name; what it allowed asks again.

        Raises:
            Forbidden: the principal is neither the session's owner nor an admin.
            NotFound: there is no such session, or it has no such rule.
        """
        principal.require(Role.OPERATOR)
        await self.parts.store.write(self._remove_rule, principal, session_id, rule_id)

    def _add_rule(
        self, conn: Connection, principal: Principal, session_id: str, text: RuleText
    ) -> SessionRule:
        check_owner(conn, principal, session_id)
        return make_session_rule(conn, session_id, text, principal, self.parts.clock())

    def _remove_rule(
        self, conn: Connection, principal: Principal, session_id: str, rule_id: str
    ) -> None:
        check_owner(conn, principal, session_id)
        for row in active_rules(conn, session_id):
            if rule_id in {row.id, f"session:{row.position}"}:
                remove_session_rule(conn, row, principal, self.parts.clock())
                return
        raise NotFound(f"No rule found with id={rule_id}")


def check_owner(conn: Connection, principal: Principal, session_id: str) -> None:
    """Check that a principal may decide for the whole of a session.

    Raises:
        Forbidden: it may see the session, and is neither its owner nor an admin.
        NotFound: there is no such session that the principal may see.
    """
    session = visible(conn, principal, session_id)
    if principal.role < Role.ADMIN and session.principal_id != principal.id:
        raise Forbidden("Only the owner of a session, or an admin, makes rules for it")


def _rules(conn: Connection, principal: Principal, session_id: str) -> list[SessionRule]:
    visible(conn, principal, session_id)
    return active_rules(conn, session_id)


def _view(row: SessionRule) -> SessionRuleView:
    return SessionRuleView(
        rule_id=row.id, session_id=row.session_id, name=f"session:{row.position}", rule=row.rule,
        made_by=row.made_by, created_at=row.created_at, plan_id=row.plan_id,
    )  # fmt: skip
