"""The editor at the other end: what can be sent to it and asked of it."""

from contextlib import suppress
from typing import Any

import anyio
from acp import RequestError, schema
from acp.core import Connection
from pydantic import BaseModel, TypeAdapter, ValidationError

from gonogo.acp._pipe import Pipe
from gonogo.acp._updates import Update

_ANSWER: TypeAdapter[Any] = TypeAdapter(schema.CreateElicitationResponse)


class Editor:
    """The client of the protocol."""

    def __init__(self, connection: Connection, pipe: Pipe) -> None:
        self._connection, self._pipe = connection, pipe
        self.forms = False
        """Whether it can ask the person for more than a choice."""

    async def show(self, session_id: str, *updates: Update) -> None:
        """Send updates; to an editor that is gone, nothing."""
        for update in updates:
            params = schema.SessionNotification(session_id=session_id, update=update)
            with suppress(ConnectionError):
                await self._connection.send_notification("session/update", plain(params))

    async def choose(
        self,
        session_id: str,
        call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
    ) -> str | None:
        """Put a choice before the person; None when they made none.

        Cancelled, it takes the question back.
        """
        request = schema.RequestPermissionRequest(
            session_id=session_id, tool_call=call, options=options
        )
        answer = await self._ask("session/request_permission", plain(request))
        with suppress(ValidationError):
            outcome = schema.RequestPermissionResponse.model_validate(answer).outcome
            if isinstance(outcome, schema.AllowedOutcome):
                known = {option.option_id for option in options}
                return outcome.option_id if outcome.option_id in known else None
        return None

    async def fill_in(
        self, session_id: str, message: str, form: schema.ElicitationSchema
    ) -> dict[str, Any] | None:
        """Have the person fill in a form; None when they did not."""
        request = schema.CreateFormSessionElicitationRequest(
            session_id=session_id, message=message, mode="form", requested_schema=form
        )
        answer = await self._ask("elicitation/create", plain(request))
        with suppress(ValidationError):
            found = _ANSWER.validate_python(answer)
            if isinstance(found, schema.AcceptElicitationResponse):
                return dict(found.content or {})
        return None

    async def _ask(self, method: str, params: dict[str, Any]) -> object:
        try:
            return await self._connection.send_request(method, params)
        except (RequestError, ConnectionError):
            return None
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._take_back(params)
            raise
        finally:
            self._pipe.number_of(params)

    async def _take_back(self, params: dict[str, Any]) -> None:
        number = self._pipe.number_of(params)
        if number is not None:
            with suppress(ConnectionError), anyio.move_on_after(1):
                await self._connection.send_notification("$/cancel_request", {"requestId": number})


def plain(model: BaseModel) -> dict[str, Any]:
    """A value of the protocol as it is written."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
