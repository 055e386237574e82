"""Which model is asked: by its name, or by the environment variables that providers' tools read.

`demo` is the run that comes with gonogo, `replay:FILE` a recorded one. With a base URL,
`openai:NAME` uses Chat Completions on that server, with or without a key. If something is missing,
the error names it, together with the possible choices.
"""

import importlib.util
import inspect
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from pydantic import ValidationError

from gonogo.domain.errors import InternalFailure, ModelFailed, ModelNotConfigured, because, together
from gonogo.domain.failures import is_away, quota_pause
from gonogo.domain.tool_calls import ModelRequest, Reply
from gonogo.llm.model import (
    ROLES,
    Model,
    ModelChoice,
    ModelSettings,
    OnText,
    Roles,
    TokenPrice,
    choices_of,
)
from gonogo.llm.provider import Relay
from gonogo.llm.scripted import DEMO

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from openai import AsyncOpenAI
    from pydantic_ai.models import Model as TheirModel

    from gonogo.llm.recording import Recorder
    from gonogo.llm.scripted import AskedModel

# Several models in the place of one: if the first is away, the next one answers.
#
# If the request itself is wrong, every model would refuse it, so the failure is raised. If all
# models fail, the failure is raised after which waiting makes the most sense. A model that failed
# rests for a while: it is asked again only after that time, or if no other one answers.

logger = logging.getLogger(__name__)

ATTEMPTS = 2
"""How many attempts a model makes if another one comes after it."""
_OF_THE_REQUEST = frozenset({400, 413, 422})
_SHORT, _LONG = 60.0, 600.0
"""How many seconds a model rests: the first time (doubled each further time), and at most."""


class ModelRest(Struct, frozen=True, kw_only=True):
    """The rest of a model that failed: it is not asked for a while."""

    until: float
    failures: int
    error: str


