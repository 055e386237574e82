"""`gonogo db` and `gonogo doctor`: keeping an installation in order."""

import typer

from gonogo.cli._exits import Exit, carry_out
from gonogo.cli._options import EXACT, Json, example, group

DOCTOR_EXAMPLE = example("gonogo doctor", "gonogo doctor --json")
app = group("The database.")


@app.command("migrate", **EXACT, epilog=example("gonogo db migrate"))
def migrate() -> None:
    """Bring the database to this version's schema; nothing to do is no error."""
    carry_out(_migrate)


def doctor(json: Json = False) -> None:
    """Check what gonogo needs and say what is missing."""
    carry_out(_doctor, json)


async def _doctor(json: bool) -> Exit:
    from gonogo.cli._checks import findings
    from gonogo.cli._print import facts, line
    from gonogo.cli._setup import environment, read_settings

    found = [check async for check in findings(read_settings(), environment())]
    bad = any(check.state == "bad" for check in found)
    if json:
        facts([check.as_json() for check in found])
        return Exit.FAILED if bad else Exit.DONE
    for check in found:
        typer.echo(f"{check.state:<5} {check.name:<13} ", nl=False)
        line(check.text)
    return Exit.FAILED if bad else Exit.DONE


async def _migrate() -> Exit:
    from gonogo.cli._owner import connected
    from gonogo.cli._print import line

    async with connected():
        line("The database has this version's schema.")
    return Exit.DONE
