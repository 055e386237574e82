"""A prompt of the protocol as the text that an agent is told."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp import schema

from gonogo.acp._router import refused

Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


def text_of(blocks: Sequence[Block], root: str) -> str:
    """All blocks as one text; files of the workspace are named as tools name them.

    Raises:
        RequestError: there is nothing to say, or a block of a kind that was not announced.
    """
    text = "".join(_part(block, root) for block in blocks).strip()
    if not text:
        raise refused("prompt: there is no text in it")
    return text


def _part(block: Block, root: str) -> str:
    match block:
        case schema.TextContentBlock():
            return block.text
        case schema.ResourceContentBlock():
            return f"`{_name(block.uri, root)}`"
        case schema.EmbeddedResourceContentBlock():
            return _embedded(block.resource, root)
        case _:
            raise refused(f"prompt: {block.type} is not taken")


def _embedded(
    resource: schema.TextResourceContents | schema.BlobResourceContents, root: str
) -> str:
    name = _name(resource.uri, root)
    if isinstance(resource, schema.BlobResourceContents):
        return f"`{name}`"
    # Longer than any fence in it, so that a file cannot end its own quotation.
    fence = "`" * max(3, 1 + _longest_run(resource.text))
    return f"\n\n{name}:\n{fence}\n{resource.text}\n{fence}\n\n"


def _longest_run(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest


def _name(uri: str, root: str) -> str:
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return uri
    path = Path(unquote(parts.path))
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
