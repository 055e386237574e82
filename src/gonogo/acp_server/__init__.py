"""The door for editors: an agent of the Agent Client Protocol on standard input and output.

It is a client of the server, as every command is, so the session that an editor sees is the one
that console and terminal see, and what runs there goes on without the editor. What it promises:
what an editor writes is answered, with an error that says what was wrong if it comes to that, and
never ends the door; nothing but the protocol is written where the protocol is; a question is put
before the person as it stands, bound by its digest, and is decided by their choice alone, never by
what they write in a conversation; who closes an editor decides nothing.
"""

from gonogo.acp_server.protocol import Pipe
from gonogo.acp_server.server import serve_editor

__all__ = ["Pipe", "serve_editor"]
