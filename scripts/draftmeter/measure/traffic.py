"""Send a run's requests: at a fixed number of streams, or as sessions that come and go."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from draftmeter.measure.client import Client
from draftmeter.measure.progress import Progress
from draftmeter.measure.prompts import PromptsHash, Session, Turn, fixed_turns, sessions
from draftmeter.record.run import RequestRow
from draftmeter.study.plan import RunPlan
from draftmeter.study.schema import Sessions

Take = Callable[[RequestRow], None]


async def send_run(client: Client, plan: RunPlan, progress: Progress, take: Take) -> str:
    """Send every request of a run, give the row of each to `take` when it has ended, and return the
    sha256 of all prompts of the plan.

    What `take` raises ends the run at once.
    """
    if plan.workload.sessions is not None:
        return await _send_sessions(client, plan, plan.workload.sessions, progress, take)
    return await _send_streams(client, fixed_turns(plan), plan.streams or 1, progress, take)


@asynccontextmanager
async def together() -> AsyncIterator[asyncio.TaskGroup]:
    """Tasks that end with the block: the first failure cancels the others, raised as itself."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except BaseExceptionGroup as failures:
        first = failures.exceptions[0]
        raise first from first.__cause__


async def _send_streams(client: Client, turns: list[Turn], streams: int, progress: Progress, take: Take) -> str:
    """Keep `streams` requests in flight until all are answered; each is due when its stream is
    free.
    """
    prompts = PromptsHash()
    for turn in turns:
        prompts.add(turn.text)
    waiting = iter(turns)
    progress.expect(len(turns))

    async def stream() -> None:
        for turn in waiting:
            row, _ = await client.send(turn, [{"role": "user", "content": turn.text}], due=client.clock.now())
            take(row)
            progress.done()

    async with together() as tasks:
        for _ in range(min(streams, len(turns))):
            tasks.create_task(stream())
    return prompts.hexdigest()


async def _send_sessions(client: Client, plan: RunPlan, settings: Sessions, progress: Progress, take: Take) -> str:
    """Start each session when it is due, its turns one after the other, at most `max_running`
    requests at a time.

    A session that has not ended when the duration is over stops after its running request, and one
    whose conversation has grown to `max_prompt_characters` ends there. What a failed request asked
    is taken out of the conversation, which goes on without it.
    """
    duration_s = plan.duration_s or 0.0
    limit = asyncio.Semaphore(settings.max_running)
    clock, start = client.clock, client.clock.now()
    prompts = PromptsHash()
    progress.expect_until(duration_s)

    async def hold(session: Session) -> None:
        messages: list[dict[str, str]] = []
        due = start + session.due_s
        for turn in session.turns:
            await asyncio.sleep(turn.think_time_s)
            await asyncio.sleep(_pause_left(settings, clock.now() - start))
            messages.append({"role": "user", "content": turn.text})
            if sum(len(message["content"]) for message in messages) > settings.max_prompt_characters:
                return
            async with limit:
                if clock.now() >= start + duration_s:
                    return
                row, text = await client.send(turn, messages, due=due + turn.think_time_s)
            take(row)
            progress.done()
            if row.error is None:
                messages.append({"role": "assistant", "content": text})
            else:
                messages.pop()
            due = clock.now()

    coming = sessions(plan)
    async with together() as tasks:
        # One session is made ahead, beside the streams: hours of prompts would fill the memory, and
        # making them here would hold up the times of arriving chunks.
        while (session := await asyncio.to_thread(next, coming, None)) is not None:
            for turn in session.turns:
                prompts.add(turn.text)
            await asyncio.sleep(start + session.due_s - clock.now())
            tasks.create_task(hold(session))
    return prompts.hexdigest()


def _pause_left(settings: Sessions, elapsed_s: float) -> float:
    """Seconds until the pause of all clients ends; 0 outside a pause."""
    period = settings.pause_every_s + settings.pause_s
    into = elapsed_s % period
    return period - into if into >= settings.pause_every_s else 0.0
