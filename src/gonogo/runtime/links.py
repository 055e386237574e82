"""Links: the verbs that make and end them, and what somebody does who has one."""

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import Conflict, Forbidden, InvalidMessage, NotFound, Refused, because
from gonogo.domain.identity import Memory, Principal, Role
from gonogo.domain.records import Approval
from gonogo.domain.reviews import (
    DecisionLink,
    LinkState,
    is_genuine,
    link_id_of,
    link_token,
    reviewer_name,
)
from gonogo.domain.states import ApprovalStatus, DecisionWord
from gonogo.domain.views import LinkView
from gonogo.execution.approvals import Refusal, Ruling, is_reviewer, objection
from gonogo.i18n import DEFAULT
from gonogo.i18n.texts import asked
from gonogo.runtime.approvals import Approvals, readable_approval
from gonogo.runtime.oidc import memory_of
from gonogo.runtime.services import Parts
from gonogo.runtime.views import view_of
from gonogo.settings import Settings
from gonogo.store import Store, Tx, new_id
from gonogo.store import events as log
from gonogo.store.calls import (
    add_link,
    approval_of,
    link_of,
    open_links,
    owner_of,
    revoke_link,
    use_link,
)
from gonogo.store.people import last_sight, names, standing
from gonogo.store.sessions import spoken_in
from gonogo.telemetry import Metrics
from gonogo.webhooks import Announcer, Sender, load_hooks

# Links that decide: whom one can be made for, what it is good for now, and its address.

_KEY_BYTES = 32


