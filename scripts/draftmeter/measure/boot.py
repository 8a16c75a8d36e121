"""One measuring job: boot a server once, execute the runs that are missing, leave a record for
each, write boot.json last.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from draftmeter.measure.client import open_session
from draftmeter.measure.partial_record import writing
from draftmeter.measure.progress import say
from draftmeter.measure.prompts import check_prompts
from draftmeter.measure.run import ServedModel, execute_run
from draftmeter.measure.server import RunningServer, running_server
from draftmeter.record.provenance import model_revision
from draftmeter.record.run import Boot, BootRun, Record, RecordError, Revision, read_record
from draftmeter.strict import write_json
from draftmeter.study.plan import BootPlan, RunPlan


def measure_boot(plan: BootPlan, model_json: Path, boot_json: Path, logs: Path, draft_json: Path | None = None) -> None:
    """Execute the runs of `plan` for which no complete record exists, and list all of them in
    `boot_json`.

    Records are siblings of `boot_json` in folders ``attempt-<n>/<run>``; a new boot is a new
    attempt, and finished runs of earlier attempts stay as they are. Raises
    :class:`draftmeter.measure.server.ServerError`,
    :class:`draftmeter.measure.client.ClientError` or
    :class:`draftmeter.measure.partial_record.NotWritten`.
    """
    folder = boot_json.parent
    model_path, revision = model_revision(plan.model_name, model_json)
    draft: Revision | None = None
    draft_path: str | None = None
    if plan.server.drafting is not None and plan.server.drafting.model is not None:
        if draft_json is None:
            raise ValueError(f"servers.{plan.server_name}.speculative.model: found no model.json of {plan.server.drafting.model}")
        draft_path, draft = model_revision(plan.server.drafting.model, draft_json)
        revision = revision.model_copy(update={"draft_revision": draft.revision})
    finished = finished_runs(plan, folder, revision)
    missing = [run for run in plan.runs if run.run not in finished]
    name = f"{plan.server_name}/{plan.boot}"
    if missing:
        attempt = _next_attempt(folder)
        say(f"{name}: attempt {attempt}, {len(missing)} of {len(plan.runs)} runs to execute: {', '.join(r.run for r in missing)}")
        for run in missing:
            check_prompts(run)
        attempt_folder = folder / f"attempt-{attempt}"
        with writing(attempt_folder):
            attempt_folder.mkdir(parents=True)
        log = logs / f"{plan.server_name}-{plan.boot}-attempt-{attempt}.server.log"
        with _sigterm_as_exit(), running_server(plan, model_path, log, draft_path) as server:
            asyncio.run(_execute_runs(plan, missing, server, ServedModel(Path(model_path), revision, draft), attempt_folder))
        finished = finished_runs(plan, folder, revision)
    else:
        say(f"{name}: every run has a complete record; no server is started")
    runs = [finished[run.run] for run in plan.runs]
    with writing(boot_json):
        write_json(
            boot_json, Boot(study=plan.study, server=plan.server_name, boot=plan.boot, replicate=plan.replicate, runs=runs)
        )


def finished_runs(plan: BootPlan, folder: Path, revision: Revision) -> dict[str, BootRun]:
    """The complete records of `folder` that belong to this plan and model, by run: the first
    attempt that has one.
    """
    found: dict[str, BootRun] = {}
    for attempt_folder in sorted(folder.glob("attempt-*"), key=_attempt_number):
        for run in plan.runs:
            record = _complete_record(attempt_folder / run.run)
            if record is None or run.run in found:
                continue
            if (record.fingerprint, record.model) == (plan.fingerprint(run), revision):
                path = f"{attempt_folder.name}/{run.run}"
                found[run.run] = BootRun(run=run.run, attempt=record.attempt, fingerprint=record.fingerprint, path=path)
    return found


def _complete_record(folder: Path) -> Record | None:
    if not folder.exists():
        return None
    try:
        return read_record(folder)
    except RecordError as error:
        say(f"not used: {error}")
        return None


async def _execute_runs(plan: BootPlan, runs: list[RunPlan], server: RunningServer, model: ServedModel, folder: Path) -> None:
    async with open_session(plan.server.quiet_timeout_s) as session:
        for number, run in enumerate(runs, start=1):
            name = f"{plan.server_name}/{plan.boot}: run {number} of {len(runs)} {run.run}"
            await execute_run(plan, run, server, model, session, folder, name)


def _next_attempt(folder: Path) -> int:
    return max((_attempt_number(path) for path in folder.glob("attempt-*")), default=0) + 1


def _attempt_number(path: Path) -> int:
    return int(path.name.removeprefix("attempt-"))


@contextmanager
def _sigterm_as_exit() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that the server is stopped on the way."""

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
