"""Bodies of several things are objects, never bare lists, and have no nulls."""

import pytest

from gonogo.domain import views as pages
from gonogo.domain.base import View

WRAPS = {
    pages.Revisions: "revisions", pages.DecisionAnswers: "answers", pages.Agents: "agents",
    pages.Tools: "tools", pages.Models: "models", pages.Grants: "grants", pages.Audit: "entries",
    pages.Tokens: "tokens",
}  # fmt: skip


@pytest.mark.parametrize("page", WRAPS, ids=lambda page: page.__name__)
def test_a_page_is_an_object_that_can_grow(page):
    assert issubclass(page, View)
    made = page.model_validate({WRAPS[page]: [], "from_the_future": 1})
    assert made.model_dump(exclude_none=True) == {WRAPS[page]: []}