def link_key(home: Path) -> bytes:
    """The key that signs links, made at its first use; only its owner may read it."""
    path = home / "link.key"
    with suppress(FileNotFoundError):
        return path.read_bytes()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = home / f"link.key.{secrets.token_hex(8)}"
    made = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(made, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # Not over one that another process has just made.
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
    finally:
        fresh.unlink()
    return path.read_bytes()


def link_url(public_url: str, link: DecisionLink, key: bytes) -> str:
    """The address of a link: whoever has it can use it."""
    return f"{public_url}/d/{link_token(link, key)}"


def person(tx: Tx, who: str, memory: Memory | None) -> Principal | None:
    """Who has that id or name, with the role that they have now; None without one.

    Args:
        memory: What people of a provider may while they are away. They are known by their ids
            alone, since they may choose their names.
    """
    row = standing(tx, who)
    if row is not None:
        return Principal(id=row.id, name=row.name, role=Role(row.role))
    if memory is None or (seen := last_sight(tx, who)) is None:
        return None
    name, sight = seen
    role = memory.role(sight, tx.now)
    return None if role is None else Principal(id=who, name=name, role=role)


def may_decide(tx: Tx, principal: Principal, approval: Approval) -> bool:
    """Whether somebody could answer a question at all."""
    return hindrance(tx, principal, approval) is None


def hindrance(tx: Tx, principal: Principal, approval: Approval) -> str | None:
    """Why somebody could not answer a question, if they could not."""
    if principal.role < Role.OPERATOR:
        return because(
            "{name} has the role {own_role}, and decisions need the role {role}; ask an admin",
            role=Role.OPERATOR.word, name=principal.name, own_role=principal.role.word,
        )  # fmt: skip
    problem = objection(principal, approval)
    if problem is not None:
        return problem
    owner = owner_of(tx, approval.session_id) or ""
    if owner == principal.id or principal.role >= Role.ADMIN or is_reviewer(principal, approval):
        return None
    whose = names(tx, [owner]).get(owner, reviewer_name(owner) or "nobody")
    return because(
        "{name} cannot see this question. The owner of the session ({owner}) and admins can; a "
        "review rule can let other people in as `reviewers`",
        name=principal.name, owner=whose,
    )  # fmt: skip


def new_link(
    tx: Tx, approval: Approval, principal: Principal, made_by: str, lifetime: timedelta
) -> DecisionLink:
    """Make a link for somebody who may decide."""
    expires = tx.now + lifetime
    link = DecisionLink(
        id=new_id("link"), approval_id=approval.id, digest=approval.digest,
        principal_id=principal.id, name=principal.name, role=int(principal.role),
        made_by=made_by, created_at=tx.now, expires_at=min(expires, approval.expires_at or expires),
        used_at=None, revoked_at=None,
    )  # fmt: skip
    add_link(tx, link)
    log.note(
        tx, approval.session_id, actor=made_by, action="link.made", subject=principal.id,
        link_id=link.id, approval_id=approval.id, expires_at=link.expires_at.isoformat(),
        name=link.name,
    )  # fmt: skip
    return link


def state_of(tx: Tx, link: DecisionLink, approval: Approval, memory: Memory | None) -> LinkState:
    """What a link is good for now."""
    if link.revoked_at is not None:
        return LinkState.REVOKED
    if link.used_at is not None:
        return LinkState.USED
    if approval.status is ApprovalStatus.EXPIRED or _is_over(link, approval, tx.now):
        return LinkState.EXPIRED
    if approval.status is not ApprovalStatus.PENDING:
        return LinkState.DECIDED
    if link.digest != approval.digest:
        return LinkState.STALE
    holder = person(tx, link.principal_id, memory)
    if holder is None or holder.role < link.role or not may_decide(tx, holder, approval):
        return LinkState.REFUSED
    return LinkState.OPEN


def _is_over(link: DecisionLink, approval: Approval, now: datetime) -> bool:
    if approval.status is not ApprovalStatus.PENDING:
        return False
    return link.expires_at <= now


NO_ADDRESS = "Links need this server's public address: set GONOGO_PUBLIC_URL"


class LinkPage(Struct, frozen=True, kw_only=True):
    """What somebody is shown who follows a link."""

    link: DecisionLink
    approval: Approval
    state: LinkState
    locale: str
    """The session's language."""
    problem: str | None = None
    """Why the last answer was not taken, where the link is still good."""


class Links(Struct, frozen=True):
    """The verbs about links."""

    _parts: Parts
    _approvals: Approvals

    async def make(
        self, principal: Principal, approval_id: str, name: str | None = None
    ) -> LinkView:
        """Make a link that decides a question once.

        Args:
            name: Whose decision it will be; without it, the one's who asks.

        Raises:
            Conflict: the question is decided, or this server has no public address.
            Forbidden: it is for somebody else and the principal is no admin, or for somebody who
                may not decide.
            NotFound: there is no such question that the principal may see, or nobody of that name.
        """
        principal.require(Role.OPERATOR)
        public = self._parts.settings.public_url
        if public is None:
            raise Conflict(NO_ADDRESS)
        key = await self._link_key()
        link = await self._parts.store.write(self._make_link, principal, approval_id, name)
        return LinkView.of(link, link_id=link.id, url=link_url(public, link, key))

    async def revoke(self, principal: Principal, approval_id: str) -> None:
        """End the links of a question: an admin all, anybody else those in their own name.

        Raises:
            NotFound: there is no such question that the principal may see.
        """
        principal.require(Role.OPERATOR)
        await self._parts.store.write(self._revoke_links, principal, approval_id)

    async def page(self, token: str) -> LinkPage:
        """What a link is about, and what it is good for. Changes nothing.

        Raises:
            NotFound: there is no such link.
        """
        return await self._parts.store.read(self._page, token, await self._link_key())

    async def decide(self, token: str, word: DecisionWord, feedback: str | None = None) -> LinkPage:
        """Decide as the one whom a link was made for, and spend it with that.

        A link that is good no more, or an answer that is refused, changes nothing; the page says
        why.

        Raises:
            NotFound: there is no such link.
        """
        if word not in {DecisionWord.APPROVE, DecisionWord.REJECT}:
            raise InvalidMessage("decision: it must be approve or reject")
        key = await self._link_key()
        page = await self._parts.store.read(self._page, token, key)
        if page.state is not LinkState.OPEN:
            return page
        try:
            await self._rule_by_link(page.link, word, feedback)
        except Refused as error:
            after = await self._parts.store.read(self._page, token, key)
            return replace(after, problem=str(error))
        after = await self._parts.store.read(self._page, token, key)
        decided = after.approval.decided_at is not None
        return replace(after, state=LinkState.DONE if decided else LinkState.VOTED)

    async def _rule_by_link(
        self, link: DecisionLink, word: DecisionWord, feedback: str | None
    ) -> None:
        outcome = await self._parts.store.write(self._decide_by_link, link, word, feedback)
        if outcome is not None:
            raise outcome.error

    # Transactions -----------------------------------------------------------------------------

    def _decide_by_link(
        self, tx: Tx, link: DecisionLink, word: DecisionWord, feedback: str | None
    ) -> Refusal | None:
        holder = person(tx, link.principal_id, self._memory)
        approval = approval_of(tx, link.approval_id)
        # All of it anew: what the page showed may be of a moment ago.
        if (
            holder is None
            or approval is None
            or state_of(tx, link, approval, self._memory) is not LinkState.OPEN
        ):
            raise Forbidden("The link no longer works; ask its sender for a new one")
        ruling = Ruling(
            word=word, by=holder, digest=link.digest, revision=approval.revision,
            feedback=feedback or None, via=f"link {link.id}",
        )  # fmt: skip
        outcome = self._approvals.decide_in(tx, lambda tx: approval, ruling)
        if isinstance(outcome, Refusal):
            return outcome
        if not use_link(tx, link.id):
            # Raised, so that nothing of this answer stays: the link was spent at this moment.
            raise Conflict("The link has just been used or revoked; ask its sender for a new one")
        return None

    def _make_link(
        self, tx: Tx, principal: Principal, approval_id: str, name: str | None
    ) -> DecisionLink:
        approval = readable_approval(tx, principal, approval_id)
        holder = person(tx, principal.id if name is None else name, self._memory)
        if (
            name is not None
            and principal.role < Role.ADMIN
            and (holder is None or holder.id != principal.id)
        ):
            raise Forbidden(
                "Only an admin can make links for other people; make one for yourself, or ask "
                "an admin"
            )
        if holder is None:
            raise NotFound(_nobody(name or principal.name, self._memory))
        if approval.decided_at is not None:
            raise Conflict(
                "{subject} was already {approval_status}; it needs no link",
                subject=approval.subject, approval_status=approval.status,
            )  # fmt: skip
        problem = hindrance(tx, holder, approval)
        if problem is not None:
            raise Forbidden(
                "A link for {name} cannot be made: {problem}", name=holder.name, problem=problem
            )
        lifetime = timedelta(seconds=self._parts.settings.link_expiry)
        return new_link(tx, approval, holder, principal.id, lifetime)

    def _revoke_links(self, tx: Tx, principal: Principal, approval_id: str) -> None:
        approval = readable_approval(tx, principal, approval_id)
        for link in open_links(tx, approval.id):
            theirs = principal.role >= Role.ADMIN or link.principal_id == principal.id
            if theirs and revoke_link(tx, link.id):
                log.note(
                    tx, approval.session_id, actor=principal.id, action="link.revoked",
                    subject=link.principal_id, link_id=link.id, approval_id=approval.id,
                    name=link.name,
                )  # fmt: skip

    def _page(self, tx: Tx, token: str, key: bytes) -> LinkPage:
        link_id = link_id_of(token)
        link = link_of(tx, link_id) if link_id else None
        approval = approval_of(tx, link.approval_id) if link else None
        if link is None or approval is None or not is_genuine(token, link, key):
            raise NotFound("There is no such link; ask its sender for a new one")
        return LinkPage(
            link=link, approval=approval,
            state=state_of(tx, link, approval, self._memory),
            locale=spoken_in(tx, approval.session_id) or DEFAULT,
        )  # fmt: skip

    @property
    def _memory(self) -> Memory | None:
        return self._parts.bearers.memory if self._parts.bearers is not None else None

    async def _link_key(self) -> bytes:
        return await anyio.to_thread.run_sync(link_key, self._parts.settings.home)


def _nobody(name: str, memory: Memory | None) -> str:
    if memory is None:
        return because(
            "Nobody named {name} has a token; create one: gonogo token create, or list them: "
            "gonogo token list",
            name=name,
        )
    return because(
        "Nobody named {name} has a token, and nobody with this id has signed in recently "
        "through the identity provider; create a token: gonogo token create, or list them: "
        "gonogo token list",
        name=name,
    )


# Whom the operator has told of questions, put together.


def open_hooks(
    settings: Settings,
    environment: Mapping[str, str],
    store: Store,
    metrics: Metrics,
) -> Sender:
    """Read the hooks, and have each of them told of what is committed from now on.

    Raises:
        BadHooks: the file has a defect.
    """
    public = settings.public_url
    hooks = load_hooks(settings.hooks_file, environment, links=public is not None)
    if hooks:
        lifetime = timedelta(seconds=settings.link_expiry)
        links = partial(_links, lifetime, memory_of(settings))
        store.before_commit = Announcer(hooks=hooks, shown=_shown, links=links).announce

    async def completed(body: dict[str, Any]) -> dict[str, Any]:
        if public is None or "links" not in body["data"]:
            return body
        key = await anyio.to_thread.run_sync(link_key, settings.home)
        return await store.read(_with_addresses, body, public, key)

    return Sender(store=store, hooks=hooks, counted=metrics.hook_tried, completed=completed)


def _links(
    lifetime: timedelta, memory: Memory | None, tx: Tx, approval: Approval, names: tuple[str, ...]
) -> list[dict[str, Any]]:
    """A link for each of those who may decide; its address is not kept."""
    found: list[dict[str, Any]] = []
    for name in names:
        holder = person(tx, name, memory)
        if holder is not None and may_decide(tx, holder, approval):
            link = new_link(tx, approval, holder, "gonogo", lifetime)
            found.append({"for": holder.name, "link_id": link.id})
    return found


def _with_addresses(tx: Tx, body: dict[str, Any], public: str, key: bytes) -> dict[str, Any]:
    links: list[dict[str, Any]] = []
    for each in body["data"]["links"]:
        link = link_of(tx, each["link_id"])
        if link is not None:
            expires = link.expires_at.isoformat().replace("+00:00", "Z")
            links.append({**each, "url": link_url(public, link, key), "expires_at": expires})
    return {**body, "data": {**body["data"], "links": links}}


def _shown(tx: Tx, approval: Approval) -> dict[str, Any]:
    locale = spoken_in(tx, approval.session_id) or DEFAULT
    return {
        "session_id": approval.session_id,
        "text": asked(approval, locale).plain(),
        "approval": view_of(tx, approval).model_dump(mode="json", exclude_none=True),
    }
