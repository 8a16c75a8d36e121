"""Read /metrics as raw text, and wait until a server is quiet."""

import asyncio
import time

import aiohttp

from draftmeter.formats.metrics import quiet
from draftmeter.measure.http import NotAnswered, ask
from draftmeter.measure.progress import say

POLL_S = 0.25
SCRAPE_TIMEOUT_S = 30.0
SHORTEST_TIMEOUT_S = 5.0


class QuietTimeout(RuntimeError):
    """The server did not become quiet in time, or did not say whether it is: which server, how long
    was waited.
    """


async def scrape(session: aiohttp.ClientSession, url: str, timeout_s: float = SCRAPE_TIMEOUT_S) -> str:
    """The text of the server's /metrics, unchanged. Raises
    :class:`draftmeter.measure.http.NotAnswered`.
    """
    try:
        return (await ask(session, f"{url}/metrics", timeout_s)).decode()
    except UnicodeDecodeError:
        raise NotAnswered("the answer is no UTF-8 text") from None


async def wait_until_quiet(
    session: aiohttp.ClientSession, url: str, timeout_s: float, settle_s: float, *, speculation: bool = True
) -> str:
    """Wait until nothing runs and counters stand still, for `settle_s` at least; return the last
    scrape. Raises :class:`QuietTimeout` after `timeout_s` more.

    `settle_s` covers one log interval: a server writes the line of its last interval only when that
    interval is over. Responses are sent before their last step is counted, so that one scrape right
    after the last reply is not enough. A scrape that fails or cannot be read is tried again.
    """
    deadline = time.monotonic() + timeout_s + settle_s
    last: str | None = None
    problem: str | None = None
    quiet_since = time.monotonic()
    while (left := deadline - time.monotonic()) > 0:
        try:
            now = await scrape(session, url, min(SCRAPE_TIMEOUT_S, max(left, SHORTEST_TIMEOUT_S)))
            still = quiet(now if last is None else last, now, speculation=speculation)
        except (NotAnswered, ValueError) as error:
            if problem is None:
                say(f"{url}/metrics: {error}; tried again for up to {left:.0f} s (quiet_timeout_s)")
            problem, last = str(error), None
        else:
            problem = None
            if last is None or not still:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since >= settle_s:
                return now
            last = now
        await asyncio.sleep(POLL_S)
    if problem is not None:
        raise QuietTimeout(
            f"{url}/metrics could not be read for {timeout_s:.0f} s (quiet_timeout_s): {problem}. "
            "See the server's log, or raise quiet_timeout_s."
        )
    raise QuietTimeout(
        f"server {url}: still busy after {timeout_s:.0f} s without requests of ours; "
        "another client uses it, or a request hangs. Stop the other traffic, or raise quiet_timeout_s."
    )
