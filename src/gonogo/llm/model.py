"""What a model is to the rest of gonogo: its interface, its settings, its role, its failures.

The models file says which model is asked in which role. It is the user's own, never a workspace's.

    [[role]]
    name = "work"
    model = "anthropic:claude-sonnet-5-5"
    effort = "medium"
    fallback = ["openai:gpt-6.1-sol"]

    [[role]]
    name = "route"
    model = "openai:qwen3-coder"
    base_url = "http://127.0.0.1:11434/v1"
    price = { input = 0, output = 0 }

It is read when the runtime opens, and refused at its first defect. A role that is not in it uses
the models of `work`; if that is not there either, the configured model.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from errno import EMFILE, ENFILE
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, cast, get_args

from msgspec import Struct
from pydantic import Field, ValidationError, field_validator, model_validator

from gonogo.domain.base import Frozen, canonical_json, loads
from gonogo.domain.errors import (
    InvalidMessage,
    ModelFailed,
    PromptTooLong,
    Reason,
    TooLarge,
    because,
    defect_of,
    together,
)
from gonogo.domain.network import address_problem
from gonogo.domain.tool_calls import ModelRequest, Reply, ToolRequest, Usage
from gonogo.tables import TableFile

# A provider's failure as `ModelFailed`: what happened, what to do, and no secrets.
#
# May pass: timeouts, broken connections and streams, 408, 429 and 5xx. Will not pass: every other
# 4xx, and a quota that is used up. If a request is refused because it is longer than the model's
# window, that is `PromptTooLong`: a shorter one may be answered.

_PASSING = frozenset({408, 429})
_SERVERS_FAULT = 500
_LOOKS_LIKE_A_KEY = re.compile(
    r"\b(?:sk|pk|gsk|xai|AIza)[-_][-_A-Za-z0-9]{6,}|\bAIza[-_A-Za-z0-9]{12,}"
)
_REFUSES_LENGTH = frozenset({400, 413, 422, None})
_SAYS_TOO_LONG = re.compile(
    r"context.?(length|size|window)|(prompt|input|request)( is|_)?.too.(long|large)"
    r"|too many (input )?tokens|token count.{0,40}exceeds|maximum number of tokens"
    r"|reduce the length",
    re.IGNORECASE,
)
"""How servers say it that pydantic-ai does not know."""
_MAX_TEXT = 500
_SHORTEST = 4


def model_failed(model: str, error: Exception, secrets: Iterable[str] = ()) -> ModelFailed:
    """Describe the failure of a provider, or of the connection to it."""
    status = _status(error)
    kind = PromptTooLong if _is_too_long(error, status) else ModelFailed
    said = _what(model, error, status, secrets)
    step = None if kind is PromptTooLong else _step(error, status)
    return kind(
        said if step is None else together((said, step)),
        http_status=status,
        retry_after=getattr(error, "retry_after", None),
        transient=_may_pass(error, status),
        sent=not _was_never_sent(error),
    )


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, and without anything that looks like a key."""
    # The longest first, as another secret may be the beginning of it.
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, "***")
    return _LOOKS_LIKE_A_KEY.sub("***", text)


def _is_too_long(error: Exception, status: int | None) -> bool:
    """Whether the provider says that the request is longer than the model's window."""
    from pydantic_ai.exceptions import ModelAPIError, ModelContextWindowExceededError

    if isinstance(error, ModelContextWindowExceededError):
        return True
    if not isinstance(error, ModelAPIError) or status not in _REFUSES_LENGTH:
        return False
    detail = _detail(getattr(error, "body", None)) or str(error)
    return _SAYS_TOO_LONG.search(detail) is not None


def _status(error: Exception) -> int | None:
    from pydantic_ai.exceptions import ModelHTTPError

    return error.status_code if isinstance(error, ModelHTTPError) else None


def _what(model: str, error: Exception, status: int | None, secrets: Iterable[str]) -> Reason:
    if isinstance(error, TimeoutError):
        return because("{model} did not answer in time", model=model)
    detail = _line(_detail(getattr(error, "body", None)), secrets)
    if status is not None and detail:
        return because(
            "{model} answered {status}: {detail}", model=model, status=status, detail=detail
        )
    if status is not None:
        return because("{model} answered {status}", model=model, status=status)
    if isinstance(error, (AttributeError, TypeError, LookupError)):
        # The provider's library does not check that an answer has the right form.
        return because("{model} sent an answer that gonogo cannot read", model=model)
    detail = detail or _line(str(error), secrets) or type(error).__name__
    return because("{model} failed: {detail}", model=model, detail=detail)


