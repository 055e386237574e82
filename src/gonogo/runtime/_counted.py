"""A model whose failures are counted."""

from collections.abc import Callable
from dataclasses import dataclass

from gonogo.domain.errors import ModelFailed
from gonogo.domain.tool_calls import ModelRequest, Reply
from gonogo.llm import Model


@dataclass(frozen=True, slots=True)
class CountedModel:
    """Asks another model, and tells when that one does not answer."""

    model: Model
    failed: Callable[[str], None]

    @property
    def name(self) -> str:
        """The other one's."""
        return self.model.name

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Ask the model, and wait for the whole reply.

        Raises:
            ModelFailed: there is no reply.
        """
        try:
            return await self.model.request(request, on_text)
        except ModelFailed:
            self.failed(self.name)
            raise

    async def aclose(self) -> None:
        """Give back the connections."""
        await self.model.aclose()
