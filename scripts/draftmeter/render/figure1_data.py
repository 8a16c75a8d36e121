"""The two tables behind Figure 1, read strictly: a missing column or a chance above 1 is an error."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from draftmeter.render.facts import RenderError


@dataclass(frozen=True)
class Chance:
    """Chance at one position in one group of intervals; a None is unknown."""

    fifth: int
    position: int
    chance: float | None
    low: float | None
    high: float | None
    equal_chances: float | None


def read_intervals(path: Path) -> list[float]:
    """Acceptance (a fraction) of each qualifying interval, from the column `acceptance`."""
    rows = _read_rows(path, ["acceptance"])
    values = [_fraction(path, line, "acceptance", row["acceptance"]) for line, row in rows]
    if None in values:
        raise RenderError(f"{path}: an interval without acceptance; a qualifying interval has drafts, so it has one")
    return [value for value in values if value is not None]


def read_fifths(path: Path) -> list[Chance]:
    """The chances of panel (b); empty cells are unknown."""
    columns = ["chance", "low", "high", "equal_chances"]
    chances = []
    for line, row in _read_rows(path, ["fifth", "position", *columns]):
        try:
            fifth, position = int(row["fifth"]), int(row["position"])
        except ValueError:
            raise RenderError(f"{path}, line {line}: fifth and position must be whole numbers; found {row}") from None
        if not 1 <= fifth <= 5 or position < 1:
            raise RenderError(f"{path}, line {line}: fifth must be 1 to 5 and position 1 or more; found {row}")
        chances.append(Chance(fifth, position, *(_fraction(path, line, name, row[name]) for name in columns)))
    return chances


def _read_rows(path: Path, columns: list[str]) -> list[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in columns if name not in (reader.fieldnames or [])]
            if missing:
                raise RenderError(f"{path}: no column {missing}; found {reader.fieldnames}; it is made by `analyse`")
            return list(enumerate(reader, start=2))
    except OSError as error:
        raise RenderError(f"{path}: cannot be read: {error.strerror}; it is made by the rule `analyse`") from error


def _fraction(path: Path, line: int, name: str, text: str) -> float | None:
    if text == "":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # The ends of an interval may lie a little outside 0 and 1; a share or a chance itself may not.
    if not math.isfinite(value) or (name not in {"low", "high"} and not 0 <= value <= 1):
        raise RenderError(f"{path}, line {line}, {name}: found {text!r}; a chance or share is a number from 0 to 1")
    return value
