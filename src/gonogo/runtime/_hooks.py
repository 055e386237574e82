"""Whom the operator has told of questions, put together."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from gonogo.domain.records import Approval
from gonogo.hooks import Announcer, Sender, load_hooks
from gonogo.runtime._views import approval_view
from gonogo.settings import Settings
from gonogo.store import Connection, Store
from gonogo.store.desk import votes_of
from gonogo.store.sessions import spoken_in
from gonogo.telemetry import Metrics
from gonogo.texts import DEFAULT, asked


def open_hooks(
    settings: Settings,
    environment: Mapping[str, str],
    store: Store,
    clock: Callable[[], datetime],
    metrics: Metrics,
) -> Sender:
    """Read the hooks, and have each of them told of what is committed from now on.

    Raises:
        BadHooks: the file has a defect.
    """
    hooks = load_hooks(settings.hooks_file, environment)
    if hooks:
        store.before_commit = Announcer(hooks=hooks, shown=_shown).announce
    return Sender(store=store, hooks=hooks, clock=clock, counted=metrics.hook_tried)


def _shown(conn: Connection, approval: Approval) -> dict[str, Any]:
    votes = votes_of(conn, approval.id) if approval.review else ()
    locale = spoken_in(conn, approval.session_id) or DEFAULT
    return {
        "session_id": approval.session_id,
        "text": asked(approval, locale).plain(),
        "approval": approval_view(approval, votes).model_dump(mode="json", exclude_none=True),
    }
