"""The settings of an operator; a workspace cannot change any of them.

Each setting is an environment variable with the prefix `GONOGO_` (`GONOGO_MAX_PARALLEL=5`); the
command line sets some of them too and wins. Nothing is read at import, and nothing below the
runtime reads the environment: it is given what it needs.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import platformdirs
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from gonogo.domain.commands import files_problem
from gonogo.domain.errors import because
from gonogo.domain.network import LOOPBACK, PrivateHosts

DAY = 86_400.0
Seconds = Annotated[float, Field(gt=0, le=366 * DAY)]


def is_safe_address(url: str) -> bool:
    """Whether nobody can change data on its way from an address: https, or this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc or parts.fragment or not url.isprintable():
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)


def _password(url: str) -> str | None:
    try:
        return urlsplit(url).password
    except ValueError:
        return None


def _state_folder() -> Path:
    return platformdirs.user_state_path("gonogo")


def _config_folder() -> Path:
    return platformdirs.user_config_path("gonogo")


def _replanning(name: str) -> Any:  # noqa: ANN401 - a pydantic field
    """A setting that keeps the name that its first users know, with or without our prefix."""
    return Field(validation_alias=AliasChoices(name, f"GONOGO_{name}"))


class Settings(BaseModel):
    """The settings of one process, read once."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, validate_default=True
    )

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - of any setting
        """Take what is given, and the rest from the environment.

        Raises:
            ValidationError: a value is not valid for its setting.
        """
        super().__init__(**given, **_in_environment(given))

    home: Path = Field(default_factory=_state_folder)
    """The state folder: database, tokens, the owner's lock and socket. Only its owner can open
    it."""
    config: Path = Field(default_factory=_config_folder)
    """Your configuration folder: `rules.toml`, `AGENTS.md`, your own agents under `agents/`, skills
    under `skills/`."""
    admin_rules: Path | None = None
    """An administrator's rules file. Its rules come before the user's."""
    hooks: Path | None = None
    """The file that lists the webhooks for questions and answers; by default `hooks.toml` in the
    configuration folder."""
    instructions: bool = True
    """Give agents the instruction files of the workspace and the configuration folder, and the list
    of skills. They change no permission. If off, agents get none of them."""
    mcp: Path | None = None
    """The file that lists the MCP servers whose tools agents may use; by default `mcp.toml` in the
    configuration folder."""
    models: Path | None = None
    """The file that assigns models to roles, with their fallbacks; by default `models.toml` in the
    configuration folder."""
    db: str | None = None
    """The database as a URL; by default SQLite in the state folder."""

    background: bool | None = None
    """Do the work in a background process, which continues when you close the terminal. By default
    on if there is a terminal, and off if `CI` is set or the database is PostgreSQL."""
    linger: Annotated[float, Field(ge=0, le=DAY)] = 60.0
    """Seconds that the background process stays when all work is done and no command is
    connected."""

    host: str = "127.0.0.1"
    """The address that `gonogo serve` listens on."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8001
    """The port that `gonogo serve` listens on; 0 selects a free one."""
    public_url: str | None = None
    """The address under which people reach this server, such as `https://gonogo.example`. One-time
    links need it."""
    link_expiry: Seconds = DAY
    """Seconds that a one-time link works, unless its question expires earlier."""
    rate_requests: Annotated[int, Field(ge=0, le=1_000_000)] = 50
    """Requests per second for each person or program, with bursts of four times as many. Decisions
    and cancellations have a separate limit of the same size. 0 means no limit."""
    rate_messages: Annotated[int, Field(ge=0, le=1_000_000)] = 60
    """Messages per minute that each person or program may send to agents; 0 means no limit."""
    otlp_endpoint: str | None = None
    """The collector for traces, by OTLP over HTTP, such as `http://127.0.0.1:4318`; by default
    none."""
    trace_content: bool = False
    """Traces also contain goals, arguments, results and the models' answers."""
    metrics_public: bool = False
    """Serve `/metrics` without a token."""
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """The port on which `gonogo worker` serves `/metrics`, `/health` and `/ready`, with the address
    of `GONOGO_HOST`; 0 selects a free one. By default none."""

    oidc_audience: str | None = None
    """The audience (`aud`) that a token of the identity provider must contain."""
    oidc_roles: dict[str, str] = {}
    """The roles that the provider's words give, such as `gonogo-admins=admin,devs=operator`."""
    oidc_role_claim: str = "roles"
    """The claim with the provider's roles; dots separate nested claims."""
    oidc_name_claim: str = "preferred_username"
    """The claim with a person's displayed name."""
    oidc_jwks_url: str | None = None
    """The address of the provider's keys; by default from its discovery document."""
    oidc_role_kept: Annotated[float, Field(ge=0, le=604_800)] = 0
    """Seconds that a role from the provider counts for one-time links after the person's last
    visit. With 0, people of the provider get no links."""
    oidc_issuer: str | None = None
    """An OpenID Connect provider whose signed tokens (JWT) gonogo accepts in addition to its
    own."""

    workspace: Path = Field(default_factory=Path.cwd)
    """The folder that agents work in if a session names none; by default the current folder."""
    roots: tuple[Path, ...] = ()
    """Folders that may contain workspaces of sessions, separated like `PATH`; by default only the
    workspace."""

    model: str | None = None
    """The model as `provider:name`, or `replay:FILE` to replay a recording; by default detected
    from the usual variables of providers."""
    record: Path | None = None
    """A cassette: gonogo appends all exchanges with the model's provider to this file, without
    keys."""
    openai_base_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("GONOGO_OPENAI_BASE_URL", "OPENAI_BASE_URL"),
    )
    """The address of an OpenAI-compatible server; `openai:NAME` then uses its Chat Completions."""
    model_api_key: SecretStr | None = None
    """The key for the model's provider, instead of its usual variable."""
    model_timeout: Seconds = 120.0
    """Seconds that a model may send nothing before the request fails."""
    model_max_attempts: Annotated[int, Field(ge=1, le=20)] = 5
    """Attempts for a model request that fails temporarily, before gonogo waits for the model."""
    model_patience: Annotated[float, Field(ge=0, le=366 * DAY)] = 600.0
    """Seconds to wait for a model that does not answer; then gonogo asks a person. With 0, the work
    that needs the model fails immediately."""
    model_window: Annotated[int, Field(ge=4_000, le=100_000_000)] | None = None
    """Tokens of one request to the model and its reply together; by default what gonogo knows about
    the model, or 32000."""
    result_tokens: Annotated[int, Field(ge=200, le=10_000_000)] = 8_000
    """Tokens of one tool result that a model gets. Of a longer result it gets the beginning and the
    end, and can ask for the rest. All results of a reply get at most a quarter of the window."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature; by default the provider's."""

    locale: Literal["en", "ru"] | None = None
    """The language of texts for people if the session does not set one; by default the language of
    the user's message. On the command line, Russian as the system's language comes before that."""

    max_parallel: Annotated[int, Field(ge=1, le=64)] = 3
    """Subtasks of one plan that run at the same time."""
    max_parallel_agent: Annotated[int, Field(ge=1, le=64)] | None = None
    """Subtasks of one plan that one agent runs at the same time; by default the limit of the
    plan."""
    max_parallel_workspace: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Subtasks of all plans that run at the same time in one workspace; by default no limit."""
    strategy: str = "critical_path"
    """Which ready subtasks start first: `critical_path`, `plan_order`, or the name of a registered
    strategy."""
    plan_timeout: Seconds | None = None
    """Seconds from the start of a plan after which its running subtasks fail; by default no
    limit."""
    on_failure: Literal["keep", "rollback"] = "keep"
    """What to do with the files of a failed subtask: `keep` them, or `rollback`."""
    snapshot_max_files: Annotated[int, Field(ge=1)] = 100_000
    """The largest number of files in a checkpoint."""
    snapshot_max_bytes: Annotated[int, Field(ge=1)] = 1 << 30
    """The largest size of a checkpoint in bytes."""
    keep_checkpoints_days: Annotated[float, Field(ge=0)] = 30
    """Days after its end, and after its last rollback, during which a plan can be rolled back. Then
    gonogo deletes its snapshots; 0 keeps them for ever."""

    accept_restored: bool = False
    """Open a database that has lost data: one without its log, or an old copy. Use `gonogo db
    migrate --accept-restored` for a single start. If you set it permanently, only the audit log
    reports a loss."""
    retention_days: Annotated[float, Field(ge=0)] = 0
    """Days without activity after which gonogo deletes a finished session with all its contents; 0
    keeps all sessions for ever."""
    keep_audit_days: Annotated[float, Field(ge=0)] = 0
    """Days during which nobody can remove entries of the audit log, not even an admin who has
    exported them; 0 keeps them for ever."""

    budget_plan_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens for all model requests of one plan; at the limit gonogo asks a person."""
    budget_plan_cost: Annotated[float, Field(gt=0)] | None = None
    """US dollars for one plan."""
    budget_plan_seconds: Seconds | None = None
    """Seconds from the start of a plan."""
    budget_plan_requests: Annotated[int, Field(ge=1)] | None = None
    """Model requests of one plan."""
    budget_plan_subtasks: Annotated[int, Field(ge=1)] | None = None
    """Runs of subtasks in one plan, including retries."""
    budget_session_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens for all model requests of one session."""
    budget_session_cost: Annotated[float, Field(gt=0)] | None = None
    """US dollars for one session."""
    budget_session_requests: Annotated[int, Field(ge=1)] | None = None
    """Model requests of one session."""

    auto_replanning: Annotated[bool, _replanning("ENABLE_AUTO_REPLANNING")] = True
    """Ask the planner for a new revision after a serious failure of a subtask."""
    replanning_max_attempts: Annotated[
        int, Field(ge=0, le=100), _replanning("AUTO_REPLANNING_MAX_ATTEMPTS")
    ] = 3
    """The largest number of replans of one plan."""
    replanning_trigger_critical: Annotated[
        bool, _replanning("AUTO_REPLANNING_TRIGGER_CRITICAL")
    ] = True
    """Replan on failures of severity `critical`."""
    replanning_trigger_high: Annotated[bool, _replanning("AUTO_REPLANNING_TRIGGER_HIGH")] = True
    """Replan on failures of severity `high`."""
    replanning_trigger_medium: Annotated[bool, _replanning("AUTO_REPLANNING_TRIGGER_MEDIUM")] = (
        False
    )
    """Replan on failures of severity `medium`."""
    replanning_human_after: Annotated[
        int, Field(ge=0, le=100), _replanning("AUTO_REPLANNING_REQUIRE_HUMAN_INTERVENTION_AFTER")
    ] = 2
    """Replans of one plan after which gonogo asks a person before the next one."""
    replanning_min_interval: Annotated[
        float, Field(ge=0), _replanning("AUTO_REPLANNING_MIN_INTERVAL_SECONDS")
    ] = 0.0
    """The shortest time in seconds between two replans of one plan. gonogo does not replan an
    earlier failure."""
    replanning_timeout: Annotated[
        float, Field(gt=0), _replanning("AUTO_REPLANNING_TIMEOUT_SECONDS")
    ] = 600.0
    """Seconds for the search for a new revision."""
    replan_within_grant: bool = False
    """Run a new revision without a question if it adds nothing to what was approved, omits nothing,
    and only gives agents different instructions."""

    subtask_timeout: Seconds = 1_800.0
    """Seconds of work for a subtask without its own timeout."""
    max_steps: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Model requests in one turn or subtask."""
    command_timeout: Seconds = 120.0
    """Seconds that a command may run if its call sets no timeout."""
    command_output: Annotated[int, Field(ge=1_000, le=10_000_000)] = 60_000
    """Bytes of a command's output that gonogo keeps."""
    command_memory: Annotated[int, Field(ge=64)] = 8_192
    """MiB of memory for a command with all its processes; without the sandbox, for each process."""
    command_processes: Annotated[int, Field(ge=16, le=1_000_000)] = 2_048
    """Processes and threads of a command at the same time."""
    command_file_size: Annotated[int, Field(ge=1)] = 8_192
    """MiB of a single file that a command writes."""
    command_disk: Annotated[int, Field(ge=1)] = 16_384
    """MiB of all files that one command writes in the workspace."""
    command_temporary: Annotated[int, Field(ge=1)] = 1_024
    """MiB of each private folder of a command in the sandbox: its home, `/tmp`, `/var/tmp`,
    `/dev/shm`. These folders are in memory."""
    network_private_hosts: tuple[str, ...] = ()
    """Private hosts that commands may reach if a plan names them: address ranges (`10.1.0.0/16`)
    and hosts (`git.intra:8443`), separated by commas. Name this machine only as a host with its
    port."""
    network_transfer: Annotated[int, Field(ge=1)] = 1_024
    """MiB that one command may transfer over the network."""
    diagnostics: Annotated[str, Field(min_length=1, max_length=4_000)] | None = None
    """A command that checks files after an agent has written them, such as `ruff check --no-cache
    --output-format concise {files:*.py}`. The agent gets its lines about these files with the
    result. The command runs only in the sandbox, where it can write nothing and has no network."""
    diagnostics_timeout: Annotated[float, Field(gt=0, le=600)] = 20.0
    """Seconds that the diagnostics command may run after a write."""
    sandbox: bool = True
    """Run commands in bubblewrap if it works. If off, commands that run repository code need
    approval."""
    readers: bool = True
    """Run commands that only read, such as `ls` or `git status`, without a question if the sandbox
    works: there they can write nothing and have no network. If off, they need approval."""

    unattended: bool = False
    """Nobody can answer questions: gonogo denies every call that would need approval."""
    repo_trusted: bool = True
    """Trust the workspace's own configuration, such as `.git/config`."""
    approval_expiry_tool: Seconds | None = DAY
    """Seconds until a question about a tool call expires; `null` means never."""
    approval_expiry_plan: Seconds | None = None
    """Seconds until a question about a plan expires; by default never."""
    approval_expiry_subtask: Seconds | None = None
    """Seconds until a question about a subtask expires; by default never."""
    approval_expiry_intervention: Seconds | None = None
    """Seconds until an intervention expires; by default never."""
    approval_expiry_action: Literal["expire", "reject", "keep_waiting"] = "expire"
    """What happens to a question when it expires: `expire`, `reject` or `keep_waiting`. None of
    them approves."""
    approval_warning: Annotated[float, Field(ge=0)] = 600.0
    """Seconds before a question expires when gonogo warns people."""
    max_pending_approvals: Annotated[int, Field(ge=1, le=100_000)] = 256
    """The largest number of open questions in one session."""
    legacy_text_rejection: bool = True
    """Treat a `tool_result` whose error starts with `User rejected` as a rejection of a waiting
    call; deprecated."""

    @field_validator("roots", mode="before")
    @classmethod
    def _split_roots(cls, value: Any) -> Any:  # noqa: ANN401 - as the environment gave it
        if not isinstance(value, str):
            return value
        return tuple(Path(part) for part in value.split(os.pathsep) if part)

    @field_validator("oidc_roles", mode="before")
    @classmethod
    def _split_words(cls, value: Any) -> Any:  # noqa: ANN401 - as the environment gave it
        if not isinstance(value, str):
            return value
        pairs = (part.rpartition("=") for part in value.split(",") if part.strip())
        return {word.strip(): role.strip() for word, _, role in pairs}

    @field_validator("oidc_roles")
    @classmethod
    def _known_roles(cls, value: dict[str, str]) -> dict[str, str]:
        for word, role in value.items():
            if not word or role not in {"viewer", "operator", "admin"}:
                raise ValueError(
                    because(
                        "{word}={role} is not WORD=viewer, =operator or =admin",
                        word=word,
                        role=role,
                    )
                )
        return value

    @field_validator("oidc_issuer", "oidc_jwks_url", "public_url")
    @classmethod
    def _safe(cls, value: str | None) -> str | None:
        if value is not None and not is_safe_address(value):
            raise ValueError(because("the address must be https (http only on this machine)"))
        return value

    @field_validator("otlp_endpoint")
    @classmethod
    def _collector(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError(because("the address must begin with http:// or https://"))
        return value

    @field_validator("oidc_issuer")
    @classmethod
    def _not_alone(cls, value: str | None, info: ValidationInfo) -> str | None:
        for needed in ("oidc_audience", "oidc_roles"):
            if value is not None and not info.data.get(needed):
                raise ValueError(because("it needs GONOGO_{needed} as well", needed=needed.upper()))
        return value

    @field_validator("network_private_hosts", mode="before")
    @classmethod
    def _split_hosts(cls, value: Any) -> Any:  # noqa: ANN401 - as the environment gave it
        if not isinstance(value, str):
            return value
        return tuple(part.strip() for part in value.split(",") if part.strip())

    @field_validator("network_private_hosts")
    @classmethod
    def _known_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        PrivateHosts.read(value)
        return value

    @field_validator("diagnostics")
    @classmethod
    def _takes_files(cls, value: str | None) -> str | None:
        if problem := files_problem(value or ""):
            raise ValueError(problem)
        return value

    @field_validator("db")
    @classmethod
    def _absolute_file(cls, value: str | None) -> str | None:
        scheme, slashes, rest = (value or "").partition(":///")
        if not scheme.startswith("sqlite") or not rest or rest.startswith((":", "/", "file:")):
            return value
        return f"{scheme}{slashes}{os.path.abspath(rest)}"

    @field_validator("public_url")
    @classmethod
    def _without_slash(cls, value: str | None) -> str | None:
        return value if value is None else value.rstrip("/")

    @field_validator(
        "home", "config", "workspace", "admin_rules", "hooks", "mcp", "models", "record"
    )
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return value if value is None else Path(os.path.abspath(value.expanduser()))

    @field_validator("model")
    @classmethod
    def _absolute_cassette(cls, value: str | None) -> str | None:
        word, colon, file = (value or "").partition("replay:")
        return f"{colon}{os.path.abspath(os.path.expanduser(file))}" if file and not word else value

    @field_validator("roots")
    @classmethod
    def _absolute_roots(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(Path(os.path.abspath(root.expanduser())) for root in value)

    @property
    def budget(self) -> dict[str, float]:
        """The limits of budgets that are set, by the words that budgets have for them."""
        words = {
            "tokens": self.budget_plan_tokens, "cost": self.budget_plan_cost,
            "seconds": self.budget_plan_seconds, "requests": self.budget_plan_requests,
            "subtasks": self.budget_plan_subtasks, "session_tokens": self.budget_session_tokens,
            "session_cost": self.budget_session_cost,
            "session_requests": self.budget_session_requests,
        }  # fmt: skip
        return {word: limit for word, limit in words.items() if limit is not None}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets in the settings: the key of the model's provider, and passwords in URLs."""
        key = self.model_api_key.get_secret_value() if self.model_api_key else None
        passwords = (_password(url) for url in (self.db, self.openai_base_url) if url)
        return tuple(secret for secret in (key, *passwords) if secret)

    @property
    def rules(self) -> Path:
        """The user's own rules file; it need not exist."""
        return self.config / "rules.toml"

    @property
    def drafts(self) -> Path:
        """The folder with edits of plans that were not sent yet; it need not exist."""
        return self.home / "drafts"

    @property
    def taken(self) -> Path:
        """The folder with what people had taken away from workspaces; it need not exist."""
        return self.home / "taken"

    @property
    def hooks_file(self) -> Path:
        """The hooks file; it need not exist."""
        return self.hooks or self.config / "hooks.toml"

    @property
    def mcp_file(self) -> Path:
        """The file of MCP servers; it need not exist."""
        return self.mcp or self.config / "mcp.toml"

    @property
    def models_file(self) -> Path:
        """The file of models; it need not exist."""
        return self.models or self.config / "models.toml"

    @property
    def agents(self) -> Path:
        """The folder of the user's own agent profiles; it need not exist."""
        return self.config / "agents"

    @property
    def allowed_roots(self) -> tuple[Path, ...]:
        """The folders that contain all workspaces, except those that this machine's people open.

        There are none if no folder is set, as in a background process.
        """
        return self.roots or tuple(filter(None, [self.default_workspace]))

    @property
    def default_workspace(self) -> Path | None:
        """The folder of a session that names none, if there is one."""
        return self.workspace if self.workspace != Path("/") else None


def _in_environment(given: Collection[str]) -> dict[str, str | None]:
    """The environment's values for the settings that are not given; an empty one is ignored."""
    said = {name.lower(): value for name, value in os.environ.items() if value}
    found: dict[str, str | None] = {}
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        others = (
            [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else []
        )
        if name in given or any(other in given for other in others):
            continue
        variables = {other: other for other in others} | {name: f"GONOGO_{name}"}
        for key, variable in variables.items():
            if value := said.get(variable.lower()):
                found[key] = None if value == "null" else value
                break
    return found
