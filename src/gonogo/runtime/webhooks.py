"""Whom the operator has told of questions, put together."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

import anyio.to_thread

from gonogo.domain.identity import Memory
from gonogo.domain.records import Approval
from gonogo.i18n import DEFAULT, asked
from gonogo.runtime.links import link_key, link_url, may_decide, new_link, person
from gonogo.runtime.oidc import memory_of
from gonogo.runtime.views import view_of
from gonogo.settings import Settings
from gonogo.store import Store, Tx
from gonogo.store.approvals import link_of
from gonogo.store.sessions import spoken_in
from gonogo.telemetry import Metrics
from gonogo.webhooks import Announcer, Sender, load_hooks


def open_hooks(
    settings: Settings,
    environment: Mapping[str, str],
    store: Store,
    metrics: Metrics,
) -> Sender:
    """Read the hooks, and have each of them told of what is committed from now on.

    Raises:
        BadHooks: the file has a defect.
    """
    public = settings.public_url
    hooks = load_hooks(settings.hooks_file, environment, links=public is not None)
    if hooks:
        lifetime = timedelta(seconds=settings.link_expiry)
        links = partial(_links, lifetime, memory_of(settings))
        store.before_commit = Announcer(hooks=hooks, shown=_shown, links=links).announce

    async def completed(body: dict[str, Any]) -> dict[str, Any]:
        if public is None or "links" not in body["data"]:
            return body
        key = await anyio.to_thread.run_sync(link_key, settings.home)
        return await store.read(_with_addresses, body, public, key)

    return Sender(store=store, hooks=hooks, counted=metrics.hook_tried, completed=completed)


def _links(
    lifetime: timedelta, memory: Memory | None, tx: Tx, approval: Approval, names: tuple[str, ...]
) -> list[dict[str, Any]]:
    """A link for each of those who may decide; its address is not kept."""
    found: list[dict[str, Any]] = []
    for name in names:
        holder = person(tx, name, memory)
        if holder is not None and may_decide(tx, holder, approval):
            link = new_link(tx, approval, holder, "gonogo", lifetime)
            found.append({"for": holder.name, "link_id": link.id})
    return found


def _with_addresses(tx: Tx, body: dict[str, Any], public: str, key: bytes) -> dict[str, Any]:
    links: list[dict[str, Any]] = []
    for each in body["data"]["links"]:
        link = link_of(tx, each["link_id"])
        if link is not None:
            expires = link.expires_at.isoformat().replace("+00:00", "Z")
            links.append({**each, "url": link_url(public, link, key), "expires_at": expires})
    return {**body, "data": {**body["data"], "links": links}}


def _shown(tx: Tx, approval: Approval) -> dict[str, Any]:
    locale = spoken_in(tx, approval.session_id) or DEFAULT
    return {
        "session_id": approval.session_id,
        "text": asked(approval, locale).plain(),
        "approval": view_of(tx, approval).model_dump(mode="json", exclude_none=True),
    }
