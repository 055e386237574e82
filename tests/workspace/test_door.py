"""The door of a box outlasts a box that ends early, and connections that cannot be taken."""

import socket

import anyio
import anyio.abc
import pytest

from gonogo.workspace.sandbox.network import CommandProxy, Network, Proxy, Reached

LIMIT = 60


@pytest.mark.parametrize("handed", [True, False])
async def test_a_box_that_ends_before_it_began_is_no_defect(handed: bool) -> None:
    door = CommandProxy(Network(hosts=True))
    with socket.create_server(("127.0.0.1", 0)) as port, anyio.fail_after(LIMIT):
        if handed:
            with socket.socket(fileno=socket.dup(door.fds[0])) as theirs:
                socket.send_fds(theirs, [b"."], [port.fileno()])
        door.spawned()
        await door._serve()
    door.close()


class Failing(anyio.abc.SocketListener):
    """A listener whose first connections cannot be taken."""

    def __init__(self, listener: anyio.abc.SocketListener, failures: int) -> None:
        self.listener, self.failures = listener, failures

    @property
    def _raw_socket(self) -> socket.socket:
        return self.listener._raw_socket

    async def accept(self) -> anyio.abc.SocketStream:
        if self.failures:
            self.failures -= 1
            raise OSError(24, "Too many open files")
        return await self.listener.accept()

    async def serve(self, handler, task_group=None) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        await self.listener.aclose()


async def test_connections_are_taken_again_when_some_could_not_be() -> None:
    with socket.create_server(("127.0.0.1", 0)) as port, anyio.fail_after(LIMIT):
        address = port.getsockname()
        port.setblocking(False)
        real = await anyio.abc.SocketListener.from_socket(port)
        network = Network(hosts=("example.org",))
        async with real, anyio.create_task_group() as group:
            group.start_soon(Proxy(network, Reached()).serve, Failing(real, 2))
            async with await anyio.connect_tcp(*address) as client:
                await client.send(b"GET http://example.com/ HTTP/1.1\r\n\r\n")
                assert (await client.receive()).startswith(b"HTTP/1.1 403 Forbidden")
            group.cancel_scope.cancel()
