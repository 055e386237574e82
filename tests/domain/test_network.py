"""What of the network may be reached: hosts by their names, and then addresses by what they are."""

from ipaddress import ip_address

import pytest

from gonogo.domain.errors import InvalidPlan
from gonogo.domain.network import (
    PrivateHosts,
    names_host,
    network_covers,
    read_host,
    read_network,
    refusal_of,
)
from gonogo.domain.plan import Scope, parse_subtasks


def plan_with(network: object) -> Scope | None:
    raw = [{"description": "x", "agent": "coder", "scope": {"network": network}}]
    return parse_subtasks(raw, agents=["coder"])[0].scope


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (False, False),
        (True, True),
        ([], False),
        (["Packages.Example.com."], ("packages.example.com",)),
        (["a.org", "A.org"], ("a.org",)),
        (["*.example.org:443", "10.0.0.1", "[2001:DB8::1]:8080", "xn--e1afmkfd.xn--p1ai"],
         ("*.example.org:443", "10.0.0.1", "[2001:db8::1]:8080", "xn--e1afmkfd.xn--p1ai")),
    ],
)  # fmt: skip
def test_a_scope_names_hosts_each_in_one_spelling(written, read):
    assert plan_with(written).network == read
    assert Scope.model_validate({"network": read}).network == read


def test_a_plan_that_was_kept_with_a_yes_or_a_no_is_read_as_it_was():
    assert Scope.model_validate({"tools": [], "network": True}).network is True
    assert Scope.model_validate({"tools": [], "network": False}).network is False
    assert Scope().model_dump(mode="json")["network"] is False


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("packages.example.com", "`false`, `true` or a list"),
        (1, "`false`, `true` or a list"),
        ([7], "7 is not the name"),
        (["*"], "write `true`"),
        (["*.org"], "names too much"),
        (["*.10.0.0.1"], "names too much"),
        (["https://packages.example.com"], "without a scheme"),
        (["packages.example.com/simple"], "not the name of a host"),
        (["packages.example.com:0"], "1 to 65535"),
        (["packages.example.com:65536"], "1 to 65535"),
        (["a..b"], "not the name of a host"),
        (["-a.org"], "not the name of a host"),
        (["a b"], "not the name of a host"),
        (["a.*.org"], "not the name of a host"),
        (["x" * 64], "not the name of a host"),
        ([".".join(["abc"] * 64)], "not the name of a host"),
        (["пример.рф"], "`xn--` form"),
        (["0x7f.1"], "four plain numbers"),
        (["2130706433"], "four plain numbers"),
        (["127.1"], "four plain numbers"),
        (["[fe80::1%eth0.x"], "without a scheme"),
        (["[1.2.3.4]"], "not an IPv6 address"),
        ([""], "without a scheme"),
        (["a.org"] * 65, "at most 64"),
    ],
)
def test_what_is_no_host_is_refused_with_the_entry_and_the_reason(written, said):
    with pytest.raises(InvalidPlan) as refused:
        plan_with(written)

    assert "scope.network" in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("allowed", "wanted", "covered"),
    [
        (True, True, True),
        (True, ["a.org:22"], True),
        (False, False, True),
        (["a.org"], False, True),
        (False, ["a.org"], False),
        (["a.org"], True, False),
        (["a.org"], ["a.org:443"], True),
        (["a.org"], ["a.org:80", "a.org"], True),
        (["a.org"], ["a.org:8443"], False),
        (["a.org:443"], ["a.org"], False),
        (["*.a.org"], ["x.a.org", "*.y.a.org", "*.a.org"], True),
        (["*.a.org"], ["a.org"], False),
        (["*.a.org"], ["*.org.a.b"], False),
        (["*.a.org"], ["bada.org"], False),
        (["x.a.org"], ["*.a.org"], False),
        (["a.org", "b.org"], ["b.org", "c.org"], False),
    ],
)
def test_one_list_covers_another_only_if_it_names_all_of_it(allowed, wanted, covered):
    assert network_covers(read_network(allowed), read_network(wanted)) is covered


def test_a_list_speaks_of_the_name_that_was_asked_for():
    hosts = read_network(["a.org", "*.b.org:8443"])

    assert names_host(hosts, "a.org", 443)
    assert names_host(hosts, "x.b.org", 8443)
    assert not names_host(hosts, "x.b.org", 443)
    assert names_host(True, "any.org", 22)
    assert not names_host(False, "a.org", 443)


def test_an_address_is_a_host_in_its_plain_form():
    assert read_host("[::FFFF:1.2.3.4]") == str(ip_address("::ffff:1.2.3.4"))
    assert read_host("1.2.3.4") == "1.2.3.4"
    with pytest.raises(ValueError, match="not the name"):
        read_host("fe80::1%1")


PUBLIC = ["93.184.215.14", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
NEVER = [
    "0.0.0.0", "127.0.0.1", "127.255.1.1", "::1", "::", "169.254.169.254", "fe80::1",  # noqa: S104
    "168.63.129.16", "224.0.0.1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
    "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00::1", "::7f00:1", "fe80::1%2",
]  # fmt: skip
PRIVATE = [
    "10.1.2.3", "172.16.0.1", "192.168.0.1", "100.64.0.1", "100.100.100.200", "fd00::1", "fec0::1",
    "192.0.2.1", "198.18.0.1", "240.0.0.1", "255.255.255.255", "::ffff:10.0.0.1", "2001:db8::1",
]  # fmt: skip


def refusal(address: str, *listed: str, host: str = "a.org", port: int = 443, own: bool = False):
    return refusal_of(host, port, ip_address(address), PrivateHosts.read(listed), own=own)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_reached_but_not_if_it_is_this_machines_own(address):
    assert refusal(address) is None
    assert "this machine" in refusal(address, own=True)


@pytest.mark.parametrize("address", NEVER)
def test_no_range_lets_this_machine_or_what_speaks_for_its_cloud_be_reached(address):
    assert refusal(address)
    assert refusal(address, "0.0.0.0/0", "::/0", "a.org")


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_may_be_reached_where_the_operator_lists_it_or_its_host(address):
    assert "not public" in refusal(address)
    assert "not public" in refusal(address, "10.9.0.0/16", "b.org")
    assert refusal(address, "0.0.0.0/0", "::/0") is None
    assert refusal(address, "a.org") is None


def test_this_machine_is_reached_only_as_a_host_that_is_listed_with_its_port():
    assert refusal("127.0.0.1", "a.org", port=443)
    assert refusal("127.0.0.1", "a.org:8080", port=443)
    assert refusal("127.0.0.1", "*.a.org:443", host="x.a.org")
    assert refusal("127.0.0.1", "a.org:443") is None
    assert refusal("::1", "localhost:3141", host="localhost", port=3141) is None


def test_a_list_of_the_operators_that_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match="names too much"):
        PrivateHosts.read(["*.intra"])
    with pytest.raises(ValueError, match="host bits"):
        PrivateHosts.read(["10.0.0.1/8"])
