"""What clients are shown: the bodies of the REST endpoints.

Those of plans and of reports have modules of their own. A field without a value is absent on the
wire (`model_dump(exclude_none=True)`).
"""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field

from gonogo.domain.base import Filter, Page, View
from gonogo.domain.errors import GonogoError, of_parts, parts_of
from gonogo.domain.identity import RoleWord
from gonogo.domain.plan_views import AuditEntry, AuditHead, ModelUsageView, RevisionView
from gonogo.domain.states import ApprovalKind, ApprovalStatus, SessionState

MOST_CHOICES = 9
"""What one question offers at most: each has a key of its own, 1 to 9."""


class SessionSummary(View):
    """How a session stands, for those who choose one of many."""

    state: SessionState
    waiting: int
    """Its open questions."""
    done: int
    """Of the subtasks of its latest plan, those that completed."""
    total: int
    """The subtasks of its latest plan; 0: it has none."""
    cost: float
    """US dollars for all its model requests, as far as prices are known."""


class SessionView(View):
    """A session. `agent` answers the next message.

    Its agents ask `model`, or the server's where it has none; nobody answers in one that is
    `unattended`, so what would ask is denied there. `limits` is what it may take in all.
    """

    session_id: str
    title: str | None = None
    workspace: str
    locale: str | None = None
    tool_host: Literal["server", "client"] = "server"
    agent: str
    active_plan_id: str | None = None
    last_seq: int
    model: str | None = None
    unattended: bool = False
    limits: dict[str, float] | None = None
    created_at: datetime
    updated_at: datetime
    summary: SessionSummary | None = None
    """Only in a list of sessions."""


class SessionUsage(View):
    """What the model requests of a session took, those of its plans included."""

    session_id: str
    usage: ModelUsageView
    limits: dict[str, float] | None = None
    """What it may take in all, by `tokens`, `cost`, `requests`: only those that are set."""


class Workspaces(View):
    """Folders in which a session can be opened."""

    default: str | None = None
    """What a session gets that names none; absent: it has to name one."""
    recent: list[str]
    """Those of the caller's sessions, the latest first."""
    roots: list[str]
    """Folders under which every folder can be named."""


class SteeredTurn(View):
    """The turn whose agent hears what was said."""

    session_id: str
    turn_id: str


class StateRoom(View):
    """What the state of an installation takes, in bytes."""

    database: int
    free: int
    """Of the database, what is known to be needed by nothing."""
    log: int
    """What the database writes first of all."""
    snapshots: int


class Vacuumed(View):
    """What there was before room was given back, and what is left."""

    dry_run: bool
    """Nothing was done: `after` is what would be left at most."""
    before: StateRoom
    after: StateRoom


class WantedSessions(Page):
    """Which sessions a list shows."""

    q: Annotated[str | None, Field(max_length=200)] = None
    state: SessionState | None = None
    after: Annotated[str | None, Field(max_length=200)] = None


class SessionList(View):
    """A page of sessions, newest first; `total` counts all that fit, on whatever page."""

    sessions: list[SessionView]
    total: int
    next: str | None = None
    """The `after` of the page that follows; absent: nothing does."""


class MessageView(View):
    """One message of a session's history. A tool message answers `call_id`."""

    role: Literal["user", "assistant", "tool"]
    content: str
    agent: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    call_id: str | None = None
    tool_name: str | None = None
    subtask_id: str | None = None
    created_at: datetime


class History(View):
    """A session's messages in order."""

    session_id: str
    messages: list[MessageView]


class ContextPart(View):
    """One kind of what a request to a model holds."""

    part: str
    """`system`, `tools`, `texts` of people and of the runtime, `summary`, `replies`, `results`, and
    results of which less is shown: `excerpts`, `lines`."""
    tokens: int
    count: int


class ContextView(View):
    """What the next request of a session's conversation would hold, in tokens as estimated."""

    session_id: str
    agent: str
    window: int | None = None
    """Of the model; None: no model is configured."""
    tokens: int
    """In all, as the provider counted the last request where it did."""
    parts: list[ContextPart]


class GrantView(View):
    """What an approved plan may do without a question."""

    grant_id: str
    session_id: str
    plan_id: str
    revision: int
    subtask_id: str
    scope: dict[str, Any] | None = None
    status: Literal["active", "ended", "revoked"]
    created_at: datetime
    ended_at: datetime | None = None
    ended_because: str | None = None


class SessionRuleView(View):
    """A rule of one session, as it is written; `name` is what verdicts call it."""

    rule_id: str
    session_id: str
    name: str
    rule: dict[str, Any]
    made_by: str
    created_at: datetime
    plan_id: str | None = None
    """The plan that it holds in, where it does not hold in the whole session."""


