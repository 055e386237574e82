"""What of the network may be reached: hosts by their names, and then addresses by what they are."""

from ipaddress import ip_address

import pytest

from gonogo.domain.errors import InvalidPlan
from gonogo.domain.network import (
    LOOPBACK,
    HostPattern,
    PrivateHosts,
    address_problem,
    is_loopback,
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
        (["*.org"], "is too broad"),
        (["*.10.0.0.1"], "is too broad"),
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


WRITE = (
    "is not a host: write `example.org`, `*.example.org` or either with `:443`, without a scheme"
    " or a path"
)
PLAIN = "is neither a name nor an address with four plain numbers"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("https://a.org", f"'https://a.org' {WRITE}"),
        ("a.org:", f"'a.org:' {WRITE}"),
        ("a.org:0", "'a.org:0': a port is a number from 1 to 65535"),
        ("a.org:65536", "'a.org:65536': a port is a number from 1 to 65535"),
        ("*", "'*' is every host: write `true` for any public host"),
        ("*:443", "'*:443' is every host: write `true` for any public host"),
        ("*.org:1", "'*.org:1' is too broad: a domain of at least two names follows `*.`"),
        ("*.1.2.3.4", "'*.1.2.3.4' is too broad: a domain of at least two names follows `*.`"),
        ("[1.2.3.4]", "'[1.2.3.4]' is not an IPv6 address"),
        ("a_b..c", "'a_b..c' is not the name of a host"),
        ("рф", "'рф' is not the name of a host; write its `xn--` form"),
        ("127.1", f"'127.1' {PLAIN}"), ("a.0x7F", f"'a.0x7F' {PLAIN}"), ("12", f"'12' {PLAIN}"),
    ],
)  # fmt: skip
def test_an_entry_that_is_no_host_is_told_whole(entry, said):
    with pytest.raises(ValueError, match=r".*") as refused:
        read_network([entry])
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a.org", "the network is `false`, `true` or a list of hosts"),
        (None, "the network is `false`, `true` or a list of hosts"),
        (["a.org"] * 65, "a list can have at most 64 hosts, not 65"),
        ([7], "7 is not the name of a host"),
    ],
)
def test_what_is_no_list_of_hosts_is_told_whole(value, said):
    with pytest.raises(ValueError, match=r".*") as refused:
        read_network(value)
    assert str(refused.value) == said


LONGEST = ".".join(["a" * 63] * 3 + ["b" * 61])


def test_hosts_are_read_up_to_their_bounds():
    assert read_network([f"h{n}.org" for n in range(64)])[63] == "h63.org"
    assert read_network(("A.org:1", "b_c.org:65535")) == ("a.org:1", "b_c.org:65535")
    assert read_network(["[::1]:1", "[::1]"]) == ("[::1]:1", "[::1]")
    assert read_host(LONGEST) == LONGEST
    with pytest.raises(ValueError, match=r"is not the name of a host$"):
        read_host(LONGEST + "b")
    assert HostPattern("a.org").port is None


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True),
        ("localhost.org", False), ("128.0.0.1", False), ("a.org", False), ("", False),
    ],
)  # fmt: skip
def test_this_machine_is_known_by_its_name_or_its_address(host, loopback):
    assert is_loopback(host) is loopback
    assert loopback or host not in LOOPBACK


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://a.org/x", None), ("https://a.org:1", None), ("http://localhost:1/x", None),
        ("http://127.0.0.1", None), ("http://[::1]:2", None),
        ("https://a.org:x", "this is not an address"), ("https://[a", "this is not an address"),
        ("ftp://a.org", "an address must begin with https:// and name a host"),
        ("a.org", "an address must begin with https:// and name a host"),
        ("https://", "an address must begin with https:// and name a host"),
        ("https://a.org/é", "an address must begin with https:// and name a host"),
        ("https://a.org/ x", "an address must begin with https:// and name a host"),
        ("https://u@a.org", "an address must not have a user, a password or a fragment; see there"),
        ("https://a.org#x", "an address must not have a user, a password or a fragment; see there"),
        ("http://a.org", "http:// would show the key to the network;"
         " use https://, or set insecure = true"),
    ],
)  # fmt: skip
def test_an_address_is_reached_unless_it_would_show_something_to_the_network(url, problem):
    said = {"shown": "the key", "hint": "; see there"}
    assert address_problem(url, insecure=False, **said) == problem
    open_ = problem if problem and "insecure" not in problem else None
    assert address_problem(url, insecure=True, **said) == open_


def test_without_a_hint_none_is_given():
    assert address_problem("https://u@a.org", insecure=True, shown="x") == (
        "an address must not have a user, a password or a fragment"
    )


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


@pytest.mark.parametrize(
    ("address", "own", "said"),
    [
        ("0.0.0.0", False, "is not the address of one host"),  # noqa: S104
        ("224.0.0.1", False, "is not the address of one host"),
        ("2002:7f00:1::", False, "is not the address of one host"),
        ("::2", False, "is not the address of one host"),
        (
            "169.254.1.1",
            False,
            "is link-local, or the cloud provider of this machine answers there",
        ),
        (
            "168.63.129.16",
            False,
            "is link-local, or the cloud provider of this machine answers there",
        ),
        ("127.0.0.1", False, "is this machine"),
        ("::1", False, "is this machine"),
        ("8.8.8.8", True, "is this machine"),
        ("10.0.0.1", False, "is not public"),
        ("fec0::1", False, "is not public"),
        ("100.127.255.255", False, "is not public"),
    ],
)
def test_why_an_address_is_not_reached_is_told_whole(address, own, said):
    assert refusal(address, own=own) == f"{ip_address(address)} {said}"


def test_a_list_of_the_operators_that_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match="is too broad"):
        PrivateHosts.read(["*.intra"])
    with pytest.raises(ValueError, match="host bits"):
        PrivateHosts.read(["10.0.0.1/8"])
