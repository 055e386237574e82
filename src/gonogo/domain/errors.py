"""Every error that gonogo raises on purpose, grouped by whose fault it is.

    Refused                        the sender's fault; nothing has changed
    ├── InvalidMessage             422  shape or words of a message
    │   ├── UnknownType            422
    │   ├── InvalidPlan            422  any defect of a plan
    │   └── InvalidArguments       422  arguments against a tool's schema
    ├── Unauthorized               401
    │   └── NotValid               401  a signed token; the reason goes into the log
    ├── Forbidden                  403
    │   └── PolicyDenied           403
    ├── NotFound                   404  also for what belongs to others
    ├── Conflict                   409  stale revision, wrong state
    │   ├── AlreadyDecided         409  says who decided, and when
    │   ├── IllegalTransition      409
    │   └── Superseded             409  somebody else has this work now
    │       └── PlaceLost          409  and all other work in its workspace
    ├── Expired                    410
    ├── InvalidCursor              400
    ├── TooLarge                   413
    ├── UnsupportedMedia           415
    └── RateLimited                429
    InternalFailure                gonogo's fault, or that of something it depends on
    ├── ModelFailed                502
    ├── ModelNotConfigured         503
    ├── Busy                       503  the database does not answer; try again
    │   └── IdentityUnknown        503  the identity provider does not answer
    ├── BudgetSpent                429  in domain/replanning.py, with the limit
    └── Internal                   500
    ToolFailed                     a tool's failure, which the model is told
    ├── Unwritable                 the disk is full or read-only; the call can be repeated
    └── OutcomeUnknown             the tool has begun, and its outcome is unknown

`code` and `status` are those of the wire (docs/reference/protocol.md, §3).
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, cast

from pydantic import ValidationError, WrapValidator

# Reasons: sentences in English that can still be translated.


class Reason(str):
    """A sentence with its template and fields, so that `texts.told` can translate it."""

    __slots__ = ("fields", "template")

    template: str
    fields: Mapping[str, object]


def because(template: str, /, **fields: object) -> Reason:
    """Make a reason.

    Args:
        template: In English, as `str.format` reads it.
        fields: The values of the template; reasons and errors among them are translated, too.
    """
    parts = {name: _part(value) for name, value in fields.items()}
    return remade(template.format(**parts), template, parts)


def parts_of(said: str) -> dict[str, Any]:
    """The `template` and `params` that let a client translate a sentence.

    Empty for a plain text. A parameter that is itself a sentence is `{detail}` with its own parts;
    the others are numbers, booleans and strings.
    """
    if not isinstance(said, Reason):
        return {}
    params = {name: _sent(value) for name, value in said.fields.items()}
    return {"template": said.template, "params": params}


def parts_by_text(said: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The parts of several sentences, each by its English text; one without parts is left out."""
    return {str(each): parts for each in said if (parts := parts_of(each))}


def of_parts(detail: str, body: Mapping[str, Any]) -> str:
    """The sentence whose parts `parts_of` gave; a plain text if the parts are missing."""
    template, params = body.get("template"), body.get("params")
    if not (isinstance(template, str) and isinstance(params, Mapping)):
        return detail
    fields = {name: _received(value) for name, value in cast("_Fields", params).items()}
    return remade(detail, template, fields)


def _sent(value: object) -> object:
    if isinstance(value, Reason):
        return {"detail": str(value), **parts_of(value)}
    return value if isinstance(value, int | float | None) else str(value)


