"""Foreign servers as they were when they ran last, for whoever must not start any."""

from collections.abc import Mapping, Sequence

from gonogo.domain.errors import ToolFailed
from gonogo.domain.tool_calls import Standing
from gonogo.tools._mcp_config import ServerConfig
from gonogo.tools._mcp_servers import Servers
from gonogo.tools._mcp_tool import Definition
from gonogo.tools._tool import Tool


class Remembered(Servers):
    """Servers that nobody asks: a tool is as it was listed last."""

    def __init__(
        self, configs: Mapping[str, ServerConfig], standings: Mapping[str, Standing]
    ) -> None:
        """Know what was seen of their tools."""
        super().__init__(configs, _unasked)
        self.remember(standings)
        self._standings = standings

    async def look(self, name: str) -> tuple[Tool, Standing]:
        """A tool, and what was seen of it.

        Raises:
            ToolFailed: `unknown_tool`.
        """
        if name not in self.known:
            raise ToolFailed("unknown_tool", f"no server has listed {name} yet")
        return self.known[name], self._standings[name]


async def _unasked(definitions: Sequence[Definition]) -> Mapping[str, Standing]:
    del definitions
    return {}
