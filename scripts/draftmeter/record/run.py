"""A record: the folder that one run leaves behind. Raw, immutable, self-describing.

Layout, one folder a run: ``results/records/<server>/<boot>/attempt-<n>/<run>/`` with

=====================  ==============================================================================
``record.json``        what was run (:class:`Record`); written before the run, completed after it
``metrics-before.prom``, ``metrics-after.prom``   the server's /metrics as raw text
``server.log``         the server's statistics lines of that time; never prompts
``requests.jsonl``     one :class:`RequestRow` a request; never prompts or replies, only their hashes
=====================  ==============================================================================

A run in progress lives in ``<run>.partial``, whose files grow as it goes; the folder is renamed once
it is whole. A run that breaks leaves it as it was then: a record.json without an end, the requests
that had ended in the order of their ends (the last line may be cut short), perhaps no
metrics-after.prom. A stored record may hold any of its files but ``record.json`` compressed, as
``<name>.gz`` or ``<name>.zst``.
"""

import gzip
import io
import json
import zlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import BeforeValidator, Field, ValidationError

from draftmeter.strict import Strict

PARTIAL = ".partial"
"""How the name of a run in progress ends."""


def _parse_time(value: Any) -> Any:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


Time = Annotated[datetime, BeforeValidator(_parse_time)]


class RecordError(ValueError):
    """A record that cannot be used: which file, what was found, what would be right."""


class Revision(Strict):
    """Where a model's files came from; `revision` is a commit hash or, for a model that we wrote, a sha256 of its files."""

    name: str
    source: str
    revision: str
    tokenizer_revision: str
    draft_revision: str


class Gpu(Strict):
    """One GPU that a server could use; a null is unknown."""

    name: str
    uuid: str
    memory_mib: int | None


class OtherClients(Strict):
    """What a server counted in a run beyond our requests: at least so much was of others."""

    requests: int
    generation_tokens: int
    share: float
    """The larger of both shares of what the server counted."""


class Record(Strict):
    """Everything needed to say what a run measured. Times are aware; `end` is null until the run is complete."""

    schema_version: Literal[1] = 1
    study: str
    study_kind: Literal["known_answer", "served_model"]
    server: str
    boot: str
    attempt: int
    replicate: int
    place: int | None = None
    """Of the boot among all boots of the study, in their drawn order; null in records made before boots had one."""
    run: str
    order: int
    fingerprint: str
    server_arguments: list[str]
    server_environment: dict[str, str]
    model: Revision
    precision: str
    speculative: dict[str, Any] | None
    """The server's --speculative-config; null: it ran without speculation."""
    attention_backend: str | None
    workload: str
    workload_label: str
    reasoning: Literal["on", "off"] | None
    sampling: dict[str, Any]
    streams: int | None
    """Requests kept in flight; null for session traffic, where the number varies."""
    set_size: int | None = None
    passes: int | None = None
    """Passes over so many prompts; null for session traffic, and in records made before runs were passes."""
    prompts_sha256: str
    """Of the user's texts in order; empty until the run is complete."""
    engine: Literal["vllm"] = "vllm"
    engine_version: str
    corrections: list[str]
    """Corrections to the engine that were active, by name, as the server's own log reported them."""
    log_interval_s: float
    time_zone: str
    """Zone of the time stamps in server.log, as an UTC offset such as +00:00."""
    clock_offset_s: float
    host: dict[str, Any]
    gpu: list[str]
    """Names of the GPUs that the server could use."""
    gpus: list[Gpu] | None = None
    """With what tells them apart; this and what follows to `container` is null in older records."""
    cuda_visible_devices: str | None = None
    """As the server got it; null: not set."""
    slurm_job_id: str | None = None
    """null: not a job of SLURM."""
    chat_template_sha256: str | None = None
    """Of the chat template's text; null: the model has none."""
    tokenizer_sha256: str | None = None
    """Of the tokenizer's files; null: none was found on this machine."""
    draft_model: Revision | None = None
    """The draft model of its own, where the method has one."""
    container: str | None = None
    """The image of the container that the workflow ran in, `none` outside of one."""
    driver: str | None
    packages: dict[str, str]
    git_commit: str | None
    git_dirty: bool | None
    server_start_s: float
    """Seconds from the server's launch until it was healthy."""
    start: Time
    end: Time | None = None
    first_sent: Time | None = None
    last_received: Time | None = None
    requests: int | None = None
    errors: int | None = None
    other_clients: OtherClients | None = None
    """null: the counters do not tell, or the record was made before they were asked."""
    clock_step_s: float | None = None
    """Seconds by which the machine's clock was set forward during the run (backward: negative).

    All times here are one reading at its start and a monotonic clock from there. null in older
    records, which were not made so.
    """

    @property
    def of_known_answer(self) -> bool:
        """Whether its model is one that a study writes itself, so that its acceptance is known."""
        return self.model.source == "known_answer"


