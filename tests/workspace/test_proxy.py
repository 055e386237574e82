"""What a box's proxy reads, passes on, refuses and counts, and which addresses it takes."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import anyio
import anyio.abc
import pytest

from gonogo.domain.network import PrivateHosts
from gonogo.workspace import Network, Reached
from gonogo.workspace.sandbox.network import (
    CommandProxy,
    HostRefused,
    Proxy,
    connect,
    door_of,
    is_own,
)
from gonogo.workspace.sandbox.network import _Malformed as Malformed
from gonogo.workspace.sandbox.network import _read as read

LIMIT = 60
NO_PLACE = "The request names no host and port"
NO_PROXY = "This is a proxy: it takes CONNECT and requests for http://"
NO_REQUEST = "This proxy takes HTTP/1.1 requests and CONNECT"
NO_HEADER = "A header cannot be read"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("lines", "request_"),
    [
        (["CONNECT [::1]:443 HTTP/1.1", "Host: x"], ("[::1]", 443, None)),
        (["connect a:65535 HTTP/1.0"], ("a", 65_535, None)),
        (["CONNECT a:1 HTTP/1.1"], ("a", 1, None)),
        (
            ["GET http://a.test/x?y#z HTTP/1.1", "Host: evil", "Accept: */*", "A:", "upgrade: h2",
             "Connection: keep-alive", "Keep-Alive: 5", "Proxy-Authorization: x", "Proxy: y"],
            ("a.test", 80,
             b"GET /x?y HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nAccept: */*\r\nA:\r\n"
             b"Proxy: y\r\n\r\n"),
        ),
        (
            ["get HTTP://A.test:8080?q/r HTTP/1.0"],
            ("A.test", 8080,
             b"GET /?q/r HTTP/1.1\r\nHost: A.test:8080\r\nConnection: close\r\n\r\n"),
        ),
        (
            ["POST http://a#b HTTP/1.1", "X: \xe9"],
            ("a", 80, b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: \xe9\r\n\r\n"),
        ),
    ],
)  # fmt: skip
def test_a_request_is_passed_on_as_the_host_would_get_it(
    lines: list[str], request_: tuple[str, int, bytes | None]
) -> None:
    found = read("\r\n".join(lines))

    assert (found.host, found.port, found.forward) == request_
    assert found.name == f"{found.host}:{found.port}"


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("GET / HTTP/1.1", NO_PROXY),
        ("GET https://a/ HTTP/1.1", NO_PROXY),
        ("GET http://a/ HTTP/2.0", NO_REQUEST),
        ("GET  http://a/ HTTP/1.1", NO_REQUEST),
        ("", NO_REQUEST),
        ("CONNECT a HTTP/1.1", NO_PLACE),
        ("CONNECT a:0 HTTP/1.1", NO_PLACE),
        ("CONNECT a:65536 HTTP/1.1", NO_PLACE),
        ("GET http:// HTTP/1.1", NO_PLACE),
        ("GET http://a:0/ HTTP/1.1", NO_PLACE),
        ("GET http://u@a/ HTTP/1.1", NO_PLACE),
        ("GET http://a/ HTTP/1.1\r\n folded: x", NO_HEADER),
        ("GET http://a/ HTTP/1.1\r\nx y: z", NO_HEADER),
        ("GET http://a/ HTTP/1.1\r\n: z", NO_HEADER),
        ("GET http://a/ HTTP/1.1\r\nx: y\nHost: z", NO_HEADER),
        ("GET http://a/ HTTP/1.1\r\nx: y\rHost: z", NO_HEADER),
    ],
)
def test_what_is_no_request_is_refused_in_words(head: str, said: str) -> None:
    with pytest.raises(Malformed) as refused:
        read(head)

    assert str(refused.value) == said


def test_of_the_hosts_of_one_command_a_hundred_of_each_kind_are_told() -> None:
    told = Reached()
    for number in range(101):
        told.note(f"n{number}")
        told.refuse(f"r{number}", "first")
    told.refuse("r0", "second")

    assert list(told.reached) == [f"n{number}" for number in range(100)]
    assert told.refused == {f"r{number}": "first" for number in range(100)}


def test_a_host_that_was_refused_is_told_with_the_first_reason() -> None:
    told = Reached()
    told.refuse("a:1", "first")
    told.refuse("a:1", "second")

    assert told.refused == {"a:1": "first"}


def test_all_that_a_command_may_move_is_moved_and_not_a_byte_more() -> None:
    proxy = Proxy(Network(hosts=True, transfer=4), Reached())

    assert [proxy._count(b"xx", "a:1") for _ in range(3)] == [True, True, False]
    assert proxy.report.moved == 6
    assert proxy.report.refused == {"a:1": "one command may transfer at most 4 bytes"}


def named(name: str, port: int, *addresses: str, **more: object) -> Network:
    """A network of one name, which leads to these addresses."""

    async def resolve(host: str, port_: int) -> list[str]:
        assert (host, port_) == (name, port)
        return [*addresses]

    entry = f"{name}:{port}"
    settings = {"private": PrivateHosts.read([entry]), "resolve": resolve, **more}
    return Network(hosts=(entry,), **settings)


@contextmanager
def listening() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


async def reached(network: Network, host: str, port: int) -> str:
    """Where a connection leads, or why there is none."""
    try:
        with anyio.fail_after(LIMIT):
            async with await connect(network, host, port) as stream:
                return stream.extra_attributes[anyio.abc.SocketAttribute.remote_address]()[0]
    except HostRefused as refused:
        return str(refused)


async def test_of_the_addresses_of_a_host_the_first_eight_are_tried() -> None:
    dead = [f"127.0.0.{number}" for number in range(2, 10)]
    with listening() as port:
        last = named("a.test", port, *dead[:7], "127.0.0.1")
        late = named("a.test", port, *dead, "127.0.0.1")

        assert await reached(last, "a.test", port) == "127.0.0.1"
        assert await reached(late, "a.test", port) == "it does not answer"


async def test_why_a_host_is_not_reached_is_told() -> None:
    async def fails(host: str, port: int) -> list[str]:
        raise socket.gaierror(host, port)

    async def odd(host: str, port: int) -> list[str]:
        "\ud800".encode()
        raise AssertionError(host, port)

    own = frozenset({7})
    said = [
        await reached(named("a.test", 7), "b.test", 7),
        await reached(named("a.test", 7), "a.test", 8),
        await reached(named("a.test", 7), "a.test", 7),
        await reached(named("a.test", 7, resolve=fails), "a.test", 7),
        await reached(named("a.test", 7, resolve=odd), "a.test", 7),
        await reached(named("a.test", 7, "127.0.0.1", own_ports=own), "a.test", 7),
        await reached(Network(hosts=("a.test:7",), resolve=named("a.test", 7, "10.0.0.1").resolve),
                      "a.test", 7),
    ]  # fmt: skip

    assert said == [
        "it is not among the hosts that were approved",
        "it is not among the hosts that were approved",
        "it has no address",
        "its name is not known",
        "its name is not known",
        "127.0.0.1 is this machine, and gonogo uses the port",
        "10.0.0.1 is not public",
    ]


def test_an_address_is_this_machines_own_where_it_can_be_bound_to() -> None:
    addresses = ("127.0.0.1", "127.9.9.9", "192.0.2.1", "2001:db8::1")

    assert [is_own(each) for each in addresses] == [True, True, False, False]


@contextmanager
def served(network: Network) -> Iterator[tuple[Proxy, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as port:
        port.setblocking(False)
        yield Proxy(network, Reached()), port


async def answered(network: Network, sent: bytes, then: bytes = b"") -> tuple[bytes, Reached]:
    """All that a proxy answers to one connection, and what it told of it.

    Args:
        then: What is sent once the host has said something.
    """
    said = b""
    with served(network) as (proxy, port), anyio.fail_after(LIMIT):
        address = port.getsockname()
        listener = await anyio.abc.SocketListener.from_socket(port)
        async with listener, anyio.create_task_group() as group:
            group.start_soon(proxy.serve, listener)
            async with await anyio.connect_tcp(*address) as client:
                await client.send(sent)
                async for chunk in client:
                    said += chunk
                    if then and said.endswith(b"late"):
                        await client.send(then)
                        await client.send_eof()
            group.cancel_scope.cancel()
    return said, proxy.report


async def test_a_refusal_is_an_answer_that_says_why() -> None:
    body = (
        b"gonogo does not let this command reach b.test:80: "
        b"it is not among the hosts that were approved\n"
    )

    said, told = await answered(named("a.test", 80), b"GET http://b.test/ HTTP/1.1\r\n\r\n")

    assert said == (
        b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body)
    )
    assert told == Reached(refused={"b.test:80": "it is not among the hosts that were approved"})


async def test_a_head_without_end_is_no_request() -> None:
    said, told = await answered(named("a.test", 80), b"GET http://a.test/ HTTP/1.1\r\nX: "
                                + b"x" * (32 << 10))  # fmt: skip

    assert said.endswith(b"\r\n\r\nThis proxy takes HTTP/1.1 requests and CONNECT\n")
    assert told == Reached()


async def test_once_all_was_moved_no_host_is_reached() -> None:
    with listening() as port:
        network = named("a.test", port, "127.0.0.1", transfer=0)
        said, told = await answered(network, b"CONNECT a.test:%d HTTP/1.1\r\n\r\n" % port)

    assert said.endswith(b"reach a.test:%d: one command may transfer at most 0 bytes\n" % port)
    assert told.reached == {}


async def test_a_tunnel_passes_what_came_with_its_head_and_all_that_follows() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        request_ = b"CONNECT a.test:%d HTTP/1.1\r\n\r\nearly" % port
        got: list[bytes] = []

        def answer() -> None:
            there, _ = server.accept()
            with there:
                got.append(there.recv(5, socket.MSG_WAITALL))
                there.sendall(b"late")
                while chunk := there.recv(100):
                    got.append(chunk)

        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, answer)
            network = named("a.test", port, "127.0.0.1", idle=20)
            said, told = await answered(network, request_, b"and more")

    assert b"".join(got) == b"earlyand more"
    assert said == b"HTTP/1.1 200 Connection established\r\n\r\nlate"
    assert told == Reached(reached={f"a.test:{port}": None}, moved=12)


async def handed(*sockets: socket.socket) -> bool:
    """Whether a door takes what a box hands it."""
    door = CommandProxy(Network(hosts=True))
    try:
        with socket.socket(fileno=os.dup(door.fds[0])) as theirs:
            socket.send_fds(theirs, [b"."], [each.fileno() for each in sockets])
        door.spawned()
        with anyio.fail_after(LIMIT):
            port = await door._handed()
        if port is not None:
            port.close()
        return port is not None
    finally:
        door.close()


async def test_a_door_takes_a_listening_port_of_the_internets_kind_and_nothing_else() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as port,
        socket.socket() as silent,
        socket.socket(socket.AF_UNIX) as local,
    ):
        local.bind(f"\0gonogo-test-{os.getpid()}")
        local.listen()
        assert [await handed(each) for each in (port, silent, local)] == [True, False, False]


def test_there_is_a_door_only_for_a_box_whose_command_may_reach_something() -> None:
    some = Network(hosts=("a.test",))
    for network, boxed in ((None, True), (Network(hosts=False), True), (some, False)):
        with door_of(network, boxed=boxed) as door:
            assert door is None
    with door_of(some, boxed=True) as door:
        assert door is not None
        [theirs] = door.fds
        assert door.through(["a", "b"])[-3:] == [str(theirs), "a", "b"]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(theirs)
