"""What an agent writes, drawn as Markdown and without power over the terminal.

Markdown hides what it is not meant to show, and spells characters out that were not there before:
`&#27;` is a control character only once it is read. So the text is read first, and then every piece
of it is made visible; pieces of HTML are shown as they are written, and links with their address.
"""

from rich.markdown import Markdown

from gonogo.cli._escape import spoken

_SHOWN_AS = {"html_block": "code_block", "html_inline": "text"}


class Spoken(Markdown):
    """A text of a stranger's, to be printed."""

    def __init__(self, text: str) -> None:
        super().__init__(text, code_theme="ansi_dark", hyperlinks=False)
        left = list(self.parsed)
        while left:
            token = left.pop()
            token.type = _SHOWN_AS.get(token.type, token.type)
            token.content = spoken(token.content)
            for name in ("href", "src"):
                if name in token.attrs:
                    token.attrs[name] = spoken(str(token.attrs[name]))
            left += token.children or ()
