"""Being signed in with a browser: a secret in a cookie stands for a token that was shown once.

A login outlives the process: who looks at a page while the server is started anew goes on looking.
It ends a day after it was last used, with the token that it was made with, and when its person
signs out. Its secret is kept as a hash.
"""

import secrets
from datetime import datetime, timedelta

from gonogo.domain.errors import Unauthorized
from gonogo.domain.identity import Login, Principal, Role
from gonogo.runtime._parts import Parts
from gonogo.runtime._people import secret_hash
from gonogo.store import people as rows
from gonogo.store.people import token_by_secret

LASTS = timedelta(days=1)
"""How long a login lasts that is not used."""
_RENEWED = timedelta(hours=1)
"""How much of it is gone before a use is written down."""


class Logins:
    """The verbs about people who are signed in with a browser."""

    parts: Parts

    async def log_in(self, principal: Principal, token: str | None = None) -> str:
        """Sign somebody in; gives the secret that says so from now on.

        Args:
            token: The one that `principal` was known by, if it was a token.
        """
        secret = secrets.token_urlsafe(32)
        row = token and await self.parts.store.read(token_by_secret, secret_hash(token))
        now = self.parts.clock()
        login = Login(
            secret_hash=secret_hash(secret), principal_id=principal.id, name=principal.name,
            role=int(principal.role), token_id=row.id if row else None, created_at=now,
            expires_at=_until(now, principal.until), ends_at=principal.until,
        )  # fmt: skip
        await self.parts.store.write(rows.begin, login)
        return secret

    async def logged_in(self, secret: str) -> Principal:
        """Who is signed in by a secret.

        Raises:
            Unauthorized: nobody is, or not any more.
        """
        now = self.parts.clock()
        login = await self.parts.store.read(rows.find, secret_hash(secret), now)
        if login is None:
            raise Unauthorized("This browser session is over; open the console's link again")
        until = _until(now, login.ends_at)
        if until - login.expires_at > _RENEWED:
            await self.parts.store.write(rows.renew, login.secret_hash, until)
        return Principal(
            id=login.principal_id, name=login.name, role=Role(login.role), until=login.ends_at
        )

    async def log_out(self, secret: str) -> None:
        """Sign out; a secret by which nobody is signed in is no error."""
        await self.parts.store.write(rows.end, secret_hash(secret))


def _until(now: datetime, end: datetime | None) -> datetime:
    return now + LASTS if end is None else min(now + LASTS, end)
