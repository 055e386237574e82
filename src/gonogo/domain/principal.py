"""Who asks: a principal with a role, and what each role may do."""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Literal, cast

from gonogo.domain.base import Frozen
from gonogo.domain.errors import Forbidden

RoleWord = Literal["viewer", "operator", "admin"]


class Role(IntEnum):
    """Each role may do what those below it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> RoleWord:
        """The role's name on the wire."""
        return cast("RoleWord", self.name.lower())


class Principal(Frozen):
    """A person or a machine account, as authenticated."""

    id: str
    name: str
    role: Role
    until: datetime | None = None
    """When the credential ends by itself; None: when it is revoked."""

    def require(self, role: Role) -> None:
        """Check that this principal's role is enough.

        Raises:
            Forbidden: it is not.
        """
        if self.role < role:
            raise Forbidden(f"This needs the role {role.word}; {self.name} is {self.role.word}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Somebody who is signed in with a browser."""

    secret_hash: str
    principal_id: str
    name: str
    role: int
    token_id: str | None
    """The token that was shown; with it the login ends."""
    created_at: datetime
    expires_at: datetime
    """When it is over unless it is used."""
    ends_at: datetime | None
    """When it is over even if it is."""
