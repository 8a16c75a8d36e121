"""The setup of each server as its own records describe it, or as far as stored files tell."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from draftmeter.analyse.facts import AnalysisError
from draftmeter.analyse.tables import Tables, known, numbers
from draftmeter.facts import SetupRow
from draftmeter.record.run import Record, RecordError, read_boot, read_record

K_KEY = "num_speculative_tokens"


def read_records(boots: Iterable[Path]) -> list[Record]:
    """The records that boot.json files list; raise :class:`AnalysisError` naming the file that is unusable."""
    records = []
    try:
        for path in boots:
            boot = read_boot(path)
            records += [read_record(path.parent / run.path) for run in boot.runs]
    except RecordError as error:
        raise AnalysisError(str(error)) from error
    return records


def setup_rows(records: Iterable[Record], tables: Tables) -> list[SetupRow]:
    """One row a server, sorted by name; servers that no record describes are described by the tables."""
    by_server: dict[str, list[Record]] = {}
    for record in records:
        by_server.setdefault(record.server, []).append(record)
    others = sorted(set(tables.counters["server"].astype(str)) - by_server.keys())
    rows = [_row(server, found) for server, found in by_server.items()]
    rows += [_row_of_files(server, tables) for server in others]
    return sorted(rows, key=lambda row: row.server)


def _row_of_files(server: str, tables: Tables) -> SetupRow:
    counters = tables.counters[tables.counters["server"] == server]
    lines = tables.intervals[(tables.intervals["server"] == server) & (tables.intervals["wording"] != "counters")]
    windows, lengths = (sorted(set(known(column))) for column in (numbers(lines, "window_s"), numbers(counters, "k")))
    restarts = numbers(counters, "restarts")
    return SetupRow(
        server=server,
        model=_text(counters["model"].dropna()) or None,
        model_revision=None,
        precision=None,
        method=None,
        k=int(lengths[0]) if len(lengths) == 1 else None,
        engine_version=_text(f"vllm {version}" for version in counters["engine_version"].dropna()) or None,
        attention_backend=None,
        log_interval_s=float(windows[0]) if len(windows) == 1 else None,
        corrections=None,
        starts=None if len(known(restarts)) == 0 else 1 + int(known(restarts).sum()),
        attempts=[],
        processor=None,
        hardware=None,
        driver=None,
        git_commit=None,
        source=_text(counters["source"]),
    )


def _row(server: str, records: list[Record]) -> SetupRow:
    speculation = [record.speculative for record in records]
    return SetupRow(
        server=server,
        model=_text(record.model.name for record in records),
        model_revision=_text(record.model.revision for record in records),
        precision=_text(record.precision for record in records),
        method=_text("none" if one is None else one.get("method") for one in speculation),
        k=int(_one(server, K_KEY, [0 if one is None else one.get(K_KEY) for one in speculation])),
        engine_version=_text(f"{record.engine} {record.engine_version}" for record in records),
        attention_backend=_text(record.attention_backend for record in records) or None,
        log_interval_s=float(_one(server, "log_interval_s", [record.log_interval_s for record in records])),
        corrections=sorted({correction for record in records for correction in record.corrections}),
        starts=len({(record.boot, record.attempt) for record in records}),
        attempts=_attempts(records),
        processor=_text("GPU" if record.gpu else "CPU" for record in records),
        hardware=_text(hardware_of(record) for record in records),
        driver=_text(record.driver for record in records) or None,
        git_commit=_text(_commit(record) for record in records) or None,
        source=None,
    )


def _attempts(records: list[Record]) -> list[str]:
    used: dict[tuple[int, str], set[int]] = {}
    for record in records:
        used.setdefault((record.replicate, record.boot), set()).add(record.attempt)
    return [
        f"{boot} (attempt{'s' if len(numbers) > 1 else ''} {' and '.join(map(str, sorted(numbers)))})"
        for (_, boot), numbers in sorted(used.items())
        if numbers != {1}
    ]


def _one(server: str, key: str, values: list[Any]) -> Any:
    found = sorted(set(values), key=str)
    if len(found) != 1 or found[0] is None:
        raise AnalysisError(f"records of server {server}: found {key} {found}; all records of a server must say the same")
    return found[0]


def _text(values: Iterable[Any]) -> str:
    return "; ".join(sorted({str(value) for value in values if value is not None}))


def hardware_of(record: Record) -> str:
    """The GPUs if there are any, else the processor; a key that the record lacks is left out."""
    if record.gpu:
        return ", ".join(record.gpu)
    host = record.host
    parts = [str(host["processor"])] if host.get("processor") else []
    if host.get("cores"):
        parts.append(f"{host['cores']} cores")
    if host.get("memory_bytes"):
        parts.append(f"{host['memory_bytes'] / 2**30:.0f} GiB")
    return ", ".join(parts) or "not recorded"


def _commit(record: Record) -> str | None:
    if record.git_commit is None:
        return None
    return record.git_commit + (" (with uncommitted changes)" if record.git_dirty else "")
