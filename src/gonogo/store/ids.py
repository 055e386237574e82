"""Ids: a prefix that says what it names, and a UUID of version 7, so that they sort by age."""

from uuid6 import uuid7


def new_id(prefix: str) -> str:
    """A new id, such as `plan_0197f3…`."""
    return f"{prefix}_{uuid7().hex}"