class FallbackModel:
    """Asks the first of several models that answers."""

    def __init__(
        self,
        choices: Sequence[ModelChoice],
        opened: Callable[[ModelChoice], Model],
        rests: dict[ModelChoice, ModelRest],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the models.

        Args:
            choices: The models, in the order in which they are asked.
            opened: Returns a model, opened; may raise `ModelNotConfigured`.
            rests: The models that failed lately; may be shared with other `FallbackModel`s.
            clock: A clock in seconds, with any zero.
        """
        self._choices, self._opened, self._rests, self._clock = choices, opened, rests, clock

    @property
    def name(self) -> str:
        """The name of the first model."""
        return self._choices[0].name or "the configured model"

    @property
    def window(self) -> int | None:
        """The smallest known window of the models, as each may be asked."""
        known = (self._window_of(choice) for choice in self._choices)
        return min(filter(None, known), default=None)

    def _window_of(self, choice: ModelChoice) -> int | None:
        try:
            return self._opened(choice).window
        except ModelNotConfigured:
            return choice.window

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Ask the models, one after the other, until one answers.

        Raises:
            ModelFailed: none answered, or the request itself is wrong.
            ModelNotConfigured: none can be asked.
        """
        relay, failed = Relay(on_text), list[InternalFailure]()
        for choice in self._in_order():
            relay.restart()
            try:
                reply = await self._opened(choice).request(request, relay.feed)
            except (ModelFailed, ModelNotConfigured) as error:
                if not is_for_another(error):
                    raise
                failed.append(error)
                self._let_rest(choice, error)
                continue
            relay.finish()
            self._rests.pop(choice, None)
            first = self._rests.get(self._choices[0])
            return reply.model_copy(update={"passed": first.error}) if first else reply
        raise all_failed(failed)

    async def aclose(self) -> None:
        """Do nothing: whoever opened the models closes them."""

    def _in_order(self) -> Sequence[ModelChoice]:
        """The models in order; resting ones come last, as no other may be left."""
        now = self._clock()
        return sorted(self._choices, key=lambda choice: _rests(self._rests, choice, now))

    def _let_rest(self, choice: ModelChoice, error: InternalFailure) -> None:
        before = self._rests.get(choice)
        failures = before.failures + 1 if before else 1
        seconds = _seconds(error, failures)
        logger.warning("%s; the next model is asked, this one not for %.0f s", error, seconds)
        self._rests[choice] = ModelRest(
            until=self._clock() + seconds, failures=failures, error=error.said
        )


def _rests(rests: Mapping[ModelChoice, ModelRest], choice: ModelChoice, now: float) -> bool:
    rest = rests.get(choice)
    return rest is not None and now < rest.until


def _seconds(error: InternalFailure, failures: int) -> float:
    if not isinstance(error, ModelFailed) or not error.transient:
        return _LONG
    if (quota := quota_pause(error)) is not None:
        return max(quota, _SHORT)
    return min(_SHORT * 2.0 ** min(failures - 1, 10), _LONG)


def is_for_another(error: InternalFailure) -> bool:
    """Whether another model may answer: this one is away, has no quota, or refuses access."""
    if not isinstance(error, ModelFailed):
        return True
    told = error.http_status is not None and error.http_status not in _OF_THE_REQUEST
    return error.transient or told


def all_failed(failed: Sequence[InternalFailure]) -> InternalFailure:
    """One failure for all models: to wait for one of them, else for a quota, else a final one."""
    known = [error for error in failed if isinstance(error, ModelFailed)]
    if not known or len(failed) == 1:
        return failed[0]
    waits = [error for error in known if is_away(error)]
    waits = waits or [error for error in known if error.transient]
    first = (waits or known)[0]
    wanted = [error.retry_after for error in waits if error.retry_after is not None]
    return ModelFailed(
        together(dict.fromkeys(error.said for error in failed)),
        http_status=first.http_status, retry_after=min(wanted, default=None),
        transient=bool(waits), sent=any(error.sent for error in known),
    )  # fmt: skip


NO_KEY = "no-key"
"""The key that is sent to a server for which there is no key."""
REPLAY = "replay:"
"""A model with this prefix plays a cassette: `replay:FILE`, or `replay:FILE#MODEL` for only one of
the models in it."""
_OPENAI = frozenset({"openai", "openai-chat", "openai-responses"})


_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SHORTEST = 8
"""The fewest characters of a secret; a shorter one would be found everywhere."""


class _Provider(Struct, frozen=True, kw_only=True):
    """A provider that is detected by its environment variables, which are read in order."""

    name: str
    variables: tuple[str, ...]
    model: str
    package: str
    install: str

    def key(self, environment: Mapping[str, str]) -> str | None:
        return next((environment[name] for name in self.variables if environment.get(name)), None)


_PROVIDERS = (
    _Provider(
        name="anthropic",
        variables=("ANTHROPIC_API_KEY",),
        model="claude-sonnet-5-5",
        package="anthropic",
        install="gonogo[anthropic]",
    ),
    _Provider(
        name="openai",
        variables=("OPENAI_API_KEY",),
        model="gpt-6.1-sol",
        package="openai",
        install="gonogo",
    ),
    _Provider(
        name="google",
        variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        model="gemini-4-carbon",
        package="google.genai",
        install="gonogo[google]",
    ),
    _Provider(
        name="mistral",
        variables=("MISTRAL_API_KEY",),
        model="mistral-large-latest",
        package="mistralai",
        install="pydantic-ai-slim[mistral]",
    ),
    _Provider(
        name="groq",
        variables=("GROQ_API_KEY",),
        model="openai/gpt-oss-120b",
        package="groq",
        install="pydantic-ai-slim[groq]",
    ),
    _Provider(
        name="deepseek",
        variables=("DEEPSEEK_API_KEY",),
        model="deepseek-v4-pro",
        package="openai",
        install="gonogo",
    ),
    _Provider(
        name="openrouter",
        variables=("OPENROUTER_API_KEY",),
        model="anthropic/claude-sonnet-5.5",
        package="openai",
        install="gonogo",
    ),
)
_BY_NAME = {provider.name: provider for provider in _PROVIDERS}


def provider_variables() -> frozenset[str]:
    """The names of the environment variables that set the provider and its key."""
    keys = (name for provider in _PROVIDERS for name in provider.variables)
    return frozenset({*keys, "OPENAI_BASE_URL", "OPENAI_MODEL"})


def detect(environment: Mapping[str, str]) -> str | None:
    """The model that the environment sets.

    `GONOGO_MODEL` comes first, then an OpenAI-compatible server (`OPENAI_BASE_URL`, and its model
    in `OPENAI_MODEL`), then the first provider with a key.
    """
    if name := environment.get("GONOGO_MODEL"):
        return name
    if environment.get("OPENAI_BASE_URL"):
        return _default_name(_BY_NAME["openai"], environment)
    found = [name for name, configured in _choices(environment) if configured]
    return found[0] if found else None


def available_models(
    environment: Mapping[str, str], roles: Roles | None = None
) -> list[dict[str, Any]]:
    """The models to choose from, each as `{name, provider, configured, default, roles}`.

    Args:
        roles: The roles in the operator's file. In the result, `roles` has a model's own roles, and
            `fallback:ROLE` for each role for which it is a fallback.
    """
    chosen = detect(environment)
    listed = dict(_choices(environment))
    asked = _asked_for(roles or {}, chosen)
    for name in filter(None, (chosen, *asked)):
        listed.setdefault(name, True)
    listed[DEMO] = True
    return [
        {
            "name": name,
            "provider": name.partition(":")[0],
            "configured": configured,
            "default": name == chosen,
            **({"roles": asked[name]} if name in asked else {}),
        }
        for name, configured in listed.items()
    ]


def is_reachable(name: str, environment: Mapping[str, str]) -> bool:
    """Whether a model has a key and a package, as far as this is known without opening it."""
    provider = name.partition(":")[0]
    known = _BY_NAME.get("openai" if provider in _OPENAI else provider)
    return known is None or _is_configured(known, environment)


def speaks_openai(name: str) -> bool:
    """Whether a model of this name is asked at OPENAI_BASE_URL, if that is set."""
    return name.partition(":")[0] in _OPENAI


def _asked_for(roles: Roles, chosen: str | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for role in ROLES if roles else ():
        for number, choice in enumerate(choices_of(roles, role)):
            if name := choice.name or chosen:
                found.setdefault(name, []).append(f"fallback:{role}" if number else role)
    return found


def _choices(environment: Mapping[str, str]) -> list[tuple[str, bool]]:
    return [
        (_default_name(provider, environment), _is_configured(provider, environment))
        for provider in _PROVIDERS
    ]


def _is_configured(provider: _Provider, environment: Mapping[str, str]) -> bool:
    reachable = provider.name == "openai" and environment.get("OPENAI_BASE_URL")
    return bool(provider.key(environment) or reachable) and _is_installed(provider.package)


def _default_name(provider: _Provider, environment: Mapping[str, str]) -> str:
    own = environment.get("OPENAI_MODEL") if provider.name == "openai" else None
    return f"{provider.name}:{own or provider.model}"


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def plain_name(settings: ModelSettings, environment: Mapping[str, str]) -> str | None:
    """The name of the model, if name, key and package show that it can be asked.

    None: only opening the model would show that, and the imports for it take long.
    """
    if settings.base_url:
        environment = {**environment, "OPENAI_BASE_URL": settings.base_url}
    name = settings.name or detect(environment) or ""
    provider, _, model = name.partition(":")
    known = _BY_NAME.get("openai" if provider in _OPENAI else provider)
    if known is None or not model or settings.record:
        return None
    has_key = settings.api_key is not None and _is_installed(known.package)
    return name if has_key or _is_configured(known, environment) else None


def open_model(settings: ModelSettings, environment: Mapping[str, str]) -> Model:
    """Open the model that the settings name, or the one that the environment sets.

    Raises:
        ModelNotConfigured: there is no such model, or its package or key is missing.
    """
    if settings.base_url:
        environment = {**environment, "OPENAI_BASE_URL": settings.base_url}
    name = settings.name or detect(environment)
    if name is None:
        raise ModelNotConfigured("No model is configured. {what}", what=_advice())
    if name == DEMO:
        from gonogo.llm.scripted import open_demo

        return open_demo()
    if name.startswith(REPLAY):
        return _replayed(name.removeprefix(REPLAY), settings)
    wanted = _Wanted.of(name, settings, environment)
    return _recorded(wanted, settings) if settings.record else wanted.open(settings)


class _Wanted(Struct, frozen=True, kw_only=True):
    """A provider's model, and how to reach it."""

    name: str
    provider: str
    model: str
    key: str | None
    base_url: str | None

    @classmethod
    def of(cls, name: str, settings: ModelSettings, environment: Mapping[str, str]) -> "_Wanted":
        provider, model = _split(name, environment)
        return cls(
            name=name, provider=provider, model=model,
            key=settings.api_key or _key(provider, environment),
            base_url=environment.get("OPENAI_BASE_URL") if provider in _OPENAI else None,
        )  # fmt: skip

    @property
    def secrets(self) -> tuple[str, ...]:
        return (*(key for key in (self.key,) if key and key != NO_KEY), *_secrets_of(self.base_url))

    def open(self, settings: ModelSettings, client: "AsyncClient | None" = None) -> Model:
        """Open it; with `client`, instead of the client that its library makes."""
        from gonogo.llm.provider import ProviderModel

        theirs = (
            _compatible(self.model, self.base_url, self.key, client)
            if self.base_url
            else _provided(self.provider, self.model, self.key, client)
        )
        return ProviderModel(self.name, theirs, settings, self.secrets)


def _recorded(wanted: _Wanted, settings: ModelSettings, way: "AsyncClient | None" = None) -> Model:
    """A model whose exchanges are recorded.

    Args:
        way: The client that sends its requests; None: a new one.
    """
    from gonogo.llm.recording import RecordedModel, RecordingClient

    client = RecordingClient(_recorder(wanted, settings), way)
    return RecordedModel(model=wanted.open(settings, client), client=client)


def _recorder(wanted: _Wanted, settings: ModelSettings) -> "Recorder":
    from gonogo.llm.recording import Recorder, without_user
    from gonogo.llm.scripted import AskedModel, Redaction

    assert settings.record is not None  # noqa: S101 - the only reason to come here
    price = settings.price.model_dump(exclude_none=True) if settings.price else None
    asked = AskedModel(
        model=wanted.name, base_url=without_user(wanted.base_url), role=settings.role,
        effort=settings.effort, temperature=settings.temperature, window=settings.window,
        attempts=settings.max_attempts, price=price,
    )  # fmt: skip
    redaction = Redaction((*wanted.secrets, *settings.secrets))
    recorder = Recorder(path=settings.record, asked=asked, redaction=redaction)
    recorder.check()
    return recorder


def _replayed(told: str, settings: ModelSettings) -> Model:
    """The models that were recorded for a role, under their recorded names."""
    from httpx2 import InvalidURL

    from gonogo.llm.recording import PlayedModel, Player, playing_client
    from gonogo.llm.scripted import Redaction, read_cassette

    file, _, name = told.partition("#")
    path = Path(file)
    recorded = list(enumerate(read_cassette(path), start=1))
    found = [each for each in recorded if name in ("", each[1].model)]
    if not found:
        known = ", ".join(sorted({each.model for _, each in recorded}))
        raise ModelNotConfigured(
            "{replay}{file} has no {name!r}; use one of {known}",
            replay=REPLAY, file=file, name=name, known=known,
        )  # fmt: skip
    found = [each for each in found if each[1].role == settings.role] or found
    client = playing_client(Player(path, found, Redaction(settings.secrets)))
    models = {repr(each.asked): each.asked for _, each in found}
    try:
        opened = [_played(each, settings, client) for each in models.values()]
    except (ValueError, InvalidURL):
        raise ModelNotConfigured(
            "replay:{path}: the price or the address of a model in it cannot be read; record it "
            "again",
            path=path,
        ) from None
    return PlayedModel(path, opened, client)


def _played(asked: "AskedModel", settings: ModelSettings, client: "AsyncClient") -> Model:
    """One of the recorded models, opened as it was then, but without waits between attempts."""
    price = TokenPrice.model_validate(asked.price) if asked.price else None
    opened = replace(
        settings, api_key=NO_KEY, effort=asked.effort, temperature=asked.temperature,
        window=asked.window, price=price, backoff=0.0,
        max_attempts=asked.attempts or settings.max_attempts,
    )  # fmt: skip
    environment = {"OPENAI_BASE_URL": asked.base_url} if asked.base_url else {}
    wanted = _Wanted.of(asked.model, opened, environment)
    return _recorded(wanted, opened, client) if settings.record else wanted.open(opened, client)


def _advice() -> str:
    choices = "; ".join(f"{one.name}: {' / '.join(one.variables)}" for one in _PROVIDERS)
    return because(
        "Name one as provider:name with --model or GONOGO_MODEL, and set its variable "
        "({choices}); or set OPENAI_BASE_URL to an OpenAI-compatible server; "
        "or try --model demo, which needs no key",
        choices=choices,
    )


def _split(name: str, environment: Mapping[str, str]) -> tuple[str, str]:
    from pydantic_ai.providers import infer_provider_class

    provider, colon, model = name.partition(":")
    try:
        if colon and model:
            infer_provider_class(provider)
            return provider, model
    except ImportError as error:
        raise ModelNotConfigured(_missing(provider, error)) from None
    except ValueError:
        pass
    # Local servers have models such as `llama3:8b`.
    if environment.get("OPENAI_BASE_URL"):
        return "openai", name
    raise ModelNotConfigured("There is no model {name!r}. {what}", name=name, what=_advice())


def _missing(provider: str, error: ImportError) -> str:
    known = _BY_NAME.get(provider)
    install = known.install if known else f"pydantic-ai-slim[{provider}]"
    return because(
        "The package for {provider!r} is not installed ({module}); install it: pip install "
        '"{package}"',
        provider=provider, module=error.name or provider, package=install,
    )  # fmt: skip


def _key(provider: str, environment: Mapping[str, str]) -> str | None:
    known = _BY_NAME.get("openai" if provider in _OPENAI else provider)
    return known.key(environment) if known else None


def _compatible(
    model: str, base_url: str, key: str | None, client: "AsyncClient | None"
) -> "TheirModel":
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    provider = OpenAICompatibleProvider(
        "openai-compatible", base_url=base_url, api_key=key or NO_KEY, http_client=client
    )
    make_quick(provider.client)
    profile = OpenAIModelProfile(
        json_schema_transformer=None,
        openai_chat_streaming_requires_finish_reason=True,
    )
    return OpenAIChatModel(model, provider=provider, profile=profile)


def _provided(
    provider: str, model: str, key: str | None, client: "AsyncClient | None"
) -> "TheirModel":
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    known = _BY_NAME.get("openai" if provider in _OPENAI else provider)
    if known and not key:
        variables = " / ".join(known.variables)
        raise ModelNotConfigured(
            "{provider}:{model} needs {variables}. {what}",
            provider=provider, model=model, variables=variables, what=_advice(),
        )  # fmt: skip
    try:
        return infer_model(f"{provider}:{model}", lambda name: _their_provider(name, key, client))
    except ImportError as error:
        raise ModelNotConfigured(_missing(provider, error)) from None
    except UserError as error:
        raise ModelNotConfigured(
            "{provider}:{model}: {error} {what}",
            provider=provider, model=model, error=error, what=_advice(),
        ) from None  # fmt: skip


def _their_provider(name: str, key: str | None, client: "AsyncClient | None") -> Any:  # noqa: ANN401 - any provider
    from pydantic_ai.providers import infer_provider, infer_provider_class

    provider = infer_provider_class(name)
    takes = inspect.signature(provider.__init__).parameters
    given: dict[str, Any] = {"api_key": key} if key and "api_key" in takes else {}
    if client is not None:
        if "http_client" not in takes:
            raise ModelNotConfigured(
                "{name} cannot be recorded, because its requests take a way of their own; "
                "choose another model",
                name=name,
            )
        given["http_client"] = client
    opened = provider(**given) if given else infer_provider(name)
    known = _BY_NAME.get("openai" if name in _OPENAI else name)
    if known and known.package == "openai":
        make_quick(opened.client)
    return opened


def secrets_in(environment: Mapping[str, str], others: Iterable[str] = ()) -> tuple[str, ...]:
    """The secrets in an environment, found by the names of its variables."""
    named = (value for name, value in environment.items() if _SECRET.search(name))
    return tuple(sorted({secret for secret in (*named, *others) if len(secret) >= _SHORTEST}))


def _secrets_of(base_url: str | None) -> tuple[str, ...]:
    password = urlsplit(base_url).password if base_url else None
    return (password, unquote(password)) if password else ()


# openai's client, changed to send a request as pydantic-ai has built it.
#
# The library walks through each part of a request by its type, and through each tool by the types
# of all kinds of tools, in case something has another name on the wire. In our requests nothing
# has: the walk takes 2.5 ms of CPU time and returns its input. So copies of its functions are used,
# in which the name of the walk leads to another function.
#
# The library also walks through each piece of an answer to make it a value of its type, as a server
# may send values that the type does not allow. If the type allows them, pydantic itself reads the
# piece, in a twentieth of the time.


def make_quick(client: "AsyncOpenAI") -> None:
    """Remove steps of a client that take time and change nothing."""
    send_as_built(client)
    read_quickly(client)


def send_as_built(client: "AsyncOpenAI") -> None:
    """Let a client send what it is given, without retries, so no request needs a copy of it."""
    client.max_retries = 0
    # The library caches both resources.
    for resource in (client.chat.completions, client.responses):
        vars(resource)["create"] = MethodType(unwalked(type(resource).create), resource)


def unwalked(create: Any) -> FunctionType:  # noqa: ANN401 - a function of theirs, or a wrapped one
    """A copy of the function without the walk through the request; it sends the same bytes."""
    theirs: FunctionType = inspect.unwrap(create)
    own = FunctionType(
        theirs.__code__, {**theirs.__globals__, "async_maybe_transform": as_given},
        theirs.__name__, theirs.__defaults__, theirs.__closure__,
    )  # fmt: skip
    own.__kwdefaults__ = theirs.__kwdefaults__
    return own


async def as_given(body: Mapping[str, Any], *_: object) -> dict[str, Any]:
    """The body of a request, without the fields that were not given."""
    from openai._utils import is_given

    return {name: value for name, value in body.items() if is_given(value)}


def read_quickly(client: "AsyncOpenAI") -> None:
    """Let a client read the pieces of an answer quickly, if they are valid."""
    from openai.types.chat import ChatCompletionChunk

    theirs: Callable[..., Any] = client._process_response_data  # pyright: ignore[reportPrivateUsage]

    def read(*, data: Any, cast_to: Any, **more: Any) -> Any:  # noqa: ANN401 - as theirs
        if cast_to is ChatCompletionChunk:
            with suppress(ValidationError):
                return ChatCompletionChunk.model_validate(data, strict=True)
        return theirs(data=data, cast_to=cast_to, **more)

    vars(client)["_process_response_data"] = read
