"""Requests made from the OpenAPI document itself: none brings the server down.

Schemathesis makes valid and broken requests for every operation, with ids that there are mixed in.
No answer is a 5xx, each fits the document, each refusal is `application/problem+json`, and what
breaks the document is refused.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import hypothesis
import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, strategies
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from plugins.nightly import examples
from wire.deployment import Deployment, deployed
from wire.outcomes import check
from wire.states import Scene, read_events

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = examples(2, nightly=50)
"""Requests of each kind for each operation."""
ENDLESS = "/api/v1/sessions/{session_id}/events"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory) -> Iterator[Deployment]:
    with deployed(tmp_path_factory.mktemp("fuzz")) as found:
        yield found


def ids_of(scene: Scene) -> dict[str, list[str]]:
    """Ids that there are, by the names of the parameters that take them."""
    return {
        "session_id": [scene.session_id],
        "plan_id": [scene.names["p1"]],
        "subtask_id": ["two1", "two2"],
        "approval_id": [asked["approval_id"] for asked in scene.pending()],
        "number": [1],
    }


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_that_can_be_made_breaks_the_server(deployment, mode) -> None:
    scene = Scene(deployment, "fuzz", "S8")
    document = deployment.get("/openapi.json")
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=deployment.url)
    known = ids_of(scene)
    # News have no end, and nothing that could be asked wrongly.
    operations = [
        each for found in schema.get_all_operations() if (each := found.ok()).path != "/api/v1/news"
    ]
    events = jsonschema.Draft202012Validator(deployment.get("/schema/events.json"))

    statuses: Counter[int] = Counter()
    for operation in sorted(operations, key=lambda operation: operation.method == "delete"):
        statuses += answered(deployment, operation, mode, known, events)

    assert len(operations) > 40
    assert sum(n for status, n in statuses.items() if status >= 400) > min(100, 20 * EXAMPLES), (
        statuses
    )
    assert sum(n for status, n in statuses.items() if status < 300) > min(30, 6 * EXAMPLES), (
        statuses
    )
    check(deployment, scene)


def answered(
    deployment: Deployment, operation: Any, mode: Any, known: dict[str, Any], events: Any
) -> Counter[int]:
    """Ask one operation many things; how often each status was the answer."""
    statuses: Counter[int] = Counter()

    @hypothesis.seed(20)
    @hypothesis.settings(
        max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode), real=strategies.booleans())
    def ask(case: Any, real: bool) -> None:
        if real and mode is GenerationMode.POSITIVE and case.path != ENDLESS:
            for name in case.path_parameters or {}:
                case.path_parameters[name] = known.get(name, ["x"])[0]
        answer = case.call(headers=deployment.headers("root"), timeout=60)
        statuses[answer.status_code] += 1
        if answer.headers.get("content-type", [""])[0].startswith("text/event-stream"):
            for event in read_events(answer):
                events.validate(event)
            return
        # The credential is put back and unknown parameters of a query are passed over, so only what
        # is wrong with a body has to be refused.
        broken = any(
            place is ParameterLocation.BODY and part.mode.is_negative
            for place, part in case.meta.components.items()
        )
        checks = [*CHECKS, negative_data_rejection] if broken else CHECKS
        case.validate_response(answer, checks=checks)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == ["application/problem+json"]
            assert answer.json()["status"] == answer.status_code

    ask()
    return statuses
