"""Execute one run against a healthy server and leave its record."""

import asyncio
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from draftmeter.formats.counters import add_up
from draftmeter.formats.metrics import MetricsError, difference, read_strict
from draftmeter.measure.client import Client, ClientError, RunClock
from draftmeter.measure.partial_record import PartialRecord
from draftmeter.measure.progress import Progress, say
from draftmeter.measure.quiet import QuietTimeout, wait_until_quiet
from draftmeter.measure.server import RunningServer, ServerError
from draftmeter.measure.traffic import send_run, together
from draftmeter.record import provenance
from draftmeter.record.provenance import redacted, redacted_environment
from draftmeter.record.run import OtherClients, Record, RequestRow, Revision
from draftmeter.study.plan import BootPlan, RunPlan

LOG_ZONE = "+00:00"
# A server prints the line of an interval a moment after the interval's end.
LINE_DELAY_S = 0.5
# How often the server's log is followed and its process looked at.
LOOK_S = 1.0
# So long a server that has closed its connections may take to end.
DYING_S = 5.0
# A server that answers nothing any more is given up when so many requests in a row failed, or so
# many of each stream. A burst of refusals (429) fails one of each stream.
GIVE_UP_AFTER, GIVE_UP_ROUNDS = 20, 3
# A smaller step of the machine's clock is the usual care of its time service.
CLOCK_STEP_S = 0.5


@dataclass(frozen=True)
class ServedModel:
    """The folder of the checkpoint that a server serves, its revision, and that of a draft model."""

    path: Path
    revision: Revision
    draft: Revision | None


async def execute_run(
    plan: BootPlan,
    run: RunPlan,
    server: RunningServer,
    model: ServedModel,
    session: aiohttp.ClientSession,
    folder: Path,
    name: str,
) -> None:
    """Quiet, scrape, send, quiet, scrape; the record's folder in `folder` gets its name when it is
    whole.

    Raises :class:`ServerError` when the server dies, :class:`ClientError` and :class:`QuietTimeout`
    when it lives and the run is no measurement,
    :class:`draftmeter.measure.partial_record.NotWritten`.
    """
    say(f"{name}: starts")
    clock = RunClock()
    described = _open_record(plan, run, server, model, int(folder.name.removeprefix("attempt-")), clock)
    with PartialRecord(folder, described, server.log) as partial:
        try:
            async with together() as tasks:
                looking = tasks.create_task(_look_after(server, partial))
                await _measure(plan, run, server, session, partial, clock, name)
                looking.cancel()
        except (ClientError, QuietTimeout, _ServerDied) as error:
            ending = await _how_it_died(server)
            if ending is not None:
                raise ServerError(f"server {plan.server_name}/{plan.boot} died during run {run.run}: {ending}") from error
            raise ClientError(f"run {run.run}: {error}") from error


async def _measure(
    plan: BootPlan,
    run: RunPlan,
    server: RunningServer,
    session: aiohttp.ClientSession,
    partial: PartialRecord,
    clock: RunClock,
    name: str,
) -> None:
    speculation, timeout_s = plan.server.drafting is not None, plan.server.quiet_timeout_s
    before = await wait_until_quiet(session, server.url, timeout_s, settle_s=0, speculation=speculation)
    partial.write_metrics("before", before)
    requests = _Requests(plan, run, partial, name)
    client = Client(session, server.url, plan.model_name, run.workload, clock)
    prompts_sha256 = await send_run(client, run, Progress(name), requests.take)
    requests.refuse_if_too_many_failed()
    settle_s = plan.server.log_interval_s + LINE_DELAY_S
    after = await wait_until_quiet(session, server.url, timeout_s, settle_s, speculation=speculation)
    partial.write_metrics("after", after)
    others = requests.others_in(before, after)
    _refuse_other_clients(plan, run, others, name)
    step_s = clock.step_s()
    if abs(step_s) > CLOCK_STEP_S:
        say(f"{name}: the machine's clock was set by {step_s:+.1f} s during the run; times of the record go on from its start")
    partial.finish(
        prompts_sha256=prompts_sha256,
        end=datetime.fromtimestamp(clock.now(), UTC),
        other_clients=others,
        clock_step_s=round(step_s, 3),
    )
    say(f"{name}: done, {partial.requests} requests{requests.failures()}")


