"""Statistics lines of a log that is just being written: what is kept of it, and that nothing else is."""

import re

from draftmeter.formats.log.pairs import BETWEEN, State
from draftmeter.formats.log.records import NAME, read_text
from draftmeter.formats.log.scan import WORDS
from draftmeter.formats.log.window import Line
from draftmeter.formats.log.wordings import ENGINE, NEW, OLD

# The source file in brackets is part of the pattern: a logged prompt may hold any text, even a whole line such as
# these, but it is printed by another source file.
_LINE = re.compile(
    r"(?:\([^()]*pid=\d+\) )?(?:INFO|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d \[(?:[\w.]+/)*(?:"
    r"loggers\.py:\d+\] (?:Engine \d+: |\d+ Engines Aggregated: )(?=Avg prompt throughput: )|"
    r"metrics\.py:\d+\] SpecDecoding metrics: )"
    r"[^\r\n]+\s*\Z"
)
# Of keys that are not known, only those that are made of the words of statistics, with a number.
_WORDS = (
    b"Accepted|Acceptance|Active|Average|Avg|Bonus|By|Current|Depth|Draft|Drafted|Drafter|Drafts|Efficiency|Emitted|Generated|"
    b"Generation|K|Latency|Length|Max|Mean|Method|Min|Model|Num|Number|Of|Per|Position|Proposed|Rate|Rejected|Request|Requests|"
    b"Sequence|Speculation|Speculative|Step|Steps|System|Target|Throughput|Time|Token|Tokens|Total|Verification|Verified|Window"
)
_PLAIN_PAIR = re.compile(
    rb"(?:W)(?: (?:W)){0,5}: -?\d{1,15}(?:\.\d{1,9})?(?:%| tokens/s| tokens| reqs| ms| s)?".replace(b"W", _WORDS),
    re.IGNORECASE,
)
_ENDS = (b",", b".")


def is_statistics_line(line: str) -> bool:
    """True for an Engine or SpecDecoding line as the statistics logger prints it, and for nothing else in a log."""
    return ("SpecDecoding metrics: " in line or "Avg prompt throughput: " in line) and _LINE.match(line) is not None


def statistics_text(line: str) -> str | None:
    """The statistics record of a line, whatever stands before it: its head and its "key: number" pairs, nothing else.

    None if the line holds no whole record that the statistics logger printed. What no key has ever been (a prompt, a
    reply) is never in it, nor the names of containers and hosts.
    """
    text = line.rstrip("\r\n").encode(errors="replace")
    at = min((at for at in map(text.find, WORDS) if at >= 0), default=-1)
    if at < 0:
        return None
    attempt = read_text(text, at, Line(0, len(text)))
    if attempt.record is None or attempt.head is None or attempt.state is not State.WHOLE:
        return None
    printed = attempt.printed.text
    head = b"" if attempt.head.cut else printed[attempt.head.outer.length : attempt.name_at]
    match = NAME.match(printed, attempt.name_at)
    if match is None:
        return None
    first, pairs = match[0], printed[match.end() :].rstrip()
    grammar = ENGINE if not match["name"] else OLD if first.startswith(b"Speculative") else NEW
    end = next((end for end in _ENDS if pairs.endswith(end)), b"")
    parts = [part for part in BETWEEN.split(pairs.removesuffix(end)) if grammar.holds(part) or _PLAIN_PAIR.fullmatch(part)]
    return (head + first + b", ".join(parts) + end).decode()
