"""The gate as the settings have it."""

from collections.abc import Mapping

from gonogo.agents import Gate, Giving, Profile, nothing_given
from gonogo.domain.review import deed_of
from gonogo.policy import load_reviews, load_rules
from gonogo.settings import Settings
from gonogo.tools import Tool
from gonogo.workspace import Sandbox


def open_gate(
    settings: Settings,
    tools: Mapping[str, Tool],
    profiles: Mapping[str, Profile],
    given: Giving = nothing_given,
) -> Gate:
    """Make the gate of these tools and agents.

    Raises:
        BadRules: naming file and line of the first defect in the rules.
    """
    reviews = load_reviews(settings.admin_rules, settings.rules)
    return Gate(
        tools=tools, profiles=profiles, home=settings.home, given=given,
        reviewed=lambda call: reviews.of("tool", (deed_of(call.agent, call.tool, call.access),)),
        rules=load_rules(settings.admin_rules, settings.rules),
        sandbox=Sandbox.detect() if settings.sandbox else None,
        attended=not settings.unattended, repo_trusted=settings.repo_trusted,
    )  # fmt: skip