class _Requests:
    """Takes the requests of a run as they end: writes them down, and gives the run up where it has
    become no measurement.
    """

    def __init__(self, plan: BootPlan, run: RunPlan, partial: PartialRecord, name: str) -> None:
        self._partial = partial
        self._name = name
        self._planned = run.requests
        self._speculation = plan.server.drafting is not None
        self._max_share = plan.server.max_failed_share
        streams = run.streams or (run.workload.sessions.max_running if run.workload.sessions else 1)
        self._give_up_after = max(GIVE_UP_AFTER, GIVE_UP_ROUNDS * streams)
        self._failed_in_a_row = 0
        self._most_tokens = 0
        """Tokens that our requests may have made: of one that failed or has no count, its limit."""

    def take(self, row: RequestRow) -> None:
        """Write the row down; raise :class:`ClientError` where it is one failure too many."""
        self._partial.add(row)
        if row.error is None:
            self._failed_in_a_row = 0
            self._most_tokens += row.max_tokens if row.reply_tokens is None else row.reply_tokens
            return
        self._failed_in_a_row += 1
        self._most_tokens += row.max_tokens
        failed = len(self._partial.failed)
        if failed == 1:
            say(f"{self._name}: a request failed, {self._partial.failed[0]}")
        certain = self._planned is not None and failed > max(self._max_share * self._planned, self._give_up_after - 1)
        if certain or self._failed_in_a_row >= self._give_up_after:
            raise ClientError(f"given up: {self._too_many()}")

    def refuse_if_too_many_failed(self) -> None:
        """Raise :class:`ClientError` if a larger share than the server's limit failed."""
        if len(self._partial.failed) > self._max_share * self._partial.requests:
            raise ClientError(self._too_many())

    def failures(self) -> str:
        """The end of a sentence that counts the requests, if some failed."""
        failed = self._partial.failed
        return f", of which {len(failed)} failed; the first, {failed[0]}" if failed else ""

    def others_in(self, before: str, after: str) -> OtherClients | None:
        """What the server counted between both texts beyond what our requests can have been."""
        try:
            texts = [read_strict(text, speculation=self._speculation) for text in (before, after)]
            counts = add_up(list(difference(*texts).values()))
        except MetricsError as error:
            raise ClientError(f"/metrics before and after the run do not fit together: {error}") from error
        if counts.requests_finished is None or counts.generation_tokens is None:
            return None
        requests = max(counts.requests_finished - self._partial.requests, 0)
        tokens = max(counts.generation_tokens - self._most_tokens, 0)
        shares = requests / max(counts.requests_finished, 1), tokens / max(counts.generation_tokens, 1)
        return OtherClients(requests=requests, generation_tokens=tokens, share=max(shares))

    def _too_many(self) -> str:
        failed = self._partial.failed
        return (
            f"{len(failed)} of {self._partial.requests} requests failed; the first, {failed[0]}. "
            f"max_failed_share of the server allows {self._max_share:.2%}. See the server's log, mend that and start again"
        )


def _refuse_other_clients(plan: BootPlan, run: RunPlan, others: OtherClients | None, name: str) -> None:
    if others is None or not others.share:
        return
    found = (
        f"other clients sent {others.requests} requests and got {others.generation_tokens} tokens during the run, "
        f"{others.share:.2%} of all"
    )
    if run.requests is not None and others.share > plan.server.max_other_clients_share:
        limit = f"max_other_clients_share of the server allows {plan.server.max_other_clients_share:.2%}"
        raise ClientError(f"{found}; {limit}. Stop the other traffic and start again")
    say(f"{name}: {found}; the record says so")


class _ServerDied(Exception):
    """The server's process has ended."""


async def _look_after(server: RunningServer, partial: PartialRecord) -> None:
    """Follow the server's log while the run goes on, and end the run with the server."""
    while server.died() is None:
        await asyncio.sleep(LOOK_S)
        partial.take_lines()
    raise _ServerDied


async def _how_it_died(server: RunningServer) -> str | None:
    """A dying server closes its connections before its process ends: give it that moment."""
    deadline = time.monotonic() + DYING_S
    while (ending := server.died()) is None and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    return ending


def _open_record(
    plan: BootPlan, run: RunPlan, server: RunningServer, model: ServedModel, attempt: int, clock: RunClock
) -> Record:
    visible = server.environment.get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    gpus, driver = provenance.gpus(visible)
    arguments = {argument.replace("_", "-"): str(value) for argument, value in plan.server.arguments.items()}
    commit, dirty = provenance.git_state(Path(__file__).parent)
    return Record(
        study=plan.study,
        study_kind=plan.study_kind,
        server=plan.server_name,
        boot=plan.boot,
        attempt=attempt,
        replicate=plan.replicate,
        run=run.run,
        place=plan.place,
        order=[planned.run for planned in plan.runs].index(run.run) + 1,
        fingerprint=plan.fingerprint(run),
        server_arguments=redacted(server.command),
        server_environment=redacted_environment(server.environment),
        model=model.revision,
        precision=plan.server.precision,
        speculative=None if plan.server.drafting is None else plan.server.drafting.for_server(),
        attention_backend=server.startup.attention_backend,
        workload=run.workload_name,
        workload_label=run.workload.label,
        reasoning=run.workload.reasoning,
        sampling=run.workload.sampling.model_dump(mode="json"),
        streams=run.streams,
        set_size=None if run.passes is None else run.set_size,
        passes=run.passes,
        prompts_sha256="",
        engine_version=server.startup.engine_version or "unknown",
        corrections=server.startup.corrections,
        log_interval_s=plan.server.log_interval_s,
        time_zone=LOG_ZONE,
        # Client and server share this machine's clock.
        clock_offset_s=0.0,
        host=provenance.host(),
        gpu=[gpu.name for gpu in gpus],
        gpus=gpus,
        cuda_visible_devices=visible,
        slurm_job_id=os.environ.get("SLURM_JOB_ID"),
        chat_template_sha256=provenance.chat_template_sha256(model.path, arguments.get("chat-template")),
        tokenizer_sha256=provenance.tokenizer_sha256(Path(arguments.get("tokenizer", model.path))),
        draft_model=model.draft,
        container=provenance.container(),
        driver=driver,
        packages=provenance.packages(),
        git_commit=commit,
        git_dirty=dirty,
        server_start_s=round(server.start_s, 3),
        start=datetime.fromtimestamp(clock.now(), UTC),
    )
