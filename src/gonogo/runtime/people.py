"""Who may speak: principals, their tokens, and their signing in."""

import math
import re
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from gonogo.domain.errors import InvalidMessage, NoRole, NotFound, Unauthorized
from gonogo.domain.identity import Login, Person, Principal, Role, Sight, looks_signed, secret_hash
from gonogo.domain.text_safety import mixed_letters
from gonogo.domain.views import TokenView
from gonogo.runtime.oidc import Bearers
from gonogo.runtime.services import Parts
from gonogo.store import Tx, new_id
from gonogo.store import events as log
from gonogo.store import people as rows
from gonogo.store.calls import forget_votes
from gonogo.store.people import LASTS, OWNER, token_by_secret

_TAKEN = frozenset({"local", "gonogo"})
"""Names of the owner of the machine, and of gonogo itself: nobody else may be shown by them."""
_NAME = re.compile(r"[\w.@-]{1,64}")
_RENEWED = timedelta(hours=1)
"""How much of it is gone before a use is written down."""


class People(Struct, frozen=True):
    """The verbs about principals, their tokens, and their signing in."""

    _parts: Parts
    _on_revoked: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    async def authenticate(self, token: str) -> Principal:
        """The principal whose token this is: one of ours, or one that the provider signed.

        Raises:
            Unauthorized: it is nobody's, was revoked, or has expired.
            Forbidden: the provider's token gives no role here.
            IdentityUnknown: the provider's tokens cannot be checked now.
        """
        if self._parts.bearers is not None and looks_signed(token):
            return await self._recognised(self._parts.bearers, token)
        row = await self._parts.store.read(rows.token_by_secret, secret_hash(token))
        if row is None:
            raise Unauthorized("The token is not valid; create one: gonogo token create")
        name = OWNER.name if row.principal_id == OWNER.id else row.name
        return Principal(id=row.principal_id, name=name, role=Role(row.role))

    def seconds_left(self, principal: Principal) -> float:
        """How long a principal's credential is still valid, if nobody ends it."""
        if principal.until is None:
            return math.inf
        return max(0.0, (principal.until - self._parts.store.clock()).total_seconds())

    async def create_token(
        self, principal: Principal, name: str, role: Role
    ) -> tuple[TokenView, str]:
        """Make a token; its secret is given once and only its hash is kept.

        Tokens of one name are the same principal's, whatever their roles.

        Raises:
            Forbidden: the principal is no admin.
            InvalidMessage: the name has odd characters.
        """
        principal.require(Role.ADMIN)
        if not _NAME.fullmatch(name):
            raise InvalidMessage(
                "A token's name must have 1 to 64 characters: letters, digits and _ . @ -"
            )
        if name.casefold() in _TAKEN:
            raise InvalidMessage(
                "{name!r} could be mistaken for somebody else; choose another name", name=name
            )
        if said := mixed_letters(name):
            raise InvalidMessage("A token's name must use one alphabet: {said}", said=said)
        secret = f"gng_{secrets.token_urlsafe(32)}"
        row = {
            "id": new_id("token"),
            "principal_id": _principal_id(name),
            "name": name,
            "role": int(role),
            "secret_hash": secret_hash(secret),
            "revoked_at": None,
        }
        added = await self._parts.store.write(_add_token, row, principal.id)
        return _token_view(added), secret

    async def tokens(self, principal: Principal) -> list[TokenView]:
        """Every token, revoked ones too, without secrets.

        Raises:
            Forbidden: the principal is no admin.
        """
        principal.require(Role.ADMIN)
        found = await self._parts.store.read(rows.list_tokens)
        return [_token_view(row._asdict()) for row in found]

    async def revoke_token(self, principal: Principal, token_id: str) -> None:
        """Make a token invalid from now on; what is open with it is closed.

        Raises:
            Forbidden: the principal is no admin.
            NotFound: there is no such token.
        """
        principal.require(Role.ADMIN)
        await self._parts.store.write(_revoke_token, token_id, principal.id)
        for told in self._on_revoked:
            told()

    def subscribe_revocations(self, told: Callable[[], None]) -> None:
        """Have a function called after each revocation."""
        self._on_revoked.append(told)

    def unsubscribe_revocations(self, told: Callable[[], None]) -> None:
        """Stop calling a function that was subscribed."""
        self._on_revoked.remove(told)

    # Being signed in with a browser: a secret in a cookie stands for a token that was shown once.
    #
    # A login outlives the process: who looks at a page while the server is started anew goes on
    # looking. It ends a day after it was last used, with the token that it was made with, and when
    # its person signs out. Its secret is kept as a hash.

    async def log_in(self, principal: Principal, token: str | None = None) -> str:
        """Sign somebody in; gives the secret that says so from now on.

        Args:
            token: The one that `principal` was known by, if it was a token.
        """
        secret = secrets.token_urlsafe(32)
        row = token and await self._parts.store.read(token_by_secret, secret_hash(token))
        now = self._parts.store.clock()
        login = Login(
            secret_hash=secret_hash(secret), principal_id=principal.id, name=principal.name,
            role=int(principal.role), token_id=row.id if row else None, created_at=now,
            expires_at=_until(now, principal.until), ends_at=principal.until,
        )  # fmt: skip
        await self._parts.store.write(rows.begin, login)
        return secret

    async def find_login(self, secret: str) -> Principal:
        """Who is signed in by a secret.

        Raises:
            Unauthorized: nobody is, or not any more.
        """
        now = self._parts.store.clock()
        login = await self._parts.store.read(rows.find, secret_hash(secret))
        if login is None:
            raise Unauthorized("This browser session is over; open the console's link again")
        until = _until(now, login.ends_at)
        if until - login.expires_at > _RENEWED:
            await self._parts.store.write(rows.renew, login.secret_hash, until)
        return Principal(
            id=login.principal_id, name=login.name, role=Role(login.role), until=login.ends_at
        )

    async def keep_code(self, principal: Principal, code: str, seconds: float) -> None:
        """Have a code let a browser in, once, at any of the servers that share the database."""
        until = self._parts.store.clock() + timedelta(seconds=seconds)
        digest = secret_hash(code)
        await self._parts.store.write(rows.add_login_code, digest, principal, until)

    async def spend_code(self, code: str) -> Principal | None:
        """Whom such a code lets in; None if it does not, or does not any more."""
        return await self._parts.store.write(rows.take_login_code, secret_hash(code))

    async def log_out(self, secret: str) -> None:
        """Sign out; a secret by which nobody is signed in is no error."""
        await self._parts.store.write(rows.end, secret_hash(secret))

    async def _recognised(self, bearers: Bearers, token: str) -> Principal:
        try:
            person = await bearers.read(token)
        except NoRole as error:
            await self._without_role(bearers, error.principal_id)
            raise
        if bearers.is_news(person):
            issuer, remembers = bearers.expected.issuer, bearers.memory is not None
            await self._parts.store.write(_keep_person, person, issuer, remembers=remembers)
            bearers.kept(person.id, person.name, person.words)
        return Principal(id=person.id, name=person.shown, role=person.role, until=person.until)

    async def _without_role(self, bearers: Bearers, principal_id: str) -> None:
        """Whoever comes without a role has none while they are away, either."""
        if not bearers.has_role(principal_id):
            return
        sight = Sight(issuer=bearers.expected.issuer, words=(), at=self._parts.store.clock())
        await self._parts.store.write(rows.keep_sight, principal_id, sight)
        bearers.kept(principal_id, "", ())


