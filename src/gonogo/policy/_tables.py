"""The file that rules and reviews stand in."""

from gonogo.domain.errors import InvalidMessage
from gonogo.tables import TableFile


class BadRules(InvalidMessage):
    """A rules file has a defect; the message begins with file and line."""


RULES_FILE = TableFile(what="a rules file", names=("rule", "review"), refusal=BadRules)
