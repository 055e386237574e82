"""The door for other agents: a server of the Model Context Protocol on standard input and output.

It is a client of the runtime, as every command is. Another agent may ask for a plan and look at
plans, questions and results. What it promises: nothing here decides; who asked for a plan cannot
approve it through this door, whatever it is told, and a message is never taken as a decision.
"""

from gonogo.mcp_server.server import serve_agents

__all__ = ["serve_agents"]