class CallView(View):
    """A tool call as it was judged. `arguments` are those that say what it touches."""

    call_id: str
    session_id: str
    agent: str
    tool_name: str
    tool_class: str
    arguments: dict[str, Any]
    plan_id: str | None = None
    revision: int | None = None
    subtask_id: str | None = None
    decision: Literal["allow", "ask", "deny"] | None = None
    rule: str | None = None
    reason: str | None = None
    answer: str | None = None
    """What became of the question, if a person was asked."""
    granted: bool = False
    """An approved plan's grant was there for its subtask."""
    scope: dict[str, Any] | None = None
    created_at: datetime


class TokenView(View):
    """A token, without its secret."""

    token_id: str
    name: str
    role: str
    created_at: datetime
    revoked_at: datetime | None = None


class Me(View):
    """Who asks: the one whom rules of review, comments and audit entries name."""

    id: str
    name: str
    role: RoleWord
    until: datetime | None = None
    """When the credential ends by itself; absent: when it is revoked."""


class AgentView(View):
    """An agent profile."""

    name: str
    description: str
    tools: list[str]
    may_write: list[str]
    source: str


class SightingView(View):
    """A server's tool as it described it from a moment on, until the next one."""

    digest: str
    seen_at: datetime
    accepted_at: datetime | None = None


class ServerView(View):
    """A foreign (MCP) server. `tools` are what it lists, or listed when it last ran."""

    name: str
    place: str
    state: Literal["idle", "ready", "failed"]
    error: str | None = None
    version: str | None = None
    tools: list[str]
    refused: dict[str, str] = {}
    """Its tools that are not taken, and why."""
    changed: dict[str, list[str]] = {}
    """Its tools that are not as they were accepted: what allowed them earlier does not count."""
    agents: list[str] = []
    """Who is offered its tools."""
    sightings: dict[str, list[SightingView]] = {}
    """What was seen of each of its tools, oldest first."""
    parts: dict[str, dict[str, Any]] = {}
    """Of `error` and of why tools are refused, by the text: `template` and `params`, as problems
    have them."""


class AcceptedTool(View):
    """A server's tool that counts as it was seen last."""

    name: str
    news: bool
    """False: it did already."""


class RuleView(View):
    """A rule as it is written. `name` is what verdicts call it, `where` its file and line."""

    name: str
    tier: Literal["admin", "user"]
    where: str
    rule: dict[str, Any]


class PolicyView(View):
    """What decides before a person is asked, and who is asked then; in the order in which it holds.

    `version` is the digest of the rules, which every approval binds.
    """

    version: str
    rules: list[RuleView]
    reviews: list[RuleView]


class Look(View):
    """A rule, grant or check that was looked at for a call."""

    rule: str
    where: str
    """File and line, or nothing."""
    matched: bool
    why: str
    """Why it does not speak of the call."""


class JudgedStep(View):
    """A step of a verdict. `part` is the part of a compound command that it is about."""

    step: str
    part: str | None = None
    considered: list[Look]
    decided: str | None = None


class Judgement(View):
    """What the gate makes of a call that nobody made, and of what that is made."""

    decision: Literal["allow", "ask", "deny"]
    reason: str
    rule: str
    where: list[str]
    tool: str
    preview: str
    steps: list[JudgedStep]


class ToolView(View):
    """A tool that agents may use."""

    name: str
    description: str
    tool_class: str
    parameters: dict[str, Any]


# What clients are shown of questions to people, and of what came of answers.


class ReviewView(View):
    """Who decides a question."""

    needed: int
    """How many have to approve."""
    role: str
    """The role that they need."""
    reviewers: list[str] | None = None
    """Nobody else approves; absent: whoever sees the question."""
    seen_by: list[str] | None = None
    """Who sees it where no reviewers are named; `role:admin` is a whole role."""
    not_requester: bool = False
    """Who asked for the work, or had it changed, does not approve it."""
    asked_too: list[str] | None = None
    """Who had it changed: edited it, ordered a replan, or sent it back to its planner."""
    escalates_at: datetime | None = None
    escalates_to: list[str] | None = None
    """Who may decide from then on, too; `role:admin` is a whole role."""
    rules: list[str]
    problem: str | None = None
    """Why nobody can approve it as things stand."""


class VoteView(View):
    """One of the approvals that a question needs."""

    name: str
    decision: str
    created_at: datetime


class ApprovalView(View):
    """A question to a person."""

    approval_id: str
    request_id: str
    kind: ApprovalKind | str
    request_type: ApprovalKind | str
    session_id: str
    subject: str
    details: dict[str, Any]
    reason: str
    digest: str
    status: ApprovalStatus
    created_at: datetime
    expires_at: datetime | None = None
    plan_id: str | None = None
    revision: int | None = None
    subtask_id: str | None = None
    call_id: str | None = None
    tool_name: str | None = None
    arguments: dict[str, Any] | None = None
    requested_by: str | None = None
    """Who sent the message that led to it."""
    review: ReviewView | None = None
    votes: list[VoteView] | None = None
    escalated_at: datetime | None = None
    group: str | None = None
    """The same for questions that are identical."""
    decided_by: str | None = None
    decided_at: datetime | None = None
    approved_by: list[str] | None = None
    """All who approved, where several had to."""
    feedback: str | None = None
    open_comments: int | None = None
    """Comments on the plan without an answer, now; only of a plan's question that is open."""


