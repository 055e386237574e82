"""`gonogo token`: who may speak to the server."""

from enum import StrEnum
from typing import Annotated

import typer

from gonogo.cli.arguments import Json, example, group
from gonogo.cli.language import own_locale, own_words
from gonogo.cli.support import Exit, carry_out

app = group("Tokens: who may use the server, and in which role.")


class RoleWord(StrEnum):
    """What a token's holder may do."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@app.command("create", epilog=example("gonogo token create --role operator --name ci"))
def create(
    role: Annotated[RoleWord, typer.Option("--role", help="What the token allows.")],
    name: Annotated[str, typer.Option("--name", help="A name for your own use.")] = "token",
    json: Json = False,
) -> None:
    """Create a token and print it; it is shown only once."""
    carry_out(_create, role.value, name, json)


@app.command("list", epilog=example("gonogo token list"))
def list_tokens(json: Json = False) -> None:
    """List tokens, without their secrets."""
    carry_out(_list, json)


@app.command("revoke", epilog=example("gonogo token revoke token_0192"))
def revoke(token_id: Annotated[str, typer.Argument(help="The token's id.")]) -> None:
    """Revoke a token, and close the connections that use it."""
    carry_out(_revoke, token_id)


async def _create(role: str, name: str, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts
    from gonogo.i18n import say

    async with connected() as client:
        made = await client.create_token(name=name, role=role)
        if json:
            return facts({"token": made.token, "token_id": made.view.token_id})
        typer.echo(made.token)
        typer.echo(say("cli_token_once", own_locale()), err=True)
        return Exit.DONE


async def _list(json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, table, word

    async with connected() as client:
        tokens = await client.tokens()
        if json:
            return facts(tokens)
        rows = [
            (t.token_id, t.name, word("role", t.role), t.created_at, t.revoked_at or "")
            for t in tokens
        ]
        return table(("token", "name", "role", "created", "revoked"), rows)


async def _revoke(token_id: str) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import line

    async with connected() as client:
        await client.revoke_token(token_id)
        line(own_words("Token {token_id} is revoked.", token_id=token_id))
        return Exit.DONE
