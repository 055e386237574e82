"""Which model is asked: by its name, or by the variables that providers' own tools read.

`demo` is the recorded run. A base URL makes `openai:NAME` speak Chat Completions with that server,
with or without a key. Whatever is missing is named, together with the choices there are.
"""

import importlib.util
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from gonogo.domain.errors import ModelNotConfigured
from gonogo.llm.model import Model, ModelSettings
from gonogo.llm.roles import ROLES, Roles, choices_of
from gonogo.llm.scripted import demo_model

if TYPE_CHECKING:
    from pydantic_ai.models import Model as TheirModel

NO_KEY = "no-key"
"""What a server is told that gets none of our keys."""
_OPENAI = frozenset({"openai", "openai-chat", "openai-responses"})


class _Provider(Struct, frozen=True, kw_only=True):
    """A provider that is detected by its variables, in the order they are looked at."""

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
    """The names of the variables that say which provider is asked, and with which key."""
    keys = (name for provider in _PROVIDERS for name in provider.variables)
    return frozenset({*keys, "OPENAI_BASE_URL", "OPENAI_MODEL"})


def detect(environment: Mapping[str, str]) -> str | None:
    """The model that the environment speaks of.

    `GONOGO_MODEL` goes first, then an OpenAI-compatible server (`OPENAI_BASE_URL`, and its model in
    `OPENAI_MODEL`), then the first provider with a key.
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
    """The models that could be chosen: `{name, provider, configured, default, roles}` each.

    Args:
        roles: Which ones an operator's file names. Of a model `roles` has those that it is asked
            for, and those that it stands in for as `fallback:ROLE`.
    """
    chosen = detect(environment)
    listed = dict(_choices(environment))
    asked = _asked_for(roles or {}, chosen)
    for name in filter(None, (chosen, *asked)):
        listed.setdefault(name, True)
    listed["demo"] = True
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


def open_model(settings: ModelSettings, environment: Mapping[str, str]) -> Model:
    """Open the model that the settings name, or the one that the environment speaks of.

    Raises:
        ModelNotConfigured: there is none, or its package or credentials are missing.
    """
    from gonogo.llm.provider import ProviderModel

    if settings.base_url:
        environment = {**environment, "OPENAI_BASE_URL": settings.base_url}
    name = settings.name or detect(environment)
    if name is None:
        raise ModelNotConfigured(f"No model is configured. {_advice()}")
    if name == "demo":
        return demo_model()
    provider, model = _split(name, environment)
    key = settings.api_key or _key(provider, environment)
    base_url = environment.get("OPENAI_BASE_URL") if provider in _OPENAI else None
    theirs = _compatible(model, base_url, key) if base_url else _provided(provider, model, key)
    secrets = (*(secret for secret in (key,) if secret), *_secrets_of(base_url))
    return ProviderModel(name, theirs, settings, secrets)


def _advice() -> str:
    choices = "; ".join(f"{one.name}: {' or '.join(one.variables)}" for one in _PROVIDERS)
    return (
        "Name one as provider:name with --model or GONOGO_MODEL, and set its variable "
        f"({choices}); or set OPENAI_BASE_URL to an OpenAI-compatible server; "
        "or try --model demo, which needs no key"
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
    raise ModelNotConfigured(f"There is no model {name!r}. {_advice()}")


def _missing(provider: str, error: ImportError) -> str:
    known = _BY_NAME.get(provider)
    install = known.install if known else f"pydantic-ai-slim[{provider}]"
    return (
        f"The package for {provider!r} is not installed ({error.name or 'import failed'}): "
        f'pip install "{install}"'
    )


def _key(provider: str, environment: Mapping[str, str]) -> str | None:
    known = _BY_NAME.get("openai" if provider in _OPENAI else provider)
    return known.key(environment) if known else None


def _compatible(model: str, base_url: str, key: str | None) -> "TheirModel":
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    provider = OpenAICompatibleProvider(
        "openai-compatible", base_url=base_url, api_key=key or NO_KEY
    )
    profile = OpenAIModelProfile(
        json_schema_transformer=None,
        openai_chat_streaming_requires_finish_reason=True,
    )
    return OpenAIChatModel(model, provider=provider, profile=profile)


def _provided(provider: str, model: str, key: str | None) -> "TheirModel":
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    known = _BY_NAME.get("openai" if provider in _OPENAI else provider)
    if known and not key:
        variables = " or ".join(known.variables)
        raise ModelNotConfigured(f"{provider}:{model} needs {variables}. {_advice()}")
    try:
        return infer_model(f"{provider}:{model}", lambda name: _their_provider(name, key))
    except ImportError as error:
        raise ModelNotConfigured(_missing(provider, error)) from None
    except UserError as error:
        raise ModelNotConfigured(f"{provider}:{model}: {error} {_advice()}") from None


def _their_provider(name: str, key: str | None) -> Any:  # noqa: ANN401 - any provider
    from pydantic_ai.providers import infer_provider, infer_provider_class

    provider = infer_provider_class(name)
    if key and "api_key" in inspect.signature(provider.__init__).parameters:
        return provider(api_key=key)  # pyright: ignore[reportCallIssue]
    return infer_provider(name)


def _secrets_of(base_url: str | None) -> tuple[str, ...]:
    password = urlsplit(base_url).password if base_url else None
    return (password, unquote(password)) if password else ()
