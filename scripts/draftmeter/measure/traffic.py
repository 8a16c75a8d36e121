"""Send a run's requests: at a fixed number of streams, or as sessions that come and go."""

import asyncio
import time
from collections.abc import Coroutine, Sequence

from draftmeter.measure.client import Client
from draftmeter.measure.progress import Progress
from draftmeter.measure.prompts import Session, Turn, fixed_turns, prompts_sha256, sessions
from draftmeter.record.run import RequestRow
from draftmeter.study.plan import RunPlan
from draftmeter.study.schema import Sessions


async def send_run(client: Client, plan: RunPlan, progress: Progress) -> tuple[list[RequestRow], str]:
    """Send every request of a run; return their rows in the order of their ids, and the sha256 of
    all prompts.
    """
    if plan.workload.sessions is not None:
        schedule = sessions(plan)
        rows = await _send_sessions(client, plan, schedule, progress)
        texts = [turn.text for session in schedule for turn in session.turns]
    else:
        turns = fixed_turns(plan)
        rows = await _send_streams(client, turns, plan.streams or 1, progress)
        texts = [turn.text for turn in turns]
    return sorted(rows, key=lambda row: row.request_id), prompts_sha256(texts)


async def _send_streams(client: Client, turns: list[Turn], streams: int, progress: Progress) -> list[RequestRow]:
    """Keep `streams` requests in flight until all are answered; each is due when its stream is
    free.
    """
    waiting = iter(turns)
    rows: list[RequestRow] = []
    progress.expect(len(turns))

    async def stream() -> None:
        for turn in waiting:
            row, _ = await client.send(turn, [{"role": "user", "content": turn.text}], due=time.time())
            rows.append(row)
            progress.done()

    await _all([stream() for _ in range(min(streams, len(turns)))])
    return rows


async def _send_sessions(client: Client, plan: RunPlan, schedule: list[Session], progress: Progress) -> list[RequestRow]:
    """Start each session when it is due, its turns one after the other, at most `max_running`
    requests at a time.

    A session that has not ended when the duration is over stops after its running request, and one
    whose conversation has grown to `max_prompt_characters` ends there.
    """
    settings = plan.workload.sessions
    if settings is None or plan.duration_s is None:
        raise ValueError(f"run {plan.run}: is not session traffic")
    limit = asyncio.Semaphore(settings.max_running)
    start = time.time()
    end = start + plan.duration_s
    rows: list[RequestRow] = []
    progress.expect_until(plan.duration_s)

    async def hold(session: Session) -> None:
        await asyncio.sleep(session.due_s)
        messages: list[dict[str, str]] = []
        due = start + session.due_s
        for turn in session.turns:
            await asyncio.sleep(turn.think_time_s)
            await asyncio.sleep(_pause_left(settings, time.time() - start))
            messages.append({"role": "user", "content": turn.text})
            if sum(len(message["content"]) for message in messages) > settings.max_prompt_characters:
                return
            async with limit:
                if time.time() >= end:
                    return
                row, text = await client.send(turn, messages, due=due + turn.think_time_s)
            rows.append(row)
            progress.done()
            messages.append({"role": "assistant", "content": text})
            due = time.time()

    await _all([hold(session) for session in schedule])
    return rows


def _pause_left(settings: Sessions, elapsed_s: float) -> float:
    """Seconds until the pause of all clients ends; 0 outside a pause."""
    period = settings.pause_every_s + settings.pause_s
    into = elapsed_s % period
    return period - into if into >= settings.pause_every_s else 0.0


async def _all(work: Sequence[Coroutine[None, None, None]]) -> None:
    """Run all at once; the first failure cancels the others and is raised as itself."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