class RequestRow(Strict):
    """One line of requests.jsonl. Times are Unix seconds of the client's clock; a null is unknown, never zero."""

    request_id: str
    session_id: str
    turn: int
    category: str
    """What the workload says about the request: in the known-answer study, its group of tokens."""
    seed: int
    max_tokens: int
    prompt_sha256: str
    t_due: float
    t_sent: float
    t_first: float | None
    t_last: float | None
    chunk_times: list[float] = Field(default_factory=list)
    """Arrival of each chunk with tokens, seconds after t_sent."""
    prompt_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    reply_tokens: int | None
    finish_reason: str | None
    acceptance_histogram: list[int] | None
    """K+1 counts: drafts of which 0, 1, ... K tokens were accepted, as the server counted them."""
    drafts: int | None
    draft_tokens: int | None
    accepted_tokens: int | None
    per_step_accepted: list[int] | None
    per_step_drafted: list[int] | None
    reply_token_sha256: str | None
    score: float | None = None
    error: str | None = None


class BootRun(Strict):
    """One run of a boot as boot.json lists it; `path` is relative to the folder of boot.json."""

    run: str
    attempt: int
    fingerprint: str
    path: str


class Boot(Strict):
    """boot.json: the small file that a measuring job declares and writes last."""

    study: str
    server: str
    boot: str
    replicate: int
    runs: list[BootRun]


def read_record(folder: Path) -> Record:
    """Read a complete record; raise :class:`RecordError` for a folder that is missing, cut short or malformed."""
    record = read_started(folder)
    if record.end is None or folder.name.endswith(PARTIAL):
        raise RecordError(f"{folder / 'record.json'}: the run has no end; it was interrupted and is not a measurement")
    return record


def read_started(folder: Path) -> Record:
    """What record.json says of a run that has ended or not. Raises :class:`RecordError`."""
    path = folder / "record.json"
    try:
        return Record.model_validate(json.loads(path.read_text()))
    except FileNotFoundError:
        raise RecordError(f"{path}: not found; a record is a folder with a record.json") from None
    except (ValidationError, ValueError) as error:
        raise RecordError(f"{path}: not a record of schema version 1: {error}") from error


def read_boot(path: Path) -> Boot:
    """Read a boot.json; raise :class:`RecordError` with the file's name when it is malformed."""
    try:
        return Boot.model_validate(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: not a boot.json: {error}") from error


def open_raw(folder: Path, name: str) -> BinaryIO:
    """Open a raw file of a record for its bytes, plain or compressed; raise :class:`RecordError` for none, or a damaged one."""
    if (folder / name).is_file():
        return (folder / name).open("rb")
    for ending, decompress in _COMPRESSIONS.items():
        path = folder / f"{name}{ending}"
        if path.is_file():
            try:
                return io.BytesIO(decompress(path.read_bytes()))
            except (OSError, EOFError, ValueError, zlib.error) as error:
                raise RecordError(f"{path}: cannot be decompressed: {error}") from error
    raise RecordError(f"{folder / name}: not found, neither plain nor as .gz or .zst")


def read_raw(folder: Path, name: str) -> str:
    """The text of a raw file of a record, plain or compressed; raise :class:`RecordError` if it cannot be read."""
    with open_raw(folder, name) as file:
        try:
            return file.read().decode()
        except (OSError, ValueError) as error:
            raise RecordError(f"{folder / name}: cannot be read: {error}") from error


def _decompress_zstd(data: bytes) -> bytes:
    import zstandard  # noqa: PLC0415  only where a record is stored so

    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        content = frame.decompress(data)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if not frame.eof or frame.unused_data:
        raise ValueError("the file does not hold one whole zstd frame; it was cut short or changed")
    return content


_COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".zst": _decompress_zstd}


def read_requests(folder: Path, *, whole: bool = True) -> list[RequestRow]:
    """Read requests.jsonl of a record; a malformed line is an error that names the line.

    Not `whole`: of a run that was interrupted. A last line without its line feed is left out.
    """
    rows = []
    for number, line in enumerate(io.StringIO(read_raw(folder, "requests.jsonl")), start=1):
        if not whole and not line.endswith("\n"):
            break
        try:
            rows.append(RequestRow.model_validate(json.loads(line)))
        except ValueError as error:
            raise RecordError(f"{folder / 'requests.jsonl'}, line {number}: not a request row: {error}") from error
    return rows
