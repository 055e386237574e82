"""`gonogo policy list`, `add` and `remove`: the rules of one session."""

from gonogo.cli._exits import Exit
from gonogo.cli._owner import connected, linked
from gonogo.cli._print import facts, line, table
from gonogo.cli._setup import read_settings
from gonogo.domain.text_safety import visible_json
from gonogo.domain.views import SessionRuleView


async def list_rules(session_id: str, *, json: bool) -> Exit:
    """List what holds in a session besides the rules of files."""
    async with connected() as client:
        found = await client.session_rules(session_id)
        if json:
            return facts(found)
        rows = [(r.name, r.rule_id, r.made_by, r.created_at, _written(r)) for r in found]
        return table(("name", "rule", "made by", "made", "says"), rows)


async def add_rule(session_id: str, rule: dict[str, object], *, json: bool) -> Exit:
    """Make a rule."""
    async with linked(read_settings(), goes_on=True) as link:
        made = await link.client.add_session_rule(session_id, rule)
    if json:
        return facts(made)
    line(f"{made.name} {made.rule_id} {_written(made)}")
    return Exit.DONE


async def remove_rule(session_id: str, rule: str) -> Exit:
    """End a rule."""
    async with linked(read_settings(), goes_on=True) as link:
        await link.client.remove_session_rule(session_id, rule)
    return Exit.DONE


def _written(rule: SessionRuleView) -> str:
    where = f" in {rule.plan_id}" if rule.plan_id else ""
    return f"{visible_json(rule.rule)}{where}"
