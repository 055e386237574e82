"""Which commands may reach the network: those of an approved scope that names it, or a person's."""

import pytest

from gonogo.domain.network import read_network
from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass
from gonogo.policy import Conditions, Rules, RuleText, make_rule, make_rules, verdict

HERE = Conditions(workspace="/work")
NO_RULES = Rules()
PIP = "pip install -r requirements.txt"


def call(command: str = PIP, *network: str, **place: object) -> Call:
    where = {"plan_id": "p", "revision": 1, "subtask_id": "s", **place}
    return Call(
        tool="execute_command", tool_class=ToolClass.OTHER, agent="coder", arguments={},
        access=Access(command=command, network=read_network(list(network)) or ()), **where,
    )  # fmt: skip


def grant(network: object = False, *commands: str) -> Grant:
    scope = Scope(commands=commands or ("pip install -r requirements.txt",), network=network)
    return Grant(grant_id="g", plan_id="p", revision=1, subtask_id="s", scope=scope)


@pytest.mark.parametrize("hosts", [True, ("packages.example.com", "*.example.org:443")])
def test_a_command_of_the_approved_scope_gets_the_network_of_that_scope(hosts):
    found = verdict(call(), NO_RULES, HERE, grant(hosts))

    assert (found.decision, found.network) == ("allow", hosts)


def test_a_scope_without_a_network_gives_none():
    assert verdict(call(), NO_RULES, HERE, grant()).network is False


def test_a_command_outside_the_scope_asks_and_gets_no_network_by_itself():
    found = verdict(call("npm install"), NO_RULES, HERE, grant(True))

    assert (found.decision, found.network) == ("ask", False)


def test_the_network_of_another_subtask_is_not_given():
    found = verdict(call(subtask_id="t"), NO_RULES, HERE, grant(True))

    assert (found.decision, found.network) == ("ask", False)


def rule(command: str) -> Rules:
    text = RuleText(command=command, decision="allow", reason="known")
    return make_rules([], [make_rule("user:1", text)])


def test_what_a_rule_vouches_for_gets_no_network_not_even_in_part():
    rules = rule("pytest")

    alone = verdict(call("pytest -q"), rules, HERE, grant(True))
    both = verdict(call(f"{PIP} && pytest"), rules, HERE, grant(True))

    assert [(v.decision, v.network) for v in (alone, both)] == [("allow", False)] * 2


def test_a_call_that_names_hosts_asks_and_says_which_whatever_rules_allow():
    rules = rule("pip install")
    for given in (None, grant(), grant(["packages.example.com"])):
        found = verdict(call(PIP, "evil.org", "packages.example.com"), rules, HERE, given)

        assert (found.decision, found.rule) == ("ask", "builtin:network")
        assert "evil.org" in found.reason


def test_a_call_that_names_hosts_of_its_approved_scope_gets_just_those():
    found = verdict(
        call(PIP, "packages.example.com:443"),
        NO_RULES,
        HERE,
        grant(["packages.example.com", "*.example.org"]),
    )
    by_rule = verdict(call("pytest", "packages.example.com"), rule("pytest"), HERE, grant(True))

    assert (found.decision, found.network) == ("allow", ("packages.example.com:443",))
    assert (by_rule.decision, by_rule.network) == ("allow", ("packages.example.com",))


def test_without_a_sandbox_a_network_asks_since_nothing_limits_it():
    bare = Conditions(workspace="/work", sandboxed=False)
    for wanted, given in (
        (call("ls"), grant(True, "ls")),
        (call("ls"), grant(["a.org"], "ls")),
        (call("ls", "a.org"), grant(False, "ls")),
    ):
        found = verdict(wanted, rule("ls"), bare, given)

        assert (found.decision, found.rule) == ("ask", "builtin:no-sandbox")
        assert "nothing limits" in found.reason
    assert verdict(call("ls"), rule("ls"), bare, grant(False, "ls")).decision == "allow"


def test_hosts_are_part_of_what_an_approval_binds():
    digests = {each.digest("v") for each in (call(), call(PIP, "a.org"), call(PIP, "b.org"))}

    assert len(digests) == 3
