"""The commands: each a client of the process that owns the state folder.

Where no process owns it, the command owns it itself for as long as it runs, and is its own client;
so there is one path from a command to the runtime, and it is the public protocol. A command says
what went wrong in one line and what to do next, never with a traceback, and its exit code is one of
`Exit`. Libraries are imported when a command needs them: `gonogo --help` starts at once.
"""

from gonogo.cli.app import main
from gonogo.cli.support import Exit

__all__ = ["Exit", "main"]
