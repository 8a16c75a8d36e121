"""Durations as a person writes them: 90s, 29h, 1h30m."""

import re

_UNITS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_PART = r"(?:(?P<{unit}>[0-9]+(?:\.[0-9]+)?){unit})?"
_DURATION = re.compile("".join(_PART.format(unit=unit) for unit in _UNITS))


class DurationError(ValueError):
    """A text that is no duration: what was found, what would be right."""


def parse_duration(text: str) -> float:
    """Seconds of a duration: numbers with the units w, d, h, m, s in this order, each at most once
    ("1h30m", "0.5s").

    Raises :class:`DurationError` for anything else, a number without a unit and a duration of 0
    included.
    """
    match = _DURATION.fullmatch(text.strip())
    seconds = 0.0 if match is None else sum(float(match[unit] or 0) * size for unit, size in _UNITS.items())
    if seconds <= 0:
        raise DurationError(f"found {text!r}; expected a duration above 0 with its unit, such as 90s, 29h or 1h30m")
    return seconds


def show_duration(seconds: float) -> str:
    """Hours, minutes and whole seconds, "29:00:00"."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
