"""Send requests to an OpenAI-compatible vLLM server and note what came back: times, counts, hashes;
never text on disk.
"""

import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from pydantic import ValidationError

from draftmeter.measure.http import FAILURES, reason_of
from draftmeter.measure.prompts import Turn, is_right
from draftmeter.record.run import RequestRow
from draftmeter.record.watched import first_problem
from draftmeter.strict import canonical_json
from draftmeter.study.schema import Sampling, Workload


class RunClock:
    """Unix seconds: one reading of the wall clock, and from there on a monotonic clock.

    Differences of its times are durations, whatever happens to the wall clock in between.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._began = wall()
        self._from = monotonic()

    def now(self) -> float:
        """The time, in Unix seconds as the wall clock would say had nobody set it since."""
        return self._began + (self._monotonic() - self._from)

    def step_s(self) -> float:
        """Seconds by which the wall clock is ahead of this one by now (negative: behind)."""
        return self._wall() - self.now()


# What is not sent is taken from the checkpoint's own generation config, behind the back of the
# record.
PLAIN = {"min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
# The first chunk repeats the prompt's token ids on one line: a prompt of 130,000 tokens needs about
# a megabyte.
LINE_LIMIT_BYTES = 2**25


CONNECT_TIMEOUT_S = 30.0
# What a server counts of a request; null where it does not say, or says what cannot be.
COUNTS = (
    *("prompt_tokens", "cached_tokens", "reasoning_tokens", "reply_tokens", "finish_reason", "acceptance_histogram"),
    *("drafts", "draft_tokens", "accepted_tokens", "per_step_accepted", "per_step_drafted"),
)


class ClientError(RuntimeError):
    """A run that cannot be used, although its server lives: which run, what was seen."""


@dataclass(frozen=True)
class Client:
    """One connection pool to one server; `model` is the name under which it serves, `clock` gives
    all times of a run.
    """

    session: aiohttp.ClientSession
    url: str
    model: str
    workload: Workload
    clock: RunClock = field(default_factory=RunClock)

    async def send(self, turn: Turn, messages: list[dict[str, str]], due: float) -> tuple[RequestRow, str]:
        """Send one chat request and return its row and the reply's text (kept in memory for the
        next turn only).

        A request that is refused or not answered, an answer that breaks off or cannot be read: what
        was wrong stands in the row.
        """
        body = self._body(turn, messages)
        reply = _Reply()
        sent = self.clock.now()
        try:
            async with self.session.post(f"{self.url}/v1/chat/completions", json=body) as response:
                error = await self._read_reply(response, reply)
        except FAILURES as failure:
            error = f"not answered: {self._reason_of(failure)}"
        return reply.row(turn, body, due, sent, error), reply.text

    async def _read_reply(self, response: aiohttp.ClientResponse, reply: "_Reply") -> str | None:
        """Read the answer into `reply`; return what was wrong with it, or None."""
        try:
            if response.status != 200:
                return f"HTTP {response.status}: {_reason(await response.text())}"
            async for event in _events(response):
                reply.take(event, self.clock.now())
        except json.JSONDecodeError as failure:
            return f"the stream broke off: {type(failure).__name__}: a line of it is no JSON"
        except (AttributeError, TypeError):
            return "a line of the stream is not of the shape of a chunk"
        except FAILURES as failure:
            return f"the stream broke off: {self._reason_of(failure)}"
        return reply.error or reply.missing()

    def _reason_of(self, failure: Exception) -> str:
        if isinstance(failure, aiohttp.ConnectionTimeoutError):
            return f"no connection within {CONNECT_TIMEOUT_S:g} s"
        if isinstance(failure, TimeoutError):
            return f"nothing came for {self.session.timeout.sock_read:g} s (quiet_timeout_s)"
        return reason_of(failure)

    def _body(self, turn: Turn, messages: list[dict[str, str]]) -> dict[str, Any]:
        sampling: Sampling = self.workload.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "n": 1,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            **PLAIN,
            "max_tokens": turn.max_tokens,
            "seed": turn.seed,
            "return_token_ids": True,
        }
        arguments = {
            key: turn.category if value == "{category}" else value for key, value in self.workload.template_arguments.items()
        }
        if arguments:
            body["chat_template_kwargs"] = arguments
        return body


def open_session(silence_s: float) -> aiohttp.ClientSession:
    """A session for any number of streams; a stream that stays silent for `silence_s` is given up."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s)
    # A kept connection may be closed by the server in the moment in which the next request is
    # written.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    return aiohttp.ClientSession(timeout=timeout, connector=connector, read_bufsize=LINE_LIMIT_BYTES)