def _step(error: Exception, status: int | None) -> Reason | None:
    """What a person can do about it, if that is known."""
    if isinstance(error, TimeoutError):
        return because("try again, or choose another model")
    if status is None and _lacks_descriptors(error):
        return because("too many files and connections are open; raise the limit (ulimit -n)")
    if _was_never_sent(error):
        return because("check the network and the address of the provider, then try again")
    match status:
        case 401 | 403:
            return because("check the key of this provider, then run: gonogo doctor")
        case 404:
            return because("check the name of the model and the address of the provider")
        case 429:
            return because("wait and try again, or choose another model")
        case int() if status >= _SERVERS_FAULT:
            return because("try again later, or choose another model")
        case _:
            return None


def _line(said: str, secrets: Iterable[str]) -> str:
    return " ".join(redacted(said, secrets).split())[:_MAX_TEXT].rstrip(".")


def _detail(body: object) -> str:
    if isinstance(body, str):
        return body
    if not isinstance(body, dict):
        return ""
    fields = cast("dict[str, Any]", body)
    return _detail(fields.get("error")) or str(fields.get("message") or "")


def _lacks_descriptors(error: BaseException | None) -> bool:
    """Whether the limit of open files is the cause, even if the library does not say so."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (EMFILE, ENFILE):
            return True
        error = error.__cause__ or error.__context__
    try:
        os.close(os.dup(0))
    except OSError as missing:
        return missing.errno == EMFILE
    return False


def _was_never_sent(error: Exception) -> bool:
    from pydantic_ai.exceptions import ModelConnectionError

    return isinstance(error, ModelConnectionError) and error.phase in ("pool", "connect")


def _may_pass(error: Exception, status: int | None) -> bool:
    import httpx2
    from pydantic_ai import exceptions

    if isinstance(error, exceptions.ModelQuotaExceededError):
        return False
    if status is not None:
        return status in _PASSING or status >= 500
    if isinstance(error, exceptions.ModelRequestRejectedError):
        return False
    return isinstance(
        error,
        (
            exceptions.ModelAPIError,
            exceptions.UnexpectedModelBehavior,
            httpx2.TransportError,
            OSError,
            TimeoutError,
        ),
    )


ModelRole = Literal["plan", "work", "route", "compact", "review"]
"""The kind of work for a model: make plans, carry out work, choose the agent that answers, sum up a
conversation, check what was done."""
ROLES: tuple[ModelRole, ...] = get_args(ModelRole)
Effort = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
_MILLION = 1_000_000
_Dollars = Annotated[float, Field(ge=0, le=1_000_000)]
_Text = Annotated[str, Field(min_length=1, max_length=200)]


class BadModels(InvalidMessage):
    """A file of models cannot be read; the message begins with the file."""


_FILE = TableFile(
    what=because("a models file"), names=("role",), refusal=BadModels, most=len(ROLES)
)


class TokenPrice(Frozen):
    """The prices of a model's tokens, in US dollars per million."""

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None
    """For input tokens from the provider's cache; None: the same as other input."""
    cache_write: _Dollars | None = None
    """For input tokens that are written to that cache; None: the same as other input."""
    reasoning: _Dollars | None = None
    """For output tokens of the model's thinking; None: the same as other output."""

    def of(self, usage: Usage) -> float:
        """The cost of a request, in US dollars."""
        classes = (
            (usage.cached_tokens, self.cached, self.input),
            (usage.cache_write_tokens, self.cache_write, self.input),
            (usage.reasoning_tokens, self.reasoning, self.output),
        )
        whole = usage.input_tokens * self.input + usage.output_tokens * self.output
        own = sum(tokens * (price - usual) for tokens, price, usual in classes if price is not None)
        return max(0.0, whole + own) / _MILLION


