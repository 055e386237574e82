"""A small MCP server over stdio: notes in a file. Agents of gonogo can read and write them."""

from pathlib import Path

from mcp.server import MCPServer

NOTES = Path.home() / "gonogo-notes.txt"
server = MCPServer("notes")


@server.tool()
def list_notes() -> list[str]:
    """List all notes, oldest first."""
    return NOTES.read_text("utf-8").splitlines() if NOTES.exists() else []


@server.tool()
def add_note(text: str) -> str:
    """Add one note."""
    with NOTES.open("a", encoding="utf-8") as notes:
        notes.write(" ".join(text.split()) + "\n")
    return "Added."


if __name__ == "__main__":
    server.run()
