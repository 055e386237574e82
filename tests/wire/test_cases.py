"""Every case of tests/cases/ws_http.jsonl ends as it says, against a real server.

Each case has a session of its own in the state that the case names, so that one server carries
nearly all of them. After each: no error in the server's log, no gap in the session's events, no
command that ran without an allowed call or twice; and what was refused has changed nothing.
"""

from typing import Any

import pytest

from gonogo.server import WaitLimits
from wire.cases import CASES
from wire.deployment import Deployment, deployed
from wire.forms import BY_CASE
from wire.outcomes import account, check, send
from wire.states import Scene

OTHERWISE = {
    "W181": (
        {"401"},
        "a command's environment holds no credential at all, so whatever it shows is no token; "
        "403 is for a token whose role is not enough",
    ),
    "W208": (
        {"ws_close:1002"},
        "compression is not offered, so there is nothing to blow up: the frame itself is against "
        "the WebSocket protocol",
    ),
}
"""Cases that are driven and end in a class of their own, with the reason."""
NOT_DRIVEN: dict[str, str] = {}
"""Cases that cannot be driven here, with the reason."""
PREPARED = {"W181", "W231", "W237"}
"""Cases that may end in a refusal after something else was done; they look themselves at what the
refusal changed."""
OF_THEIR_OWN = {"W033", "W197", "W218", "W231"}
"""Cases that would harm others on a shared server: impatience, locked addresses, a moved clock."""


@pytest.fixture
def deployment(request, tmp_path):
    case = request.node.callspec.params["case"]
    if case["id"] not in OF_THEIR_OWN:
        yield request.getfixturevalue("shared")
        return
    with deployed(tmp_path, limits=WaitLimits(body=1.0, write=1.0)) as own:
        yield own


@pytest.mark.feature(88)
@pytest.mark.spread(3)
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_case_ends_in_one_of_its_classes(case: dict[str, Any], deployment: Deployment) -> None:
    if case["id"] in NOT_DRIVEN:
        pytest.skip(NOT_DRIVEN[case["id"]])
    scene = Scene(deployment, case["id"], case["pre"])
    before = account(scene)

    carry_out = BY_CASE.get(case["id"])
    outcome = carry_out(scene, case) if carry_out else send(scene, case, case["send"])

    expected = OTHERWISE[case["id"]][0] if case["id"] in OTHERWISE else set(case["expect"])
    assert outcome.names & expected, outcome
    assert not outcome.is_open or scene.state == "S5", outcome
    check(deployment, scene)
    if outcome.is_refusal and case["id"] not in PREPARED:
        assert account(scene) == before


def test_the_tables_of_exceptions_name_cases_that_there_are() -> None:
    known = {case["id"] for case in CASES}

    assert len(known) == len(CASES)
    assert {*OTHERWISE, *NOT_DRIVEN, *PREPARED, *OF_THEIR_OWN, *BY_CASE} <= known
