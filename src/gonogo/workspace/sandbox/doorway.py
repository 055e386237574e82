"""Run inside a box before its command: opens a port on the box's own loopback and hands it out.

Run by its text, with a bare interpreter, so it imports nothing of ours. The socket belongs to the
box's network, and whoever holds it outside takes the connections: nothing of it stays inside, and
there is no path that anything else could reach.
"""

import os
import socket
import sys


def main(channel: int, command: list[str]) -> None:
    """Open the port, hand it through the channel, and become the command."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with socket.socket(fileno=channel) as held:
            socket.send_fds(held, [b"."], [listener.fileno()])
            if held.recv(1) != b".":
                sys.exit(126)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        os.environ[name] = os.environ[name.lower()] = url  # noqa: TID251 - the command's own
    os.execv(command[0], command)  # noqa: S606 - what was asked for


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
