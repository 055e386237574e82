"""Who may what: each role may do what those below it may, and nothing more."""

import pytest

from gonogo.domain.errors import Forbidden
from gonogo.domain.identity import Principal, Role


@pytest.mark.parametrize("has", Role)
@pytest.mark.parametrize("needed", Role)
def test_a_role_is_enough_for_itself_and_for_those_below(has, needed):
    ann = Principal(id="p1", name="Ann", role=has)

    if has >= needed:
        ann.require(needed)
        return
    with pytest.raises(Forbidden) as refused:
        ann.require(needed)
    assert str(refused.value) == (
        f"This needs the role {needed.word}, and Ann has the role {has.word}; ask an admin"
    )


def test_a_principal_cannot_raise_itself():
    ann = Principal(id="p1", name="Ann", role=Role.VIEWER)

    with pytest.raises(ValueError, match="frozen"):
        ann.role = Role.ADMIN  # type: ignore[misc]
    assert [role.word for role in Role] == ["viewer", "operator", "admin"]
