"""Where logs come from: what stands before (and after) a line of the server, and where each piece of it begins."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from log_truth import Must, Row


@dataclass
class Line:
    """One line as a server's process prints it; `source` None: not by a logger, so without level, time and file."""

    body: str
    time: datetime  # in the zone of the log
    process: str
    source: str | None = None
    level: str = "INFO"
    bracket: str = "["
    marker: str | None = None  # of a statistics record
    row: Row | None = None
    must: Must = Must.NOTHING
    engine_of: Row | None = None  # the row that takes this Engine line's numbers
    mentions: bool = False  # the words of a statistics line stand in it
    contradictory: bool = False  # its counts and its ratios disagree
    glued: str = ""  # what a progress bar left on the same line


@dataclass
class Printed:
    """A line as it lies in the file, with the places (characters) where its pieces begin."""

    text: str
    line: Line
    inner_at: int = 0  # the server's own text
    stamp_at: int | None = None
    marker_at: int | None = None
    must: Must = Must.NOTHING
    json: bool = False


@dataclass(frozen=True)
class Prefix:
    """A source of logs; `outer(time, number)` stands before the line."""

    outer: Callable[[datetime, int], str] = lambda _time, _number: ""
    process: str | None = "APIServer"
    header: bool = True
    folder: tuple[str, str] = ("", "")  # before loggers.py and metrics.py
    json: Callable[[datetime], tuple[str, str]] | None = None  # what stands before and after the text in its JSON object
    repeats: bool = field(default=False)  # a line broken by the server's terminal has the outer prefix on every part

    def process_name(self, number: int, pid: int) -> str | None:
        """The name of a process in its lines' prefix, or None where the prefix has none."""
        return None if self.process is None else f"{self.process.format(number)} pid={pid}"


def _iso(time: datetime, digits: int, zone: str = "Z") -> str:
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{time.second * 16_771_337 % 10**9:09d}"[: 20 + digits] + zone


def _docker(time: datetime) -> tuple[str, str]:
    return '{"log":"', f'\\n","stream":"stderr","time":"{_iso(time, 9)}"}}'


def _structured(time: datetime) -> tuple[str, str]:
    return f'{{"timestamp": "{_iso(time, 3)}", "host": "gpu-7", "message": "', '"}'


PREFIXES = {
    "process": Prefix(),
    "no process": Prefix(process=None),
    "DP process": Prefix(process="APIServer_DP{}"),
    "folders": Prefix(process="ApiServer_{}", folder=("v1/metrics/", "v1/spec_decode/")),
    "none at all": Prefix(process=None, header=False),
    "compose": Prefix(lambda _t, _n: "vllm-1  | ", repeats=True),
    "container time": Prefix(lambda t, _n: _iso(t, 9) + " "),
    "Docker Desktop": Prefix(lambda t, _n: f"{t:%Y-%m-%d %H:%M:%S}.{t.second * 13 % 1000:03d} | "),
    "CRI": Prefix(lambda t, _n: _iso(t, 9) + " stdout F "),
    "journald": Prefix(lambda t, _n: f"{t:%b %d %H:%M:%S} gpu-7 vllm[4242]: ", repeats=True),
    "syslog": Prefix(lambda t, _n: f"<14>1 {_iso(t, 6)} gpu-7 vllm 4242 - - "),
    "grep -n": Prefix(lambda _t, n: f"{n}:"),
    "grep -n of files": Prefix(lambda _t, n: f"logs/server-1.log:{n}:", process=None),
    "indented": Prefix(lambda _t, _n: "    ", process=None, repeats=True),
    "JSON of docker": Prefix(json=_docker),
    "JSON message": Prefix(process="APIServer_DP{}", json=_structured),
    "several": Prefix(lambda t, n: f"  {n}:{t:%b %d %H:%M:%S} gpu-7 docker[77]: vllm-1  | "),
}

_CYAN, _GREEN, _GREY, _END, _PROCESS_END = "\x1b[0;36m", "\x1b[32m", "\x1b[90m", "\x1b[0m", "\x1b[0;0m"


def escape(text: str) -> str:
    """The text as it stands within a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _inner(line: Line, prefix: Prefix, colours: bool) -> tuple[str, int | None]:
    """The server's own text of a line, and where its time stands."""
    cyan, green, grey, end, process_end = (_CYAN, _GREEN, _GREY, _END, _PROCESS_END) if colours else ("",) * 5
    text = line.glued
    if prefix.process is not None:
        text += f"{cyan}({line.process}){process_end} "
    if line.source is None or not prefix.header:
        return (line.glued if line.source is not None else text) + line.body, None
    name, _, _rest = line.source.partition(".")
    folder = {"loggers": prefix.folder[0], "metrics": prefix.folder[1]}.get(name, "")
    text += f"{green}{line.level}{end} {grey}"
    stamp_at = len(text)
    text += f"{line.time:%m-%d %H:%M:%S}{end} {grey}{line.bracket}{folder}{line.source}]{end} "
    return text + line.body, stamp_at


def print_line(line: Line, prefix: Prefix, number: int, colours: bool = False) -> Printed:
    """The line as this source of logs stores it; `number` counts the lines of the file from 1."""
    inner, stamp_at = _inner(line, prefix, colours)
    outer, after = prefix.outer(line.time, number), ""
    if prefix.json is not None:
        outer, after = prefix.json(line.time)
        stamp_at = None if stamp_at is None else len(escape(inner[:stamp_at]))
        inner = escape(inner)
    text = outer + inner + after
    marker_at = None if line.marker is None else text.index(line.marker)
    stamp = None if stamp_at is None else len(outer) + stamp_at
    return Printed(text, line, len(outer), stamp, marker_at, line.must, prefix.json is not None)


def broken_by_server(line: Line, prefix: Prefix, number: int, width: int) -> Printed:
    """The line as a server's own terminal broke it: every part is stored like a line."""
    inner, stamp_at = _inner(line, prefix, False)
    parts = [inner[start : start + width] for start in range(0, len(inner), width)]
    outer = [prefix.outer(line.time, number + shift) for shift in range(len(parts))]
    printed = print_line(line, prefix, number)
    return replace(printed, text="\n".join(o + part for o, part in zip(outer, parts, strict=True)), stamp_at=stamp_at)