@dataclass
class _Reply:
    times: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    acceptance: dict[str, Any] | None = None
    error: str | None = None
    whole: bool = False

    def take(self, event: str, now: float) -> None:
        if event == "[DONE]":
            self.whole = True
            return
        chunk = json.loads(event)
        if "error" in chunk:
            self.error = _reason(event)
            return
        for choice in chunk.get("choices") or ():
            tokens = choice.get("token_ids") or []
            if tokens:
                self.times.append(now)
                self.tokens.extend(tokens)
            self.text += (choice.get("delta") or {}).get("content") or ""
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.usage = chunk.get("usage") or self.usage
        self.acceptance = (chunk.get("metrics") or {}).get("speculative_decoding") or self.acceptance

    def missing(self) -> str | None:
        """What a reply without an error of its own lacks to be one, or None."""
        if not self.whole:
            return "the stream ended before its last chunk"
        return None if self.finish_reason or self.usage else "the stream holds no reply"

    def score(self, turn: Turn, error: str | None) -> float | None:
        """1 for a right reply, 0 for a wrong one; None where nothing is known to be right, or the
        reply is not whole.
        """
        if turn.right_reply is None or error is not None:
            return None
        return float(is_right(self.text, turn.right_reply))

    def row(self, turn: Turn, body: dict[str, Any], due: float, sent: float, error: str | None) -> RequestRow:
        usage = self.usage if isinstance(self.usage, dict) else {}
        acceptance = self.acceptance if isinstance(self.acceptance, dict) else {}
        row = {
            "request_id": turn.request_id,
            "session_id": turn.session_id,
            "turn": turn.turn,
            "category": turn.category,
            "seed": turn.seed,
            "max_tokens": turn.max_tokens,
            "prompt_sha256": hashlib.sha256(canonical_json(body["messages"]).encode()).hexdigest(),
            "t_due": round(due, 6),
            "t_sent": round(sent, 6),
            "t_first": round(self.times[0], 6) if self.times else None,
            "t_last": round(self.times[-1], 6) if self.times else None,
            "chunk_times": [round(at - sent, 4) for at in self.times],
            "prompt_tokens": usage.get("prompt_tokens"),
            "cached_tokens": _part(usage, "prompt_tokens_details").get("cached_tokens"),
            "reasoning_tokens": _part(usage, "completion_tokens_details").get("reasoning_tokens"),
            "reply_tokens": usage.get("completion_tokens"),
            "finish_reason": self.finish_reason,
            "acceptance_histogram": acceptance.get("acceptance_histogram"),
            "drafts": acceptance.get("num_spec_steps"),
            "draft_tokens": acceptance.get("num_draft_tokens"),
            "accepted_tokens": acceptance.get("num_accepted_draft_tokens"),
            "per_step_accepted": acceptance.get("per_step_accepted"),
            "per_step_drafted": acceptance.get("per_step_drafted"),
            "score": self.score(turn, error),
            "reply_token_sha256": hashlib.sha256(canonical_json(self.tokens).encode()).hexdigest() if self.tokens else None,
            "error": error,
        }
        try:
            return RequestRow.model_validate(row)
        except ValidationError as strange:
            found = f"the server's counts of it are not of their shape: {first_problem(strange)}"
            return RequestRow.model_validate({**row, **dict.fromkeys(COUNTS), "score": None, "error": error or found})


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """The data of each server-sent event of a stream."""
    async for line in response.content:
        if line.startswith(b"data:"):
            yield line[5:].strip().decode()


def _part(usage: dict[str, Any], name: str) -> dict[str, Any]:
    part = usage.get(name)
    return part if isinstance(part, dict) else {}


def _reason(answer: str) -> str:
    """The server's own message, without the request that it may quote."""
    try:
        error = json.loads(answer).get("error", {})
        answer = str(error.get("message", error))
    except (ValueError, AttributeError):
        pass
    return " ".join(answer[:200].split())
