"""Ask a live server what it offers: GET requests only, and one short generation where the user
asked for a probe.
"""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from draftmeter.measure.http import Address, NotAnswered, ask, session_to

TIMEOUT_S = 15.0
PROBE_TIMEOUT_S = 120.0
PROBE = {"max_tokens": 24, "temperature": 0, "n": 1, "stream": False}
PROBE_TEXT = "Count from one to ten."
KEYS = ("acceptance_histogram", "num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
STEP_KEYS = ("per_step_accepted", "per_step_drafted")


@dataclass(frozen=True)
class Probed:
    """What one request brought: whether its reply holds per-request metrics, and those of each
    step; or why it failed.
    """

    metrics: bool | None
    steps: bool | None
    error: str | None = None


@dataclass
class Examined:
    """What a server answered. Where an answer is None, `errors` says why, by the path that was
    asked.
    """

    url: str
    metrics: str | None = None
    version: str | None = None
    models: list[str] = field(default_factory=list)
    probed: Probed | None = None
    """Null if no probe was asked for."""
    errors: dict[str, str] = field(default_factory=dict)


def examine(address: Address, *, probe: bool) -> Examined:
    """Ask a server for /metrics, /version and /v1/models; with `probe`, send one request of a few
    tokens as well.

    Redirects are not followed: a key must not reach another server.
    """
    return asyncio.run(_examine(address, probe))


async def _examine(address: Address, probe: bool) -> Examined:
    found = Examined(address.url)
    async with session_to(address) as session:
        for path, take in (("/metrics", _take_metrics), ("/version", _take_version), ("/v1/models", _take_models)):
            try:
                take(found, await _text(session, f"{address.url}{path}"))
            except NotAnswered as error:
                found.errors[path] = str(error)
        if probe:
            found.probed = await _probe(session, address.url, found.models)
    return found


def _take_metrics(found: Examined, text: str) -> None:
    found.metrics = text


def _take_version(found: Examined, text: str) -> None:
    version = _parsed(text).get("version")
    if not isinstance(version, str):
        raise NotAnswered("the answer names no version")
    found.version = version


def _take_models(found: Examined, text: str) -> None:
    data = _parsed(text).get("data")
    names = [model.get("id") for model in data if isinstance(model, dict)] if isinstance(data, list) else []
    found.models = [name for name in names if isinstance(name, str)]
    if not found.models:
        raise NotAnswered("the answer names no model")


async def _probe(session: aiohttp.ClientSession, url: str, models: list[str]) -> Probed:
    if not models:
        return Probed(None, None, "the server names no model to ask")
    body: dict[str, Any] = {"model": models[0], **PROBE}
    try:
        try:
            chat = body | {"messages": [{"role": "user", "content": PROBE_TEXT}]}
            text = await _text(session, f"{url}/v1/chat/completions", chat)
        except NotAnswered:
            # A model without a chat template refuses chats.
            text = await _text(session, f"{url}/v1/completions", body | {"prompt": PROBE_TEXT})
        metrics = _parsed(text).get("metrics")
    except NotAnswered as error:
        return Probed(None, None, str(error))
    acceptance = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    if not isinstance(acceptance, dict):
        return Probed(False, False)
    counted, steps = (all(acceptance.get(key) is not None for key in keys) for keys in (KEYS, STEP_KEYS))
    return Probed(counted, steps)


async def _text(session: aiohttp.ClientSession, url: str, body: dict[str, Any] | None = None) -> str:
    answer = await ask(session, url, TIMEOUT_S if body is None else PROBE_TIMEOUT_S, body=body)
    return answer.decode(errors="replace")


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        raise NotAnswered("the answer is no JSON") from None
    if not isinstance(value, dict):
        raise NotAnswered("the answer is no JSON object")
    return value