class ModelChoice(Struct, frozen=True, kw_only=True):
    """A model, and how it is asked."""

    name: str | None = None
    """`provider:name`; None: the configured model."""
    effort: Effort | None = None
    """How much it thinks before it answers; None: the provider's default."""
    window: int | None = None
    """The most tokens of a request and its reply together; None: the known value of the model."""
    price: TokenPrice | None = None
    """None: the known price of the model."""
    base_url: str | None = None
    """The address of an OpenAI-compatible server for this model."""
    key_env: str | None = None
    """The environment variable with its key; None: the provider's usual one."""
    for_session: bool = False
    """It was chosen for one session."""


Roles = Mapping[ModelRole, Sequence[ModelChoice]]
"""For each role in the file its model, followed by the fallbacks for when that is away."""


class _ChoiceText(Frozen):
    """A model as it is written in the file."""

    model: _Text | None = None
    effort: Effort | None = None
    window: Annotated[int, Field(ge=4_000, le=100_000_000)] | None = None
    price: TokenPrice | None = None
    base_url: Annotated[str, Field(max_length=2_000)] | None = None
    key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] | None = None

    @model_validator(mode="after")
    def _one_server(self) -> "_ChoiceText":
        if self.base_url is None:
            return self
        if not (self.model or "").startswith("openai:"):
            raise ValueError(because("base_url works only with a model named openai:NAME"))
        problem = address_problem(self.base_url, insecure=True, shown=because("the key"), hint="")
        if problem is not None:
            raise ValueError(because("base_url: {problem}", problem=problem))
        return self

    def choice(self, effort: Effort | None = None) -> ModelChoice:
        return ModelChoice(
            name=self.model, effort=self.effort or effort, window=self.window, price=self.price,
            base_url=self.base_url, key_env=self.key_env,
        )  # fmt: skip


class _RoleText(_ChoiceText):
    """A role as it is written in the file."""

    name: ModelRole
    fallback: tuple[_ChoiceText, ...] = Field(default=(), max_length=8)
    """Models for when the first one is away; their default effort is that of the role."""

    @field_validator("fallback", mode="before")
    @classmethod
    def _by_name(cls, written: object) -> object:
        """Replace each bare name by a table with only this name."""
        if not isinstance(written, list):
            return written
        items = cast("list[object]", written)
        return [{"model": each} if isinstance(each, str) else each for each in items]

    @model_validator(mode="after")
    def _others_have_names(self) -> "_RoleText":
        if any(each.model is None for each in self.fallback):
            raise ValueError(because("fallback: name each model, as provider:name"))
        return self

    def choices(self) -> tuple[ModelChoice, ...]:
        return (self.choice(), *(each.choice(self.effort) for each in self.fallback))


def load_roles(path: Path) -> Roles:
    """Read the models file; a file that does not exist has no roles.

    Raises:
        BadModels: it names file, line and role of the first defect.
    """
    found: dict[ModelRole, Sequence[ModelChoice]] = {}
    for item, where in _FILE.read(path, "role"):
        try:
            role = _RoleText.model_validate(item)
        except ValidationError as error:
            raise BadModels(
                "{where}: {name}: {problem}",
                where=where,
                name=_named(item),
                problem=defect_of(error),
            ) from error
        if role.name in found:
            raise BadModels(
                "{where}: role {role!r} is listed twice; keep one of them",
                where=where,
                role=role.name,
            )
        choices = role.choices()
        if len(set(choices)) < len(choices):
            raise BadModels(
                "{where}: role {role!r}: fallback: a model is listed twice",
                where=where,
                role=role.name,
            )
        found[role.name] = choices
    return found


def choices_of(roles: Roles, role: ModelRole) -> Sequence[ModelChoice]:
    """The models for a role, in the order in which they are asked."""
    return roles.get(role) or roles.get("work") or (ModelChoice(),)


def _named(item: Any) -> str:  # noqa: ANN401 - any TOML value
    name: Any = cast("dict[str, Any]", item).get("name") if isinstance(item, dict) else None
    return f"role {name!r:.40}" if isinstance(name, str) else "role"


# The interface of a model, and its settings.

OnText = Callable[[str], None]
"""Called with each new piece of the text while the model writes it."""


