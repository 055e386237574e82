"""Values: none changes once it was made, and each is made by the names of its fields."""

import dataclasses
import inspect
from types import ModuleType

import msgspec
import pytest

from fakes.rows import NOW, call
from gonogo import tables
from gonogo.domain import (
    audit_chain,
    conditions,
    errors,
    failures,
    findings,
    identity,
    instructions,
    network,
    plan,
    plan_views,
    records,
    replanning,
    reviews,
    schedule,
    states,
    tool_calls,
    undo,
)
from gonogo.llm import choice, model, provider, recording
from gonogo.llm import choice as fallback
from gonogo.llm import scripted as cassette

USED = {
    audit_chain: audit_chain.new_salt, conditions: lambda: conditions.references({}),
    failures: lambda: failures.hint_of(failures.Category.LOGIC),
    findings: lambda: findings.plain("a"), identity: lambda: identity.looks_signed("a"),
    instructions: lambda: instructions.quoted("a"), network: lambda: network.is_loopback("a"),
    plan: lambda: plan.with_types(None), plan_views: lambda: plan_views.as_planned(None),
    records: lambda: call().is_held, replanning: lambda: replanning.tokens_of(1),
    reviews: lambda: reviews.reviewer_id("a"), schedule: lambda: schedule.elapsed(NOW, NOW),
    states: lambda: states.was_refused(None), tool_calls: lambda: tool_calls.says_nothing("a"),
    undo: lambda: undo.shown_path("a"), cassette: lambda: cassette.text_of("a"),
    choice: choice.provider_variables, model: lambda: model.clean("a"),
    fallback: lambda: fallback.is_for_another(errors.ModelFailed("a")),
    recording: lambda: recording._error_of(
        cassette.HttpExchange(model="m", method="GET", path="/", body="")
    ),
    provider: lambda: provider.joined(["a"]),
    tables: lambda: tables.TableFile(what="", names=(), refusal=errors.InvalidMessage).read(
        None, "a"
    ),
}  # fmt: skip
"""Something of each module, for what is in a module counts where it is used."""
CHANGING = {findings.Overlaps, findings._Look}
BY_PLACE = {
    audit_chain.Claim, audit_chain.Holding, cassette.PackedPiece, cassette.Redaction,
    conditions.Token, findings.Overlaps, network.HostPattern, network.PrivateHosts, records.Job,
    records.JobStop, records.SessionPlace, replanning._Step, tool_calls.ToolHistory, findings._Look,
    states.Machine, failures.Patterns,
}  # fmt: skip


def values_of(module: ModuleType) -> list[type]:
    own = [
        kind for kind in vars(module).values() if getattr(kind, "__module__", "") == module.__name__
    ]
    return [
        kind
        for kind in own
        if isinstance(kind, type)
        and (issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind))
    ]


def is_frozen(kind: type) -> bool:
    if dataclasses.is_dataclass(kind):
        return kind.__dataclass_params__.frozen and hasattr(kind, "__slots__")
    return kind.__struct_config__.frozen


def takes_names_alone(kind: type) -> bool:
    given = inspect.signature(kind).parameters.values()
    return all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in given)


@pytest.mark.parametrize("module", USED, ids=lambda module: module.__name__)
def test_a_value_does_not_change_and_is_made_by_names(module):
    USED[module]()
    values = values_of(module)

    assert values
    assert {kind for kind in values if not is_frozen(kind)} <= CHANGING
    assert {kind for kind in values if not takes_names_alone(kind)} <= BY_PLACE