class PendingApprovals(View):
    """What a session waits for."""

    session_id: str
    pending_approvals: list[ApprovalView]
    count: int


class ApprovalList(View):
    """A page of the approvals: the newest that fit, oldest first."""

    approvals: list[ApprovalView]
    count: int
    """How many are on this page."""
    before: str | None = None
    """Ask for what is before this; None where nothing is."""


class ApprovalFilter(View):
    """Which approvals a list shows."""

    status: ApprovalStatus | None = None
    session_id: str | None = None
    kind: str | None = None
    group: str | None = None
    mine: bool = False
    """Only those that wait for the one who asks."""


class WantedApprovals(BaseModel):
    """A page of the approvals."""

    status: ApprovalStatus | None = None
    session_id: Filter = None
    kind: ApprovalKind | None = None
    group: Filter = None
    mine: bool = False
    before: Filter = None
    """The `before` of the page that follows the one that is asked for."""
    limit: Annotated[int, Field(ge=1, le=1_000)] = 1_000

    @property
    def filter(self) -> ApprovalFilter:
        """Which approvals it shows."""
        return ApprovalFilter(**self.model_dump(exclude={"before", "limit"}))


class DecisionAnswer(View):
    """What came of one decision. `ok` false carries what a problem does, from `code` on."""

    id: str
    ok: bool
    status: str | None = None
    outcome: Literal["decided", "voted", "asked_again"] | None = None
    """`voted`: more people have to approve; `asked_again`: an edit is now asked about."""
    votes: int | None = None
    needed: int | None = None
    code: str | None = None
    detail: str | None = None
    template: str | None = None
    params: dict[str, Any] | None = None

    @classmethod
    def refused(cls, name: str, error: GonogoError) -> Self:
        """The answer to a decision that was not taken."""
        said = error.said
        return cls(id=name, ok=False, code=error.code, detail=str(said), **parts_of(said))

    @property
    def said(self) -> str:
        """Why it was not taken, with its parts."""
        return of_parts(
            self.detail or "Refused", {"template": self.template, "params": self.params}
        )


class LinkView(View):
    """A link that decides one question once, in the name of one person. Who has it may use it."""

    link_id: str
    approval_id: str
    name: str
    url: str
    expires_at: datetime


# How the REST endpoints wrap several views in one body: an object, never a bare list.
#
# An object can grow a field later; a list could not.


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


class NodeView(View):
    """A process that shares the work with others: a server, or a worker."""

    node_id: str
    kind: str
    host: str
    pid: int
    pool: str | None = None
    """The workspaces that a worker takes."""
    capacity: int
    """How many workspaces a worker works in at one time."""
    places: int
    """In how many it works now."""
    version: str
    started_at: datetime
    beat_at: datetime
    """When it last said that it lives."""
    status: str
    """`alive`, `draining`, `other_rules` or `dead`."""
    policy: str = ""
    """A digest of its rules: a worker with other ones than the servers takes no workspace."""
    labels: dict[str, str] = {}


class PlaceView(View):
    """A workspace that several processes share, and which worker has it."""

    place_id: str
    workspace: str
    pool: str
    status: str
    """`owned`; `waiting` for a worker; `idle`; or `lost`, as its worker is dead."""
    fence: int
    """Counted up with each worker that gets it."""
    node_id: str | None = None
    host: str | None = None
    pid: int | None = None


class PlaceOwnerView(View):
    """A worker that got a workspace."""

    node_id: str
    fence: int
    since: datetime
    host: str | None = None
    """Known for a day after its end."""
    pid: int | None = None


class PlaceShown(PlaceView):
    """One workspace that several processes share, and who had it."""

    since: datetime | None = None
    """When the worker that has it got it."""
    until: datetime | None = None
    """When another worker may take it, unless its worker says before that it lives."""
    handed: int
    """What was handed to its worker, which has not taken it yet."""
    owners: list[PlaceOwnerView]
    """The workers that got it last, newest first."""


class PlaceList(View):
    """The workspaces that several processes share."""

    places: list[PlaceView]


class PlaceLeft(View):
    """What came of asking for a workspace to be released."""

    released: bool
    """False: no worker that is alive had it."""


class Nodes(View):
    """The processes that share the work."""

    nodes: list[NodeView]


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
    """What is wrong, and what to do, in English."""
    code: str
    """The kind of error; programs act on it."""
    template: str | None = None
    """`detail` with the names of its parts in braces: the key of its text in other languages."""
    params: dict[str, Any] | None = None
    """The parts by name: numbers, truths, text, or `{detail, template?, params?}`."""
    see: str | None = None
    """Of what was not found: the command that lists what there is."""