def _received(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    body = cast("_Fields", value)
    return of_parts(str(body.get("detail", "")), body)


_Fields = Mapping[str, Any]


def remade(text: str, template: str, fields: Mapping[str, object]) -> Reason:
    """Make a reason from its parts and its finished text."""
    made = Reason(text)
    made.template, made.fields = template, fields
    return made


class GonogoError(Exception):
    """The base of all errors. `code` is the word on the wire, `status` the HTTP status.

    Args:
        said: What is wrong, and what to do, in English. With `fields` it is a template for
            `because`, so that a client can translate it.
    """

    code: str = "internal"
    status: ClassVar[int] = 500

    def __init__(self, said: str = "", /, **fields: object) -> None:
        super().__init__(because(said, **fields) if fields else said)

    @property
    def said(self) -> str:
        """The text of the error: a `Reason` if its parts are known."""
        text = self.args[0] if self.args else ""
        return text if isinstance(text, str) else str(text)


def _part(value: object) -> object:
    if not isinstance(value, GonogoError):
        return value
    said = value.said
    return said if isinstance(said, Reason) else remade(said, said, {})


class Refused(GonogoError):
    """The sender asked for something that cannot be; nothing has changed."""

    code = "invalid_message"
    status = 422


class InvalidMessage(Refused):
    """A message has the wrong shape or an unknown word."""


class UnknownType(InvalidMessage):
    """A message names a type that clients cannot send."""

    code = "unknown_type"


class InvalidPlan(InvalidMessage):
    """A plan, or an edit of one, has a defect."""

    code = "invalid_plan"
    subtask_id: str | None = None
    """The subtask that has the defect, if it is in one."""


@contextmanager
def defects_of(subtask_id: str) -> Generator[None]:
    """Mark every defect that is found inside as this subtask's."""
    try:
        yield
    except InvalidPlan as problem:
        problem.subtask_id = subtask_id
        raise


class InvalidArguments(InvalidMessage):
    """Arguments do not fit the tool's schema."""

    code = "invalid_arguments"


class Unauthorized(Refused):
    """The request carries no valid credential."""

    code = "unauthorized"
    status = 401


class NotValid(Unauthorized):
    """A signed token is not accepted. `reason` is for the log; the sender is told less."""

    def __init__(
        self,
        reason: str,
        told: str = (
            "This server does not accept this token; get a new one from your identity provider, or "
            "create one: gonogo token create"
        ),
    ) -> None:
        super().__init__(told)
        self.reason = reason


class Forbidden(Refused):
    """The principal's role is not enough."""

    code = "forbidden"
    status = 403


class NoRole(Forbidden):
    """A signed token is valid, but its owner has no role here."""

    def __init__(self, principal_id: str) -> None:
        super().__init__("This token gives you no role here; ask an admin to map one of its roles")
        self.principal_id = principal_id


class PolicyDenied(Forbidden):
    """The policy denies this, and no approval can allow it."""

    code = "policy_denied"


class NotFound(Refused):
    """There is no such thing for this principal.

    Args:
        see: The command that lists what exists, if there is one.
    """

    code = "not_found"
    status = 404

    def __init__(self, said: str = "", /, *, see: str | None = None, **fields: object) -> None:
        super().__init__(said, **fields)
        self.see = see


class Conflict(Refused):
    """The thing has changed, or is not in a state that allows this."""

    code = "conflict"
    status = 409


class Superseded(Conflict):
    """Somebody else holds this work now, so the caller's write is refused."""


class PlaceLost(Superseded):
    """Another worker has the workspace, or may have it."""


class AlreadyDecided(Conflict):
    """Somebody decided first."""

    code = "already_decided"

    def __init__(self, subject: str, status: str, decided_by: str, decided_at: str) -> None:
        super().__init__(
            "{subject} was already {approval_status} by {decided_by} at {decided_at}",
            subject=subject, approval_status=status, decided_by=decided_by, decided_at=decided_at,
        )  # fmt: skip
        self.decision, self.decided_by, self.decided_at = status, decided_by, decided_at


class IllegalTransition(Conflict):
    """The state machine has no such transition."""

    def __init__(self, subject: str, state: str, target: str) -> None:
        super().__init__(
            "{subject} is {state} and cannot become {target}",
            subject=subject, state=state, target=target,
        )  # fmt: skip
        self.subject, self.state, self.target = subject, state, target


class Expired(Refused):
    """The question expired before this decision."""

    code = "expired"
    status = 410


class InvalidCursor(Refused):
    """`after` or `Last-Event-ID` is not a place in this session's log."""

    code = "invalid_cursor"
    status = 400


class TooLarge(Refused):
    """A message is larger, deeper or longer than the limits."""

    code = "too_large"
    status = 413


class UnsupportedMedia(Refused):
    """The request's media type is not JSON."""

    status = 415


class RateLimited(Refused):
    """Too many requests, or too many open questions."""

    code = "rate_limited"
    status = 429


class InternalFailure(GonogoError):
    """Something in gonogo, or something it depends on, did not work."""


class ModelFailed(InternalFailure):
    """The model's provider failed, after the retries that make sense.

    `retry_after` is the number of seconds that the provider asked to wait, if it did. A request
    that was not `sent` never reached the provider, so it cannot have cost anything.
    """

    code = "model_error"
    status = 502

    def __init__(
        self,
        said: str,
        /,
        *,
        http_status: int | None = None,
        retry_after: float | None = None,
        transient: bool = False,
        sent: bool = True,
        **fields: object,
    ) -> None:
        super().__init__(said, **fields)
        self.http_status, self.retry_after, self.transient = http_status, retry_after, transient
        self.sent = sent


class PromptTooLong(ModelFailed):
    """The provider refused a request that does not fit into the model's window."""


class ModelNotConfigured(InternalFailure):
    """No model is configured, or its credentials are missing."""

    code = "model_not_configured"
    status = 503


class Busy(InternalFailure):
    """A dependency is unavailable, such as a database that restarts or whose disk is full.

    Nothing is half done, and the same request may succeed later. `reason` is for the log: it may
    name hosts.
    """

    code = "unavailable"
    status = 503
    retry_after: ClassVar[int] = 2
    """Seconds after which to try again."""

    def __init__(
        self,
        told: str = "The database cannot be used now; try again in a moment",
        *,
        reason: str | None = None,
    ) -> None:
        super().__init__(told)
        self.reason = told if reason is None else reason


class IdentityUnknown(Busy):
    """The identity provider does not answer, so the token cannot be checked."""


class Internal(InternalFailure):
    """A defect of gonogo; the log has the details."""

    def __init__(
        self,
        said: str = "Internal error in gonogo. Details: gonogo.log in the state folder, or the "
        "output of gonogo serve",
        /,
        **fields: object,
    ) -> None:
        super().__init__(said, **fields)


class ToolFailed(GonogoError):
    """A tool did not do what was asked; the model is told `kind` and the message.

    `kind` is one of the error codes of docs/reference/tools.md, such as `file_not_found`,
    `path_outside_workspace`, `changed_since_read`, `timeout`.
    """

    def __init__(self, kind: str, said: str, /, **fields: object) -> None:
        super().__init__(said, **fields)
        self.kind = kind


class Unwritable(ToolFailed):
    """A file could not be written because its disk is full or read-only.

    The call itself may be right; it can be repeated when the disk accepts writes.
    """

    def __init__(self, said: str, /, **fields: object) -> None:
        super().__init__("io_error", said, **fields)


class OutcomeUnknown(ToolFailed):
    """A tool was started and its outcome is unknown; gonogo asks a person and says why."""

    def __init__(self, why: str) -> None:
        super().__init__("unknown", why)
        self.why = why


# Short descriptions of what is wrong with untrusted input.


def defect_of(error: ValidationError, whole: str = "") -> str:
    """The first defect that a model found: the field, and what is wrong with it.

    Args:
        whole: The name to use if the defect is in no single field; by default none.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or whole
    said = mistake_of(first)
    return because("{field}: {said}", field=field, said=said) if field else said


def mistake_of(found: Mapping[str, Any]) -> str:
    """What is wrong, from one finding of a validation; a `Reason` if its template is known."""
    context: Mapping[str, Any] = found.get("ctx", {})
    text, template = in_words(found["msg"]), MISTAKES.get(found["type"])
    if found["type"] == "tuple_type":
        # A person writes JSON or YAML, which have lists and no tuples.
        text = template = MISTAKES["list_type"]
    if template is not None:
        # The library's list ends with an English word.
        parts = {name: str(each).replace(" or ", ", ") if name == "expected" else each
                 for name, each in context.items()}  # fmt: skip
        return remade(text, template, parts)
    cause = context.get("error")
    ours = cause.args[0] if isinstance(cause, ValueError) and cause.args else None
    return ours if isinstance(ours, Reason) else text


MISTAKES: Mapping[str, str] = {
    "bool_type": "Input should be a valid boolean",
    "datetime_from_date_parsing": "Input should be a valid datetime or date",
    "datetime_parsing": "Input should be a valid datetime",
    "datetime_type": "Input should be a valid datetime",
    "dict_type": "Input should be a valid dictionary",
    "enum": "Input should be {expected}",
    "extra_forbidden": "Extra inputs are not permitted",
    "float_type": "Input should be a valid number",
    "greater_than": "Input should be greater than {gt}",
    "greater_than_equal": "Input should be greater than or equal to {ge}",
    "int_parsing": "Input should be a valid integer, unable to parse string as an integer",
    "int_type": "Input should be a valid integer",
    "less_than": "Input should be less than {lt}",
    "less_than_equal": "Input should be less than or equal to {le}",
    "list_type": "Input should be a valid list",
    "literal_error": "Input should be {expected}",
    "missing": "Field required",
    "model_type": "Input should be an object",
    "string_pattern_mismatch": "String should match pattern {pattern!r}",
    "string_too_long": "String should have at most {max_length} characters",
    "string_too_short": "String should have at least {min_length} characters",
    "string_type": "Input should be a valid string",
    "too_long": "There should be at most {max_length} items, not {actual_length}",
    "too_short": "There should be at least {min_length} items, not {actual_length}",
}
"""Templates of pydantic's messages by error type; the catalogues translate them."""


def in_words(message: str) -> str:
    """A message of gonogo's own check, without pydantic's prefix."""
    return message.removeprefix("Value error, ")


def together(reasons: Iterable[str]) -> str:
    """Join several reasons, at least one, into one."""
    whole, *others = reasons
    for other in others:
        whole = because("{first}; {then}", first=whole, then=other)
    return whole


def _kept(value: object, read: Callable[[object], str]) -> str:
    return value if isinstance(value, Reason) else read(value)


Said = Annotated[str, WrapValidator(_kept)]
"""A model's field that keeps a `Reason` as it is; a stored one is read as plain text."""
