"""What happens to logs on their way: each damage changes the file's text, and the truth with it."""

import json
import random
import re
from collections.abc import Sequence

from log_prefixes import Printed, escape
from log_truth import ENGINE_COLUMNS, TIME_COLUMNS, Expected, Must

BARS = (
    "\rProcessed prompts:   0%|          | 0/8 [00:00<?, ?it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]",
    "\rProcessed prompts:  50%|█████     | 4/8 [00:05<00:05,  1.31s/it, est. speed input: 12.41 toks/s, output: 99.07 toks/s]",
    "\rCapturing CUDA graphs (decode, FULL): 100%|██████████| 51/51 [00:01<00:00, 33.44it/s]",
)


def _records(printed: Sequence[Printed]) -> list[int]:
    return [index for index, item in enumerate(printed) if item.marker_at is not None]


def _counts_kept(item: Printed, kept: str) -> bool:
    """True if both counts and the character after each are still there."""
    assert item.line.row is not None
    accepted, drafted = item.line.row.cells["accepted"], item.line.row.cells["drafted"]
    return all(
        re.search(rf"(?<!Total )(?:{key}): {count}[ ,]", kept)
        for key, count in (("Accepted|Number of accepted tokens", accepted), ("Drafted|Number of draft tokens", drafted))
    )


def _lose_tail(item: Printed, length: int) -> None:
    kept = item.text[:length]
    item.text = kept
    if item.line.engine_of is not None:
        item.line.engine_of.relax(ENGINE_COLUMNS)
    if item.line.row is None:
        item.must = Must.NOTHING
        return
    item.line.row.relax_tail()
    if item.marker_at is None or len(kept) <= item.marker_at + len(item.line.marker or ""):
        item.must = Must.ALLOWED
    elif not _counts_kept(item, kept) or item.json:
        item.must = Must.REPORTED


def _lose_head(item: Printed, length: int) -> None:
    inner = item.inner_at + len(escape(item.line.glued) if item.json else item.line.glued)
    item.text = item.text[length:]
    for row, columns in ((item.line.row, ()), (item.line.engine_of, ENGINE_COLUMNS)):
        if row is None:
            continue
        row.relax(columns)
        if length > inner and item.line.row is not None:
            row.relax(["process"])
        if length > inner and item.line.engine_of is not None:
            row.relax(ENGINE_COLUMNS)
        if item.stamp_at is not None and length > item.stamp_at:
            row.relax(TIME_COLUMNS)
    if item.line.row is None:
        return
    if item.marker_at is None or length > item.marker_at:
        item.must = Must.ALLOWED
    elif item.json or 0 < length < inner or "\x1b" in item.text:
        item.must = Must.REPORTED
    item.inner_at -= length
    item.marker_at = None if item.marker_at is None or length > item.marker_at else item.marker_at - length


def tail_of_file(printed: list[Printed], random_: random.Random) -> list[Printed]:
    """The file ends within its last statistics line."""
    last = _records(printed)[-1]
    _lose_tail(printed[last], _within_body(printed[last], random_))
    return printed[: last + 1]


def tail_of_line(printed: list[Printed], random_: random.Random) -> list[Printed]:
    """One statistics line lost its end; the next lines are whole."""
    item = printed[random_.choice(_records(printed)[:-1])]
    _lose_tail(item, _within_body(item, random_))
    return printed


def _within_body(item: Printed, random_: random.Random) -> int:
    return random_.randint(min((item.marker_at or 0) + 1, len(item.text) - 1), len(item.text) - 1)


def head_of_file(printed: list[Printed], random_: random.Random) -> list[Printed]:
    """The file begins within a statistics line."""
    records = _records(printed)
    first = records[random_.randrange(len(records) // 2)]
    item = printed[first]
    if item.line.row is not None:
        for column in ENGINE_COLUMNS:
            item.line.row.cells[column] = None
    _lose_head(item, random_.randint(1, len(item.text) - 20))
    return printed[first:]


def head_of_lines(printed: list[Printed], random_: random.Random) -> list[Printed]:
    """Every line lost the same number of characters at its beginning, at most up to the file name in brackets."""
    item = printed[_records(printed)[0]]
    stamp = item.stamp_at if item.stamp_at is not None else item.inner_at
    length = random_.choice([2, item.inner_at + 1, item.inner_at + 3, stamp, stamp + 2, stamp + 6, stamp + 15])
    for one in printed:
        _lose_head(one, min(length, len(one.text)))
    return printed


def wrap_hard(printed: list[Printed], random_: random.Random) -> list[Printed]:
    """Broken at a width, wherever it falls, even inside a field name or number; nothing is lost."""
    width = random_.choice([60, 80, 97, 120, 200])
    for item in printed:
        _break(item, [item.text[at : at + width] for at in range(0, len(item.text), width)])
    return printed


def wrap_soft(printed: list[Printed], random_: random.Random) -> list[Printed]:
    """Broken at spaces, which are lost."""
    width = random_.choice([70, 80, 100, 120, 160])
    for item in printed:
        parts, left = [], item.text
        while len(left) > width:
            at = left.rfind(" ", len(left) - len(left.lstrip()) + 1, width + 1)
            if at <= 0:
                break
            parts.append(left[:at])
            left = left[at + 1 :]
        _break(item, [*parts, left])
    return printed


def _break(item: Printed, parts: Sequence[str]) -> None:
    item.text = "\n".join(parts)
    if item.must is Must.REPORTED and (item.line.marker or "") not in item.text:
        item.must = Must.ALLOWED  # neither its name nor its counts are whole


# What is lost is lost before a line is broken.
ORDER = (tail_of_file, tail_of_line, head_of_file, head_of_lines, wrap_hard, wrap_soft)


def write(printed: Sequence[Printed], newline: str = "\n", last: bool = True) -> tuple[bytes, list[Expected]]:
    """The bytes of the file, and its records with their places; `last`: the file ends with a newline."""
    content, expected = bytearray(), []
    for index, item in enumerate(printed):
        start = len(content)
        content += item.text.encode()
        expected.append(_expected(item, start, len(content)))
        if last or index < len(printed) - 1:
            content += newline.encode()
    return bytes(content), expected


def write_json(printed: Sequence[Printed], random_: random.Random) -> tuple[bytes, list[Expected]]:
    """The whole file as one JSON string, alone or as the value of a key."""
    before, after = random_.choice([('"', '"'), ('{"logs": "', '"}'), ('{"status": 200, "log": "', '", "truncated": false}\n')])
    ascii_only = random_.random() < 0.5
    content, expected = bytearray(before.encode()), []
    for item in printed:
        start = len(content)
        content += json.dumps(item.text + "\n", ensure_ascii=ascii_only)[1:-1].encode()
        expected.append(_expected(item, start, len(content)))
    return bytes(content) + after.encode(), expected


def _expected(item: Printed, start: int, end: int) -> Expected:
    mentions = item.line.mentions or item.line.marker is not None or item.line.engine_of is not None
    return Expected(start, end, item.text, item.must, item.line.row, mentions, item.line.contradictory)
