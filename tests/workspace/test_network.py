"""A boxed command reaches what was allowed, through one checked way, and nothing else."""

import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE, Popen

import anyio
import pytest

from fakes.until import with_time_to_begin
from fakes.world import is_running
from gonogo.domain.network import PrivateHosts
from gonogo.workspace import CommandOutput, Network, Sandbox, Workspace, run_command

BUBBLEWRAP = Sandbox.detect()
pytestmark = pytest.mark.skipif(BUBBLEWRAP is None, reason="bubblewrap does not work here")
MIB = 1 << 20


class Answers(BaseHTTPRequestHandler):
    """Says what it was asked; sends elsewhere; sends much."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        match self.path.split("/")[1:]:
            case ["to", port]:
                self.send_response(302)
                self.send_header("Location", f"http://127.0.0.1:{port}/secret")
                self._body(b"")
            case ["much", count]:
                self.send_response(200)
                self._body(b"x" * int(count))
            case _:
                self.send_response(200)
                self._body(b"CANARY " + self.path.encode())

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self._body(f"got {len(sent)}".encode())

    def _body(self, body: bytes) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


class Quiet(ThreadingHTTPServer):
    daemon_threads = True
    address_family = socket.AF_INET

    def handle_error(self, *_args: object) -> None:
        """A client that goes away is no news."""


class Quiet6(Quiet):
    address_family = socket.AF_INET6


@contextmanager
def serving(kind: type[Quiet] = Quiet, address: str = "127.0.0.1") -> Iterator[Quiet]:
    with kind((address, 0), Answers) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def server() -> Iterator[Quiet]:
    with serving() as found:
        yield found


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "ws").mkdir()
    return Workspace(tmp_path / "ws")


def network(
    *hosts: str,
    private: Sequence[str] = (),
    names: dict[str, list[str]] | None = None,
    **more: object,
) -> Network:
    """A network of these hosts; without any, all that are public."""
    known = names or {}

    async def resolve(host: str, port: int) -> list[str]:
        if host in known:
            return known[host]
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [str(each[4][0]) for each in found]

    settings = {"private": PrivateHosts.read(private), "resolve": resolve, **more}
    return Network(hosts=hosts or True, **settings)


def to(server: Quiet, name: str = "good.test", **more: object) -> Network:
    """A network where one name is that server."""
    port = server.server_address[1]
    entry = f"{name}:{port}"
    return network(entry, private=[entry], names={name: ["127.0.0.1"]}, **more)


async def run(workspace: Workspace, script: str, of: Network | None, **more) -> CommandOutput:
    settings = {"cwd": None, "timeout": 60, "sandbox": BUBBLEWRAP, **more}
    with anyio.fail_after(120):
        return await run_command(workspace, script, network=of, **settings)


CURL = "curl -sS -m 50"


async def test_a_listed_host_is_reached_by_http_and_by_a_tunnel(
    workspace: Workspace, server: Quiet
) -> None:
    url = f"http://good.test:{server.server_address[1]}"

    done = await run(
        workspace, f"{CURL} {url}/a?b=c; {CURL} -p {url}/tunnel; {CURL} -d hello {url}", to(server)
    )

    assert done.output == "CANARY /a?b=cCANARY /tunnelgot 5"
    assert list(done.network.reached) == [url.removeprefix("http://")]
    assert done.network.refused == {}
    assert not any(name.startswith("Proxy") for _, headers in server.asked for name in headers)


async def test_a_host_that_is_not_listed_is_refused_and_told(
    workspace: Workspace, server: Quiet
) -> None:
    port = server.server_address[1]

    done = await run(workspace, f"{CURL} http://other.test:{port}/", to(server))

    assert "gonogo does not let this command reach" in done.output
    assert done.network.refused == {
        f"other.test:{port}": "it is not among the hosts that were approved"
    }
    assert server.asked == []


async def test_without_a_network_there_is_neither_a_proxy_nor_a_way(
    workspace: Workspace, server: Quiet
) -> None:
    port = server.server_address[1]

    done = await run(workspace, f"env | grep -i proxy; {CURL} http://127.0.0.1:{port}", None)

    assert done.network is None
    assert "PROXY" not in done.output.upper()
    assert done.exit_code == 7
    assert server.asked == []


FORMS = ["127.0.0.1", "127.1", "2130706433", "017700000001", "0x7f000001", "0x7f.1", "0.0.0.0",  # noqa: S104
         "localhost", "LOCALHOST.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]",
         "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "private.test", "mixed.test"]  # fmt: skip
NAMES = {"private.test": ["10.0.0.1", "192.168.1.1", "fd00::1", "fe80::1"],
         "mixed.test": ["127.0.0.1", "::1", "169.254.169.254"]}  # fmt: skip


async def test_this_machine_is_not_reached_by_any_spelling_although_any_host_is_allowed(
    workspace: Workspace, server: Quiet
) -> None:
    port = server.server_address[1]
    # As the proxy is told: curl itself would put some of these into another form.
    asked = " ".join(f"'{form}:{port}'" for form in FORMS)
    script = (
        f"for host in {asked}; do exec 3<>/dev/tcp/127.0.0.1/${{HTTP_PROXY##*:}}; "
        "printf 'CONNECT %s HTTP/1.1\\r\\n\\r\\n' $host >&3; head -n1 <&3; exec 3>&-; done"
    )

    done = await run(workspace, script, network(names=NAMES))

    assert done.output.count("403 Forbidden") == len(FORMS), done.output
    assert done.network.reached == {}
    assert server.asked == []


async def test_its_own_addresses_and_the_clouds_are_refused(workspace: Workspace) -> None:
    names = {"meta.test": ["169.254.169.254"], "azure.test": ["168.63.129.16"],
             "v6.test": ["fd00:ec2::254"], "many.test": ["224.0.0.1"],
             "shared.test": ["100.100.100.200"]}  # fmt: skip
    script = "; ".join(f"{CURL} http://{name}/" for name in names)

    done = await run(workspace, script, network(private=["0.0.0.0/0", "::/0"][:0], names=names))

    assert done.network.refused.keys() == {f"{name}:80" for name in names}
    for name, (address,) in names.items():
        assert done.network.refused[f"{name}:80"].startswith(f"{address} is ")
    assert done.network.reached == {}


async def test_an_operator_lists_ranges_but_never_the_clouds_own_or_this_machine(
    workspace: Workspace, server: Quiet
) -> None:
    names = {"meta.test": ["169.254.169.254"], "here.test": ["127.0.0.1"]}
    port = server.server_address[1]
    wide = network(private=["0.0.0.0/0", "::/0"], names=names)

    done = await run(workspace, f"{CURL} http://meta.test/; {CURL} http://here.test:{port}/", wide)

    assert set(done.network.refused) == {"meta.test:80", f"here.test:{port}"}


async def test_gonogos_own_port_is_refused_although_it_is_listed(
    workspace: Workspace, server: Quiet
) -> None:
    port = server.server_address[1]

    done = await run(
        workspace,
        f"{CURL} http://good.test:{port}/",
        to(server, own_ports=frozenset({port})),
    )

    assert "gonogo uses the port" in done.network.refused[f"good.test:{port}"]
    assert server.asked == []


async def test_a_redirect_to_this_machine_leads_nowhere(
    workspace: Workspace, server: Quiet
) -> None:
    with serving() as forbidden:
        there = forbidden.server_address[1]
        url = f"http://good.test:{server.server_address[1]}/to/{there}"

        # Without the exception for the box's own loopback, so that the proxy is asked.
        done = await run(workspace, f"NO_PROXY= no_proxy= {CURL} -L {url}; {CURL} -L {url}",
                         to(server))  # fmt: skip

        assert "CANARY" not in done.output
        assert f"127.0.0.1:{there}" in done.network.refused
        assert forbidden.asked == []


async def test_ipv6_is_reached_where_it_is_listed(workspace: Workspace) -> None:
    with serving(Quiet6, "::1") as server:
        entry = f"[::1]:{server.server_address[1]}"

        done = await run(
            workspace,
            f"NO_PROXY= no_proxy= {CURL} -g http://{entry}/six",
            network(entry, private=[entry]),
        )

    assert done.output == "CANARY /six"


async def test_a_name_is_resolved_once_and_the_judged_address_is_taken(
    workspace: Workspace, server: Quiet
) -> None:
    port = server.server_address[1]
    answers = iter([["10.255.255.1"], ["127.0.0.1"]])

    async def rebinding(host: str, port: int) -> list[str]:
        del host, port
        return next(answers)

    of = Network(hosts=(f"rebind.test:{port}",), resolve=rebinding)
    done = await run(workspace, f"{CURL} http://rebind.test:{port}/", of)

    assert done.network.refused == {f"rebind.test:{port}": "10.255.255.1 is not public"}
    assert server.asked == []


async def test_the_bytes_of_a_command_are_bounded(workspace: Workspace, server: Quiet) -> None:
    url = f"http://good.test:{server.server_address[1]}/much/{20 * MIB}"

    done = await run(
        workspace, f"{CURL} -o f {url}; wc -c <f; {CURL} {url}", to(server, transfer=MIB)
    )

    assert workspace.stat("f").size <= MIB
    assert "at most" in next(iter(done.network.refused.values()))
    assert f"may transfer at most {MIB} bytes" in done.output


async def test_a_silent_connection_is_ended(workspace: Workspace) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        entry = f"good.test:{silent.getsockname()[1]}"
        of = network(entry, private=[entry], names={"good.test": ["127.0.0.1"]}, idle=0.3)

        done = await run(workspace, f"curl -sS -p http://{entry}/", of)

    assert done.exit_code != 0
    assert not done.timed_out


async def test_more_connections_than_may_be_wait_for_their_turn(
    workspace: Workspace, server: Quiet
) -> None:
    url = f"http://good.test:{server.server_address[1]}"
    script = f"for n in $(seq 12); do {CURL} {url}/$n >$n & done; wait; cat ? ?? | grep -o CANARY"

    done = await run(workspace, script, to(server, connections=2))

    assert done.output.split() == ["CANARY"] * 12


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("GET / HTTP/1.1", "This is a proxy: it takes CONNECT and requests for http://"),
        ("GET ftp://good.test/ HTTP/1.1", "This is a proxy: it takes CONNECT and requests for"),
        ("GET http:// HTTP/1.1", "The request names no host and port"),
        ("CONNECT a HTTP/1.1", "The request names no host and port"),
        ("CONNECT a:99999 HTTP/1.1", "The request names no host and port"),
        ("GET http://u@good.test/ HTTP/1.1", "The request names no host and port"),
        ("nonsense", "This proxy takes HTTP/1.1 requests and CONNECT"),
        ("", "This proxy takes HTTP/1.1 requests and CONNECT"),
    ],
)
async def test_what_is_no_request_for_a_proxy_is_not_one(
    workspace: Workspace, server: Quiet, request_: str, said: str
) -> None:
    script = (
        "exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}; "
        f"printf '%s\\r\\n\\r\\n' '{request_}' >&3; cat <&3"
    )

    done = await run(workspace, script, to(server))

    assert done.output.startswith("HTTP/1.1 400 Bad Request")
    assert f"\n{said}" in done.output
    assert done.network.reached == {}


async def test_sockets_and_files_of_the_state_folder_are_not_there_whatever_the_network(
    workspace: Workspace, tmp_path: Path
) -> None:
    state, outside = tmp_path / "state", Path(f"/var/lib/gonogo-{secrets.token_hex(4)}.sock")
    state.mkdir()
    for name in ("gonogo.db", "operator.token"):
        (state / name).write_text("CANARY")
    abstract = f"\0gonogo-{secrets.token_hex(4)}"
    paths = [str(state / "gonogo.sock"), str(outside), str(workspace.root / "own.sock"), abstract]
    listeners = [socket.socket(socket.AF_UNIX) for _ in paths]
    try:
        for path, listener in zip(paths, listeners, strict=True):
            listener.bind(path)
            listener.listen()
        script = (
            "import socket\n"
            f"for path in {paths!r}:\n"
            "  try: socket.socket(socket.AF_UNIX).connect(path); print('IN')\n"
            "  except OSError as e: print('out', e.errno)\n"
        )
        workspace.write("try.py", script.encode(), base=None)

        done = await run(
            workspace, f"/usr/bin/python3 try.py; cat {state}/*", network(), hidden=[state]
        )
    finally:
        for listener in listeners:
            listener.close()
        outside.unlink(missing_ok=True)  # noqa: ASYNC240 - a moment

    assert done.output.count("out") == len(paths), done.output
    assert "CANARY" not in done.output


async def test_the_time_limit_ends_the_command_with_its_connections(
    workspace: Workspace, server: Quiet
) -> None:
    url = f"http://good.test:{server.server_address[1]}"

    done = await with_time_to_begin(
        lambda seconds: run(workspace, f"{CURL} {url}; sleep 60", to(server), timeout=seconds),
        lambda done: done.output,
    )

    assert done.timed_out
    assert done.output == "CANARY /"
    assert list(done.network.reached) == [url.removeprefix("http://")]


OWNER = """
import sys, anyio
from pathlib import Path
from gonogo.workspace import Network, Sandbox, Workspace, run_command

async def main():
    with anyio.fail_after(60):
        await run_command(
            Workspace(Path(sys.argv[1])), sys.argv[2], cwd=None, timeout=50,
            sandbox=Sandbox.detect(), network=Network(hosts=True),
        )

anyio.run(main)
"""


async def test_a_killed_server_leaves_neither_processes_nor_folders(
    workspace: Workspace, tmp_path: Path
) -> None:
    token, temporary = f"left-{secrets.token_hex(6)}", tmp_path / "tmp"
    temporary.mkdir()
    script = f"touch up; exec -a {token} sleep 300"
    environment = {**os.environ, "TMPDIR": str(temporary)}

    with Popen(  # noqa: ASYNC220 - it has to be another process
        [sys.executable, "-c", OWNER, str(workspace.root), script], stderr=PIPE, env=environment
    ) as owner:
        with anyio.fail_after(60):
            while not (workspace.root / "up").exists():  # noqa: ASYNC110 - processes tell nobody
                await anyio.sleep(0.02)
        owner.send_signal(signal.SIGKILL)
    await is_running(token, wanted=False)

    assert list(temporary.iterdir()) == []
