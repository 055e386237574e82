"""What clients are generated from is complete: every path, every body, every event."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gonogo.domain.events import AssistantMessage, Done, ErrorHappened

WRITTEN = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"
PATHS = """
/agent/message/stream post
/sessions get post
/sessions/{session_id} get patch delete
/sessions/{session_id}/history get
/sessions/{session_id}/context get
/sessions/{session_id}/usage get
/sessions/{session_id}/log get
/sessions/{session_id}/changes get
/sessions/{session_id}/pending-approvals get
/sessions/{session_id}/events get
/sessions/{session_id}/steer post
/sessions/{session_id}/rules get post
/sessions/{session_id}/rules/{rule_id} delete
/plans get post
/plans/check post
/plans/{plan_id} get
/plans/{plan_id}/revisions get
/plans/{plan_id}/revisions/{number} get
/plans/{plan_id}/diff get
/plans/{plan_id}/status get
/plans/{plan_id}/graph get
/plans/{plan_id}/comments get post
/plans/{plan_id}/revise post
/plans/{plan_id}/check post
/plans/{plan_id}/decision post
/plans/{plan_id}/start post
/plans/{plan_id}/pause post
/plans/{plan_id}/resume post
/plans/{plan_id}/cancel post
/plans/{plan_id}/replan post
/plans/{plan_id}/changes get
/plans/{plan_id}/rollback post
/plans/{plan_id}/subtasks/{subtask_id}/retry post
/plans/{plan_id}/subtasks/{subtask_id}/steer post
/plans/{plan_id}/subtasks/{subtask_id}/skip post
/plans/{plan_id}/subtasks/{subtask_id}/cancel post
/checkpoints get post
/checkpoints/{checkpoint_id} get
/checkpoints/{checkpoint_id}/diff get
/approvals get
/approvals/{approval_id} get
/approvals/{approval_id}/decision post
/approvals/{approval_id}/links delete post
/approvals/decisions post
/nodes get
/places get
/places/{place_id} get
/places/{place_id}/release post
/agents get
/tools get
/tools/accept post
/maintenance/vacuum post
/servers get
/models get
/news get
/workspaces get
/policy get
/policy/check post
/grants get
/grants/{grant_id} delete
/analytics get
/calls get
/audit get
/audit/anchors post
/audit/export get
/audit/prune post
/audit/verify get
/auth/session post delete
/me get
/tokens get post
/tokens/{token_id} delete
/health get
/ready get
/metrics get
/schema/events.json get
"""


@pytest.fixture(scope="module")
def document() -> dict:
    """What is written down; the one that is served is the same."""
    return json.loads(WRITTEN.read_text("utf-8"))


def test_every_path_of_the_protocol_is_described(document):
    described = {
        path.removeprefix("/api/v1"): set(operations)
        for path, operations in document["paths"].items()
    }
    expected = {line.split()[0]: set(line.split()[1:]) for line in PATHS.split("\n") if line}

    assert document["openapi"].startswith("3.1")
    assert described == expected


def test_every_reference_leads_somewhere(document):
    text = json.dumps(document)
    names = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}

    assert names <= set(document["components"]["schemas"])
    assert "#/$defs" not in text
    assert {"Event", "Problem", "PlanView", "Sent", "UserMessage"} <= names


def test_operations_have_names_of_their_own(document):
    names = [o["operationId"] for path in document["paths"].values() for o in path.values()]

    assert len(names) == len(set(names))


def test_what_is_left_out_of_a_query_counts_as_something_that_could_be_said(document):
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for said in operation.get("parameters", []):
                if "default" in said["schema"]:
                    schema = {**said["schema"], "components": document["components"]}
                    fits = jsonschema.Draft202012Validator(schema).is_valid
                    assert fits(said["schema"]["default"]), (path, said["name"])


async def test_who_comes_in_reads_the_document_that_is_written_down(ask):
    async with ask() as client:
        entered = await client.post("/api/v1/auth/session", json={"token": "token-a"})
        document = await client.get("/api/v1/openapi.json")

    assert entered.status_code == 204
    assert document.json() == json.loads(WRITTEN.read_text("utf-8"))


def nulls(schema: Any) -> Iterator[Any]:
    """The parts of a schema that are null and nothing else."""
    if isinstance(schema, dict):
        yield from [schema] if schema.get("type") == "null" else ()
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else ():
        yield from nulls(part)


async def test_nothing_on_the_wire_is_null(ask, document):
    async with ask() as client:
        events = (await client.get("/api/v1/schema/events.json")).json()

    assert [*nulls(document), *nulls(events)] == []


async def test_the_events_schema_fits_events_and_nothing_else(ask):
    async with ask() as client:
        schema = (await client.get("/api/v1/schema/events.json")).json()
        served = await client.get("/api/v1/openapi.json")

    check = jsonschema.Draft202012Validator(schema)
    assert served.json()["info"]["title"] == "gonogo"
    error = ErrorHappened(error="x", content="x", code="conflict")
    for event in [AssistantMessage(content="x"), Done(), error]:
        check.validate({**event.body(), "later": "fields are passed over"})
    assert not check.is_valid({"type": "no such type"})
