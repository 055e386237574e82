"""How the REST endpoints wrap several views in one body: an object, never a bare list.

An object can grow a field later; a list could not.
"""

from typing import Any, Literal

from gonogo.domain.approval_views import DecisionAnswer
from gonogo.domain.audit_views import AuditEntry, AuditHead
from gonogo.domain.base import View
from gonogo.domain.plan_views import RevisionView
from gonogo.domain.views import (
    AgentView,
    CallView,
    GrantView,
    ServerView,
    SessionRuleView,
    TokenView,
    ToolView,
)


class Health(View):
    """Whether the server is there."""

    status: Literal["ok", "ready", "closing", "unavailable"]


class Revisions(View):
    """A plan's revisions, oldest first."""

    revisions: list[RevisionView]


class DecisionAnswers(View):
    """What came of each of several decisions."""

    answers: list[DecisionAnswer]


class Agents(View):
    """The agent profiles."""

    agents: list[AgentView]


class Tools(View):
    """The tools that agents may use."""

    tools: list[ToolView]


class Servers(View):
    """The foreign (MCP) servers of the configuration."""

    servers: list[ServerView]


class Models(View):
    """The models that could be used here."""

    models: list[dict[str, Any]]


class SessionRules(View):
    """The rules of a session, in the order in which they were made."""

    rules: list[SessionRuleView]


class Calls(View):
    """Tool calls as they were judged, oldest first."""

    calls: list[CallView]


class Grants(View):
    """What approved plans may do without a question."""

    grants: list[GrantView]


class Audit(View):
    """A stretch of an audit chain, or a page of the whole log; oldest first."""

    entries: list[AuditEntry]
    before: str | None = None
    """Of the whole log: where the page before this one ends. None where nothing is before it."""


class AuditHeads(View):
    """Places in audit chains."""

    heads: list[AuditHead]


class Tokens(View):
    """The tokens, without their secrets."""

    tokens: list[TokenView]


class MadeToken(View):
    """A new token; its secret is shown this once."""

    token: str
    view: TokenView


class Problem(View):
    """An error as `application/problem+json`."""

    type: str
    title: str
    status: int
    detail: str
    code: str
