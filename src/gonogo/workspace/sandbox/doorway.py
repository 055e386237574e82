"""Run inside a box before its command: open a port on the box's loopback and pass its socket out.

A bare interpreter gets this file's text as its program, so it imports nothing of gonogo. The socket
belongs to the network of the box, but gonogo accepts its connections outside: nothing of it stays
inside, and there is no path by which anything else could be reached.
"""

import os
import socket
import sys


def main(channel: int, command: list[str]) -> None:
    """Open the port, send its socket through the channel, and become the command."""
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
