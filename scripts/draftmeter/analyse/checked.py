"""Whether the results may be believed: every exact figure met, every cross-check passed."""

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from draftmeter.analyse.calibration import COLUMNS
from draftmeter.analyse.facts import AnalysisError
from draftmeter.analyse.tables import read_checks, run_labels
from draftmeter.facts import CalibrationRow


class CheckFailed(ValueError):
    """Results that must not be used; the message is the table of what failed."""


def read_calibration(path: Path) -> list[CalibrationRow]:
    """Read calibration.csv; raise :class:`AnalysisError` with the file and line of what is wrong with it."""
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            if list(reader.fieldnames or []) != COLUMNS:
                raise AnalysisError(f"{path}: found columns {reader.fieldnames}; the rule `analyse` writes {COLUMNS}")
            return [_parse(path, line, row) for line, row in enumerate(reader, start=2)]
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be read: {error.strerror}; the rule `analyse` writes it") from error


def _lacks_acceptance(row: CalibrationRow) -> bool:
    """Requests were sent, and what the server accepted of them is not known: no small number, but a broken measurement."""
    return row.status == "unknown" and row.requests > 0 and row.exact is not None and row.drafts is None


def judge(calibration: Sequence[CalibrationRow], checks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The content of checked.json; raise :class:`CheckFailed` with a readable table when something failed.

    `checks` are rows of the table checks with the key `record`. Unknown rows are listed with their reasons. They fail
    a study where requests carry no acceptance, and where a whole kind of comparison was tried and none could be made.
    """
    failures = [_calibration_table([row for row in calibration if row.status == "failed"])]
    lacking = {f"{row.subject}: {row.reason}" for row in calibration if _lacks_acceptance(row)}
    failures += [f"not compared with the exact figures: {text}" for text in sorted(lacking)]
    failures.append(_checks_table([row for row in checks if row["status"] == "failed"]))
    counts = {
        "calibration": Counter(str(row.status) for row in calibration),
        "checks": Counter(str(row["status"]) for row in checks),
    }
    unknown: dict[str, list[dict[str, Any]]] = {
        "calibration": [row.model_dump(mode="json") for row in calibration if row.status == "unknown"],
        "checks": [{key: row[key] for key in ("record", "check", "reason")} for row in checks if row["status"] == "unknown"],
    }
    for kind, count in counts.items():
        if count["unknown"] and not count["ok"] and not count["failed"]:
            reasons = sorted({str(row["reason"]) for row in unknown[kind]})
            failures.append(f"{kind}: none of the {count['unknown']} rows could be checked: {'; '.join(reasons)}")
    if not calibration and not checks:
        failures.append("nothing to check: calibration.csv and the table checks are both empty")
    found = [text for text in failures if text]
    if found:
        raise CheckFailed("the results did not pass their checks\n\n" + "\n\n".join(found))
    known = [abs(row.z) for row in calibration if row.z is not None]
    return {
        kind: {
            **{status: counts[kind][status] for status in ("ok", "failed", "unknown")},
            **({"max_abs_z": max(known, default=None)} if kind == "calibration" else {}),
            "unknown_rows": unknown[kind],
        }
        for kind in counts
    }


def check_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of the table checks, each with the key `record` that names its record."""
    table = read_checks(path)
    labels = run_labels(table).tolist()
    return [
        {**{str(key): value for key, value in row.items()}, "record": label}
        for row, label in zip(table.to_dict("records"), labels, strict=True)
    ]


def _parse(path: Path, line: int, row: dict[str, str]) -> CalibrationRow:
    try:
        whole = {name: int(row[name]) if row[name] else None for name in ("drafts", "requests")}
        real = {name: float(row[name]) if row[name] else None for name in ("exact", "measured", "standard_error", "z")}
        return CalibrationRow.model_validate({**row, **whole, **real})
    except (TypeError, ValueError) as error:
        raise AnalysisError(f"{path}, line {line}: not a row of the calibration: {error}") from error


def _calibration_table(rows: list[CalibrationRow]) -> str:
    header = ("server", "run", "subject", "quantity", "exact", "measured", "z")
    body = []
    for row in rows:
        figures = (_digits(row.exact), _digits(row.measured), _digits(row.z, ".1f"))
        body.append((row.server, row.run, row.subject, row.quantity, *figures))
    return _table(f"{len(rows)} figures are not the exact ones:", header, body)


def _checks_table(rows: list[dict[str, Any]]) -> str:
    header = ("record", "check", "expected", "found", "unit")
    body = [
        (row["record"], row["check"], _digits(row["expected"], ".15g"), _digits(row["found"], ".15g"), row["unit"])
        for row in rows
    ]
    return _table(f"{len(rows)} cross-checks failed:", header, body)


def _digits(value: float | None, form: str = ".4f") -> str:
    return "unknown" if value is None or value != value else format(value, form)  # noqa: PLR0124


def _table(title: str, header: tuple[str, ...], body: Iterable[tuple[str, ...]]) -> str:
    lines = [header, *body]
    if len(lines) == 1:
        return ""
    widths = [max(len(str(line[column])) for line in lines) for column in range(len(header))]
    padded = [[str(cell).ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    return "\n".join([title, *("  ".join(cells).rstrip() for cells in padded)])
