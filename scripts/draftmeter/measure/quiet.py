"""Read /metrics as raw text, and wait until a server is quiet."""

import asyncio
import time

import aiohttp

from draftmeter.formats.metrics import quiet
from draftmeter.measure.http import ask

POLL_S = 0.25
SCRAPE_TIMEOUT_S = 30.0


class QuietTimeout(RuntimeError):
    """The server did not become quiet in time: which server, how long was waited."""


async def scrape(session: aiohttp.ClientSession, url: str) -> str:
    """The text of the server's /metrics, unchanged. Raises
    :class:`draftmeter.measure.http.NotAnswered`.
    """
    return (await ask(session, f"{url}/metrics", SCRAPE_TIMEOUT_S)).decode()


async def wait_until_quiet(
    session: aiohttp.ClientSession, url: str, timeout_s: float, settle_s: float, *, speculation: bool = True
) -> str:
    """Wait until nothing runs and counters stand still, for `settle_s` at least; return the last
    scrape.

    `settle_s` covers one log interval: a server writes the line of its last interval only when that
    interval is over. Responses are sent before their last step is counted, so that one scrape right
    after the last reply is not enough.
    """
    deadline = time.monotonic() + timeout_s + settle_s
    last = await scrape(session, url)
    quiet_since = time.monotonic()
    while time.monotonic() < deadline:
        await asyncio.sleep(POLL_S)
        now = await scrape(session, url)
        if not quiet(last, now, speculation=speculation):
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since >= settle_s:
            return now
        last = now
    raise QuietTimeout(
        f"server {url}: still busy after {timeout_s:.0f} s without requests of ours; "
        "another client uses it, or a request hangs. Stop the other traffic, or raise quiet_timeout_s."
    )