def _keep_person(tx: Tx, person: Person, issuer: str, *, remembers: bool) -> None:
    _keep_name(tx, person, issuer)
    if remembers:
        sight = Sight(issuer=issuer, words=person.words, at=tx.now)
        rows.keep_sight(tx, person.id, sight)


def _keep_name(tx: Tx, person: Person, issuer: str) -> None:
    known = rows.names(tx, [person.id]).get(person.id)
    if known == person.shown:
        return
    if not rows.keep_principal(tx, person.id, person.shown):
        rows.rename_principal(tx, person.id, person.shown)
    log.note(
        tx, log.SYSTEM, actor=person.id, subject=person.id, name=person.name,
        action="principal.recognised" if known is None else "principal.renamed",
        issuer=issuer, sub=person.subject,
    )  # fmt: skip


def _add_token(tx: Tx, row: dict[str, Any], by: str) -> dict[str, Any]:
    row = {**row, "created_at": tx.now}
    rows.keep_principal(tx, row["principal_id"], row["name"])
    rows.add_token(tx, row)
    log.note(
        tx, log.SYSTEM, actor=by, action="token.created", subject=row["id"],
        name=row["name"], role=Role(row["role"]).word,
    )  # fmt: skip
    return row


def _revoke_token(tx: Tx, token_id: str, by: str) -> None:
    if not rows.revoke_token(tx, token_id):
        raise NotFound("There is no token {token_id}", see="gonogo token list", token_id=token_id)
    # Whoever was shut out has approved nothing that is still open.
    forgotten = forget_votes(tx, token_id)
    log.note(
        tx, log.SYSTEM, actor=by, action="token.revoked", subject=token_id,
        withdrawn_votes=forgotten or None,
    )  # fmt: skip


def _token_view(row: Any) -> TokenView:  # noqa: ANN401 - a mapping of columns
    return TokenView(
        token_id=row["id"],
        name=row["name"],
        role=Role(row["role"]).word,
        created_at=row["created_at"],
        revoked_at=row["revoked_at"],
    )


def _principal_id(name: str) -> str:
    return OWNER.id if name == "state-folder" else f"user:{name}"


def _until(now: datetime, end: datetime | None) -> datetime:
    return now + LASTS if end is None else min(now + LASTS, end)


# What a sender gets back at once: that the message is kept, and where its answer will be.
