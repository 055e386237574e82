"""Bodies of several things are objects, never bare lists, and have no nulls."""

from typing import get_args

import pytest

from gonogo.domain import plan_views, report_views, views
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


@pytest.mark.parametrize("module", [views, plan_views, report_views])
def test_what_may_be_absent_on_the_wire_is_nothing_unless_it_is_said(module):
    for view in vars(module).values():
        if not (isinstance(view, type) and issubclass(view, View)):
            continue
        for name, field in view.model_fields.items():
            if type(None) in get_args(field.annotation) and not field.is_required():
                assert field.get_default() is None, f"{view.__name__}.{name}"
