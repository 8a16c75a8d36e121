"""Offsets from UTC, as a person or a record writes them: +01:00."""

import re

_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>[0-5]\d)")
# No zone of the earth is further from UTC.
LARGEST_UTC_OFFSET_S = 14 * 3600


def parse_utc_offset(text: str) -> int:
    """Seconds ahead of UTC of "+01:00" or "+0100"; "Z" and "UTC" are 0.

    Raises :class:`ValueError`, which says what was found and expected, for anything else and beyond 14 hours.
    """
    if text.upper() in {"Z", "UTC"}:
        return 0
    match = _OFFSET.fullmatch(text)
    offset_s = 60 * (60 * int(match["hours"]) + int(match["minutes"])) if match else 0
    if match is None or offset_s > LARGEST_UTC_OFFSET_S:
        raise ValueError(
            f"found {text!r}; expected an UTC offset such as +01:00 (names of zones change their offset over the year)"
        )
    return -offset_s if match["sign"] == "-" else offset_s


def utc_offset_text(ahead_s: int) -> str:
    """The UTC offset that is this many seconds (whole minutes) ahead of UTC, such as "+01:00"."""
    minutes = abs(ahead_s) // 60
    return f"{'-' if ahead_s < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
