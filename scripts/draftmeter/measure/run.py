"""Execute one run against a healthy server and leave its record."""

import json
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from draftmeter.formats.log import is_statistics_line
from draftmeter.measure.client import Client, ClientError
from draftmeter.measure.progress import Progress, say
from draftmeter.measure.quiet import wait_until_quiet
from draftmeter.measure.server import RunningServer
from draftmeter.measure.traffic import send_run
from draftmeter.record import provenance
from draftmeter.record.provenance import redacted, redacted_environment
from draftmeter.record.run import Record, RequestRow, Revision
from draftmeter.strict import write_atomically, write_json
from draftmeter.study.plan import BootPlan, RunPlan

LOG_ZONE = "+00:00"
# A server prints the line of an interval a moment after the interval's end.
LINE_DELAY_S = 0.5


async def execute_run(
    plan: BootPlan,
    run: RunPlan,
    server: RunningServer,
    revision: Revision,
    session: aiohttp.ClientSession,
    folder: Path,
    name: str,
) -> None:
    """Quiet, scrape, send, quiet, scrape, cut the log; the record's folder gets its name when it is
    whole.
    """
    partial = folder / f"{run.run}.partial"
    partial.mkdir(parents=True)
    say(f"{name}: starts")
    speculation = plan.server.drafting is not None
    before = await wait_until_quiet(session, server.url, plan.server.quiet_timeout_s, settle_s=0, speculation=speculation)
    record = _open_record(plan, run, server, revision, attempt=int(folder.name.removeprefix("attempt-")))
    write_json(partial / "record.json", record)
    write_atomically(partial / "metrics-before.prom", before)
    log_start = server.log.stat().st_size
    client = Client(session, server.url, plan.model_name, run.workload)
    rows, prompts_sha256 = await send_run(client, run, Progress(name))
    _refuse_failures(run, rows)
    settle_s = plan.server.log_interval_s + LINE_DELAY_S
    after = await wait_until_quiet(session, server.url, plan.server.quiet_timeout_s, settle_s, speculation=speculation)
    write_atomically(partial / "metrics-after.prom", after)
    write_atomically(partial / "server.log", _statistics_lines(server.log, log_start))
    write_atomically(partial / "requests.jsonl", "".join(_line(row) for row in rows))
    write_json(partial / "record.json", _closed(record, rows, prompts_sha256))
    partial.rename(folder / run.run)
    say(f"{name}: done, {len(rows)} requests")


def _refuse_failures(run: RunPlan, rows: list[RequestRow]) -> None:
    """A fixed set of requests is measured whole or not at all; session traffic keeps its failures
    in its rows.
    """
    failed = [row for row in rows if row.error is not None]
    if failed and run.requests is not None:
        raise ClientError(f"{len(failed)} of {len(rows)} requests failed; the first, {failed[0].request_id}: {failed[0].error}")


def _open_record(plan: BootPlan, run: RunPlan, server: RunningServer, revision: Revision, attempt: int) -> Record:
    gpu, driver = provenance.gpus()
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
        model=revision,
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
        gpu=gpu,
        driver=driver,
        packages=provenance.packages(),
        git_commit=commit,
        git_dirty=dirty,
        server_start_s=round(server.start_s, 3),
        start=datetime.now(UTC),
    )


def _closed(record: Record, rows: list[RequestRow], prompts_sha256: str) -> Record:
    received = [row.t_last for row in rows if row.t_last is not None]
    return record.model_copy(
        update={
            "prompts_sha256": prompts_sha256,
            "end": datetime.now(UTC),
            "first_sent": _time(min((row.t_sent for row in rows), default=None)),
            "last_received": _time(max(received, default=None)),
            "requests": len(rows),
            "errors": sum(row.error is not None for row in rows),
        }
    )


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _line(row: RequestRow) -> str:
    return json.dumps(row.model_dump(mode="json"), separators=(",", ":")) + "\n"


def _statistics_lines(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").splitlines()
    return "".join(f"{line}\n" for line in lines if is_statistics_line(line))