class Model(Protocol):
    """Answers one request at a time; several may run at once."""

    @property
    def name(self) -> str:
        """The name for people: `openai:gpt-5`, `demo`."""
        ...

    @property
    def window(self) -> int | None:
        """The most tokens of a request and its reply together; None: unknown."""
        ...

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Ask the model, and wait for the whole reply.

        Raises:
            ModelFailed: there is no reply, after the retries that make sense.
            PromptTooLong: the request is longer than the model's window.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections. A request after that is an error."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The settings with which a model is opened. None of them is read from the environment."""

    name: str | None = None
    """`provider:name`, `demo`, or `replay:FILE`; None: it is detected."""
    base_url: str | None = None
    """An OpenAI-compatible server; only models named `openai:…` are asked there."""
    api_key: str | None = field(default=None, repr=False)
    """The provider's key; None: from the provider's usual environment variable."""
    timeout: float = 120.0
    """How many seconds the provider may be silent."""
    total_timeout: float = 1800.0
    """How many seconds one request may take, including all its attempts."""
    max_attempts: int = 5
    """The most attempts, including the first one."""
    temperature: float | None = None
    effort: Effort | None = None
    """How much the model thinks before it answers; None: the provider's default."""
    window: int | None = None
    """The model's window, in tokens; None: the provider's library is asked."""
    price: TokenPrice | None = None
    """The price of its tokens; None: the known price of the model."""
    backoff: float = 0.5
    """Seconds before the second attempt; doubled for each further one, with jitter."""
    max_retry_after: float = 60.0
    """The longest wait, in seconds, for which a provider may ask before we give up."""
    role: ModelRole | None = None
    """The role of the model, for recording and playing."""
    record: Path | None = None
    """The cassette to which the exchanges with the provider are appended."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Texts that no cassette may contain, besides the key."""


# Making a model's text safe to store and to show.
#
# UTF-8 and PostgreSQL cannot store lone surrogates and NUL, so they become U+FFFD.

_UNSTORABLE = re.compile("[\ud800-\udfff\x00]")


def clean(text: str) -> str:
    """The text, with characters replaced that cannot be stored."""
    if not _UNSTORABLE.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\x00", "\ufffd")


def clean_json(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A JSON value with every string in it cleaned, keys too."""
    match value:
        case str():
            return clean(value)
        case list():
            return [clean_json(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {clean_json(key): clean_json(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


# Tool calls as models write them.
#
# The JSON of a model cannot be trusted: duplicate keys, NaN, a broken end. If it cannot be read in
# exactly one way, the model is told of the problem; gonogo never guesses.

CUT_OFF = "The reply reached the output limit before the arguments were complete"


def read_arguments(
    written: str | Mapping[str, object] | None, *, cut_off: bool = False
) -> tuple[dict[str, Any] | None, str | None]:
    """Read what a model wrote as the arguments of a call.

    Args:
        cut_off: The reply ended at its length limit in these arguments, or right after them: they
            count only if they are a complete JSON object.

    Returns:
        The arguments and None, or None and the problem in a sentence.
    """
    if not written or (isinstance(written, str) and not written.strip()):
        return (None, CUT_OFF) if cut_off else ({}, None)
    if cut_off and not isinstance(written, str):
        # A library has parsed it already, and may have closed open brackets.
        return None, CUT_OFF
    try:
        value = loads(written if isinstance(written, str) else canonical_json(written))
        # Also refuses numbers such as 1e999, which are read as infinite.
        canonical_json(value)
    except (InvalidMessage, TooLarge) as error:
        return None, CUT_OFF if cut_off else f"Arguments: {error}"
    except (ValueError, RecursionError):
        return None, "Arguments: a number is out of range"
    if not isinstance(value, dict):
        return None, f"Arguments must be a JSON object, not {type(value).__name__}"
    return cast("dict[str, Any]", value), None


def tool_request(
    name: str, written: str | Mapping[str, object] | None, *, cut_off: bool = False
) -> ToolRequest:
    """A call as a model wrote it, with an id of gonogo: `call_` and 24 hex digits.

    Args:
        cut_off: As in `read_arguments`.
    """
    arguments, problem = read_arguments(written, cut_off=cut_off)
    call_id = f"call_{secrets.token_hex(12)}"
    return ToolRequest(id=call_id, name=clean(name), arguments=arguments, problem=problem)
