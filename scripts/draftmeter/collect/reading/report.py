"""reading.json, and the lines for the user that follow from it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from draftmeter.collect.reading.inputs import Skipped


def text_of(described: Mapping[str, Any]) -> str:
    """One text for one reading: keys sorted, one value a line."""
    return json.dumps(described, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def remarks_on(files: Sequence[Mapping[str, Any]], skipped: Sequence[Skipped]) -> list[str]:
    """One line for each file that was not read whole or is odd, one for all without a time zone, one for all not read."""
    remarks = [f"{file['source']}: {'; '.join(found)}" for file in files if (found := list(_remarks(file)))]
    without_zone = [file["source"] for file in files if file["intervals"] and "zone" in _log(file).get("unknown", {})]
    if without_zone:
        more = f" and {len(without_zone) - 1} more logs" if len(without_zone) > 1 else ""
        remarks.append(f"{without_zone[0]}{more}: no time zone is named, times are read as UTC; --zone +01:00 would name one")
    if len(skipped) == 1:
        remarks.append(f"not read: {skipped[0].name}: {skipped[0].reason}")
    elif skipped:
        remarks.append(f"not read: {len(skipped)} files and folders, such as {skipped[0].name}: {skipped[0].reason}")
    return remarks


def _log(file: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is said of the source's log; empty without one."""
    log: Mapping[str, Any] = file if "refused_count" in file else file.get("log") or {}
    return log


def _remarks(file: Mapping[str, Any]) -> Iterable[str]:
    log = _log(file)
    if refused := log.get("refused_count"):
        first = log["refused"][0]
        yield f"{refused} records refused, the first at byte {first['offset']}: {first['reason']}"
    if file.get("damage"):
        yield file["damage"]
    warnings = [*file.get("warnings", []), *([] if log is file else log.get("warnings", []))]
    warnings = [warning for warning in warnings if not warning.endswith("were refused")]  # said above, with the first reason
    if warnings:
        more = f" (and {len(warnings) - 1} more warnings)" if len(warnings) > 1 else ""
        yield f"{warnings[0]}{more}"
