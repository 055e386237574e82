"""What an operator may set, and nothing that a workspace could.

Each setting is an environment variable with the prefix `GONOGO_` (`GONOGO_MAX_PARALLEL=5`); the
command line sets some of them too and wins. Nothing is read at import, and nothing below the
runtime reads the environment: it is given what it needs.
"""

import os
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import platformdirs
from pydantic import AliasChoices, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from gonogo.domain.network import LOOPBACK, PrivateHosts
from gonogo.domain.placeholders import files_problem

DAY = 86_400.0
Seconds = Annotated[float, Field(gt=0, le=366 * DAY)]


def is_safe_address(url: str) -> bool:
    """Whether what comes from an address is what its host sent: https, or this machine itself."""
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


class Settings(BaseSettings):
    """The settings of one process, read once."""

    model_config = SettingsConfigDict(
        env_prefix="GONOGO_",
        env_ignore_empty=True,
        env_parse_none_str="null",
        frozen=True,
        extra="ignore",
        populate_by_name=True,
    )

    home: Path = Field(default_factory=_state_folder)
    """The state folder: database, tokens, the owner's lock and socket. Only its owner may enter."""
    config: Path = Field(default_factory=_config_folder)
    """The user's configuration folder: `rules.toml`, `AGENTS.md`, own profiles under `agents/`,
    skills under `skills/`."""
    admin_rules: Path | None = None
    """A rules file that goes before the user's, for an administrator."""
    hooks: Path | None = None
    """The file that says which programs are told what people are asked; by default `hooks.toml` in
    the configuration folder."""
    instructions: bool = True
    """Tell agents what the instruction files of the workspace and of the configuration folder say,
    and which skills there are. They change no permission; off, agents know of none."""
    mcp: Path | None = None
    """The file that names the MCP servers whose tools agents may use; by default `mcp.toml` in the
    configuration folder."""
    models: Path | None = None
    """The file that says which model is asked for what, and which ones where that is away; by
    default `models.toml` in the configuration folder."""
    db: str | None = None
    """The database as a URL; by default SQLite in the state folder."""

    background: bool | None = None
    """Whether a process of its own carries the work out, which goes on when the terminal is closed;
    by default where there is a terminal, and not with `CI` set or a PostgreSQL database."""
    linger: Annotated[float, Field(ge=0, le=DAY)] = 60.0
    """Seconds for which that process stays when all is done and no command is connected."""

    host: str = "127.0.0.1"
    """The address that `gonogo serve` listens on."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8001
    """The port that `gonogo serve` listens on; 0 picks a free one."""
    public_url: str | None = None
    """The address under which people reach this server, such as `https://gonogo.example`; links
    that decide need it."""
    link_expiry: Seconds = DAY
    """Seconds for which a link that decides works, if its question does not expire earlier."""
    rate_requests: Annotated[int, Field(ge=0, le=1_000_000)] = 50
    """Requests a second that one person or program may make, four times as many at once; as many
    decisions and cancels besides. 0 is no limit."""
    rate_messages: Annotated[int, Field(ge=0, le=1_000_000)] = 60
    """Messages a minute that one person or program may send to agents; 0 is no limit."""
    otlp_endpoint: str | None = None
    """The collector that traces are sent to, by OTLP over HTTP, such as `http://127.0.0.1:4318`; by
    default none."""
    trace_content: bool = False
    """Traces also tell goals, arguments, results and what models said."""
    metrics_public: bool = False
    """Serve `/metrics` without a token."""

    oidc_audience: str | None = None
    """The audience (`aud`) that a token of the identity provider must be for."""
    oidc_roles: Annotated[dict[str, str], NoDecode] = {}
    """What the provider's roles may do here, as `gonogo-admins=admin,devs=operator`."""
    oidc_role_claim: str = "roles"
    """The claim with the provider's roles; dots lead into claims within claims."""
    oidc_name_claim: str = "preferred_username"
    """The claim with the name that people are shown under."""
    oidc_jwks_url: str | None = None
    """Where the provider's keys are; by default its discovery document says it."""
    oidc_role_kept: Annotated[float, Field(ge=0, le=604_800)] = 0
    """Seconds for which a role of the provider counts for links that decide, after its person was
    here last; 0: people of the provider get no links."""
    oidc_issuer: str | None = None
    """An OpenID Connect provider whose signed tokens (JWT) count as well as our own."""

    workspace: Path = Field(default_factory=Path.cwd)
    """The folder that agents work in when a session names none."""
    roots: Annotated[tuple[Path, ...], NoDecode] = ()
    """Folders that sessions' workspaces must lie under, separated like `PATH`; by default the
    workspace."""

    model: str | None = None
    """The model as `provider:name`, or `replay:FILE` for what was recorded; by default detected
    from the provider's usual variables."""
    record: Path | None = None
    """A cassette: the file that all exchanges with the model's provider are appended to, without
    keys."""
    openai_base_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("GONOGO_OPENAI_BASE_URL", "OPENAI_BASE_URL"),
    )
    """An OpenAI-compatible server; `openai:NAME` then speaks Chat Completions with it."""
    model_api_key: SecretStr | None = None
    """The key for the model's provider, where its usual variable is not to be used."""
    model_timeout: Seconds = 120.0
    """Seconds that a model may be silent."""
    model_max_attempts: Annotated[int, Field(ge=1, le=20)] = 5
    """Attempts in all for a model request that fails in a way that may pass, before it is waited
    for."""
    model_patience: Annotated[float, Field(ge=0, le=366 * DAY)] = 600.0
    """Seconds for which a model is waited for that does not answer; then a person is asked. 0: who
    needs it fails at once."""
    model_window: Annotated[int, Field(ge=4_000, le=100_000_000)] | None = None
    """Tokens that one request to the model and its reply may have together; by default what is
    known of the model, and 32000 where nothing is."""
    result_tokens: Annotated[int, Field(ge=200, le=10_000_000)] = 8_000
    """Tokens of one tool result that a model is given; of a longer one its beginning and its end,
    and the rest when it asks. A small window has less room: all results of a reply get at most a
    quarter of it."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature; by default the provider's."""

    locale: Literal["en", "ru"] | None = None
    """The language of texts for people, where a session names none; by default that of the
    user's message. On the command line the system's language, if it is Russian, goes before."""

    max_parallel: Annotated[int, Field(ge=1, le=64)] = 3
    """Subtasks of one plan that run at once."""
    max_parallel_agent: Annotated[int, Field(ge=1, le=64)] | None = None
    """Subtasks of one plan that one agent carries out at once; by default as many as the plan."""
    max_parallel_workspace: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Subtasks of all plans that run at once in one workspace; by default no limit."""
    strategy: str = "critical_path"
    """Which of the ready subtasks start first: `critical_path`, `plan_order`, or the name of a
    registered strategy."""
    plan_timeout: Seconds | None = None
    """Seconds from a plan's start after which what it still runs fails; by default none."""
    on_failure: Literal["keep", "rollback"] = "keep"
    """What becomes of the files of a subtask that failed."""
    snapshot_max_files: Annotated[int, Field(ge=1)] = 100_000
    """Files that a checkpoint may hold."""
    snapshot_max_bytes: Annotated[int, Field(ge=1)] = 1 << 30
    """Bytes that a checkpoint may hold."""
    keep_checkpoints_days: Annotated[float, Field(ge=0)] = 30
    """Days after its end, and after its last rollback, for which a plan can be rolled back. Then
    its snapshots are given up, to make room; 0 keeps them for ever."""

    accept_restored: bool = False
    """Open a database that is older than what was last known of it: one that lost its log, or an
    old copy. For one start, by `gonogo db migrate --accept-restored`; set for good, a loss is no
    longer noticed but in the audit log."""
    retention_days: Annotated[float, Field(ge=0)] = 0
    """Days after which a session is deleted, with all that was said and done in it, when it is over
    and nothing happened in it; 0 keeps all for ever."""
    keep_audit_days: Annotated[float, Field(ge=0)] = 0
    """Days for which entries of the audit log cannot be removed, not even by an admin who exported
    them; 0 keeps them for ever."""

    budget_plan_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens that all model requests of one plan may take; then a person is asked."""
    budget_plan_cost: Annotated[float, Field(gt=0)] | None = None
    """US dollars that one plan may cost."""
    budget_plan_seconds: Seconds | None = None
    """Seconds of wall time from a plan's start."""
    budget_plan_requests: Annotated[int, Field(ge=1)] | None = None
    """Model requests of one plan."""
    budget_plan_subtasks: Annotated[int, Field(ge=1)] | None = None
    """Runs of subtasks that one plan may begin, retries included."""
    budget_session_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens that all model requests of one session may take."""
    budget_session_cost: Annotated[float, Field(gt=0)] | None = None
    """US dollars that one session may cost."""
    budget_session_requests: Annotated[int, Field(ge=1)] | None = None
    """Model requests of one session."""

    auto_replanning: Annotated[bool, _replanning("ENABLE_AUTO_REPLANNING")] = True
    """Ask for a new revision when a subtask fails badly enough."""
    replanning_max_attempts: Annotated[
        int, Field(ge=0, le=100), _replanning("AUTO_REPLANNING_MAX_ATTEMPTS")
    ] = 3
    """Replans of one plan."""
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
    """Replans of one plan after which a person is asked before the next."""
    replanning_min_interval: Annotated[
        float, Field(ge=0), _replanning("AUTO_REPLANNING_MIN_INTERVAL_SECONDS")
    ] = 0.0
    """Seconds that must lie between two replans of one plan; what fails sooner is not replanned."""
    replanning_timeout: Annotated[
        float, Field(gt=0), _replanning("AUTO_REPLANNING_TIMEOUT_SECONDS")
    ] = 600.0
    """Seconds that the search for a new revision may take."""
    replan_within_grant: bool = False
    """Carry out a new revision without a question when it adds nothing to what was approved, leaves
    nothing of it out, and only tells agents something else."""

    subtask_timeout: Seconds = 1_800.0
    """Seconds of work for a subtask that names no timeout of its own."""
    max_steps: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Model requests that one turn or subtask may take."""
    command_timeout: Seconds = 120.0
    """Seconds that a command may run when its call names no timeout."""
    command_output: Annotated[int, Field(ge=1_000, le=10_000_000)] = 60_000
    """Bytes of a command's output that are kept."""
    command_memory: Annotated[int, Field(ge=64)] = 8_192
    """MiB of memory that a command takes with all its processes; without the sandbox, each."""
    command_processes: Annotated[int, Field(ge=16, le=1_000_000)] = 2_048
    """Processes and threads that a command has at once."""
    command_file_size: Annotated[int, Field(ge=1)] = 8_192
    """MiB of one file that a command writes."""
    command_disk: Annotated[int, Field(ge=1)] = 16_384
    """MiB of all the files that one command writes in the workspace."""
    command_temporary: Annotated[int, Field(ge=1)] = 1_024
    """MiB of each folder that is a command's own in the sandbox: its home, `/tmp`, `/var/tmp`,
    `/dev/shm`. They lie in memory."""
    network_private_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Hosts that are not public and that commands may reach all the same, where a plan names them:
    ranges of addresses (`10.1.0.0/16`) and hosts (`git.intra:8443`), separated by commas. This
    machine itself only as a host with its port."""
    network_transfer: Annotated[int, Field(ge=1)] = 1_024
    """MiB that one command may move over the network."""
    diagnostics: Annotated[str, Field(min_length=1, max_length=4_000)] | None = None
    """A command that looks at files which an agent has written, such as `ruff check --no-cache
    --output-format concise {files:*.py}`; its lines about them are told to the agent with the
    result. It runs in the sandbox, where it can write and reach nothing, and nowhere else."""
    diagnostics_timeout: Annotated[float, Field(gt=0, le=600)] = 20.0
    """Seconds that this command may take after a write."""
    sandbox: bool = True
    """Run commands in bubblewrap where it works; off, commands that run repository code ask."""
    readers: bool = True
    """Run commands that only read, such as `ls` or `git status`, without a question where the
    sandbox works: there they can write nothing and reach nothing. Off, they ask."""

    unattended: bool = False
    """Nobody can answer: what would ask is denied."""
    repo_trusted: bool = True
    """The workspace's own configuration (such as `.git/config`) may be trusted."""
    approval_expiry_tool: Seconds | None = DAY
    """Seconds until a question about a tool call expires; never when `null`."""
    approval_expiry_plan: Seconds | None = None
    """Seconds until a plan's approval expires; by default never."""
    approval_expiry_subtask: Seconds | None = None
    """Seconds until a question about a subtask expires; by default never."""
    approval_expiry_intervention: Seconds | None = None
    """Seconds until an intervention expires; by default never."""
    approval_expiry_action: Literal["expire", "reject", "keep_waiting"] = "expire"
    """What becomes of a question at its expiry. None of them approves."""
    approval_warning: Annotated[float, Field(ge=0)] = 600.0
    """Seconds before an expiry at which people are warned."""
    max_pending_approvals: Annotated[int, Field(ge=1, le=100_000)] = 256
    """Open questions that one session may have."""
    legacy_text_rejection: bool = True
    """Take a `tool_result` whose error starts with `User rejected` as a rejection of a call that
    waits; deprecated."""

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
                raise ValueError(f"{word}={role} is not WORD=viewer, =operator or =admin")
        return value

    @field_validator("oidc_issuer", "oidc_jwks_url", "public_url")
    @classmethod
    def _safe(cls, value: str | None) -> str | None:
        if value is not None and not is_safe_address(value):
            raise ValueError("the address must be https (http only on this machine)")
        return value

    @field_validator("otlp_endpoint")
    @classmethod
    def _collector(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("the address must begin with http:// or https://")
        return value

    @field_validator("oidc_issuer")
    @classmethod
    def _not_alone(cls, value: str | None, info: ValidationInfo) -> str | None:
        for needed in ("oidc_audience", "oidc_roles"):
            if value is not None and not info.data.get(needed):
                raise ValueError(f"it needs GONOGO_{needed.upper()} as well")
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
        """What is secret in the settings themselves."""
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
        """The folders that workspaces must lie under, those that people of this machine open aside.

        There are none where no folder is meant, as in a process of its own.
        """
        return self.roots or ((self.workspace,) if self.has_workspace else ())

    @property
    def has_workspace(self) -> bool:
        """Whether a session that names no folder gets one."""
        return self.workspace != Path("/")
