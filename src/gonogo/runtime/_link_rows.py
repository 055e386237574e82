"""Links that decide: whom one can be made for, what it is good for now, and its address."""

import os
import secrets
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from gonogo.approvals import is_reviewer, objection
from gonogo.domain.identity import Memory, Principal, Role
from gonogo.domain.records import Approval
from gonogo.domain.reviews import Link, LinkState, link_token, reviewer_name
from gonogo.domain.states import ApprovalStatus
from gonogo.store import Connection, new_id
from gonogo.store import events as log
from gonogo.store.approvals import add_link, owner_of
from gonogo.store.people import last_sight, names, standing

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


def link_url(public_url: str, link: Link, key: bytes) -> str:
    """The address of a link: whoever has it can use it."""
    return f"{public_url}/d/{link_token(link, key)}"


def person(conn: Connection, who: str, now: datetime, memory: Memory | None) -> Principal | None:
    """Who has that id or name, with the role that they have now; None without one.

    Args:
        memory: What people of a provider may while they are away. They are known by their ids
            alone, since they may choose their names.
    """
    row = standing(conn, who)
    if row is not None:
        return Principal(id=row.id, name=row.name, role=Role(row.role))
    if memory is None or (seen := last_sight(conn, who)) is None:
        return None
    name, sight = seen
    role = memory.role(sight, now)
    return None if role is None else Principal(id=who, name=name, role=role)


def may_decide(conn: Connection, principal: Principal, approval: Approval) -> bool:
    """Whether somebody could answer a question at all."""
    return hindrance(conn, principal, approval) is None


def hindrance(conn: Connection, principal: Principal, approval: Approval) -> str | None:
    """Why somebody could not answer a question, if they could not."""
    if principal.role < Role.OPERATOR:
        return f"{principal.name} is {principal.role.word}, and decisions need the role operator"
    problem = objection(principal, approval)
    if problem is not None:
        return problem
    owner = owner_of(conn, approval.session_id) or ""
    if owner == principal.id or principal.role >= Role.ADMIN or is_reviewer(principal, approval):
        return None
    whose = names(conn, [owner]).get(owner, reviewer_name(owner) or "nobody")
    return (
        f"{principal.name} does not see this question. {whose}, whose session it is, and admins "
        "do; a rule of review lets others in that it names as `reviewers`"
    )


def new_link(
    conn: Connection,
    approval: Approval,
    principal: Principal,
    made_by: str,
    lifetime: timedelta,
    now: datetime,
) -> Link:
    """Make a link for somebody who may decide."""
    expires = now + lifetime
    link = Link(
        id=new_id("link"), approval_id=approval.id, digest=approval.digest,
        principal_id=principal.id, name=principal.name, role=int(principal.role),
        made_by=made_by, created_at=now, expires_at=min(expires, approval.expires_at or expires),
        used_at=None, revoked_at=None,
    )  # fmt: skip
    add_link(conn, link)
    log.note(
        conn, approval.session_id, now, actor=made_by, action="link.made", subject=principal.id,
        link_id=link.id, approval_id=approval.id, expires_at=link.expires_at.isoformat(),
        name=link.name,
    )  # fmt: skip
    return link


def state_of(
    conn: Connection, link: Link, approval: Approval, now: datetime, memory: Memory | None
) -> LinkState:
    """What a link is good for now."""
    if link.revoked_at is not None:
        return LinkState.REVOKED
    if link.used_at is not None:
        return LinkState.USED
    if approval.status is ApprovalStatus.EXPIRED or _is_over(link, approval, now):
        return LinkState.EXPIRED
    if approval.status is not ApprovalStatus.PENDING:
        return LinkState.DECIDED
    if link.digest != approval.digest:
        return LinkState.STALE
    holder = person(conn, link.principal_id, now, memory)
    if holder is None or holder.role < link.role or not may_decide(conn, holder, approval):
        return LinkState.REFUSED
    return LinkState.OPEN


def _is_over(link: Link, approval: Approval, now: datetime) -> bool:
    if approval.status is not ApprovalStatus.PENDING:
        return False
    return link.expires_at <= now
