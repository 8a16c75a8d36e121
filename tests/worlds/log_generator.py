"""A seeded generator of vLLM logs with planted truth: wording x prefix x trouble.

`python tests/worlds/log_generator.py WORDING PREFIX TROUBLE [SEED]` prints the log of a case, for looking at a failure.
"""

import functools
import operator
import random
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import log_damages as damages
import log_noise as noise
from log_prefixes import PREFIXES, Line, Prefix, Printed, broken_by_server, print_line
from log_truth import ENGINE_COLUMNS, Anything, Case, Must, Row
from log_wordings import WORDINGS, Counts, EngineNumbers, Wording, plant_counts, plant_row

ZONES = {"+00:00": 0, "+01:00": 60, "-08:00": -480, "+05:30": 330}
INTERVAL_S = 10
WINDOWS = 5

Damage = Callable[[list[Printed], random.Random], list[Printed]]


@dataclass(frozen=True)
class Trouble:
    """What is unusual about a log: its content or its transport (`damages`, and how it is written)."""

    start: str = "2031-11-30T05:11:42"
    steps: tuple[int, ...] = (INTERVAL_S,) * (WINDOWS - 1)  # seconds between the windows
    counts: tuple[str, ...] = ("usual",)
    processes: str = "one"  # "one", "one after another", "interleaved"
    engines: int = 1
    engine_lines: bool = True
    nan: bool = False
    lost: bool = False  # the last window has an Engine line only
    hostile: str | None = None
    glued: bool = False
    colours: bool = False
    broken: bool = False
    damages: tuple[Damage, ...] = ()
    written: str = "\n"  # the newline, or "JSON"
    year_known: bool = True  # False: near a time only
    cut: bool = False

    def __or__(self, other: "Trouble") -> "Trouble":
        """Both troubles at once; where they contradict each other, the other's."""
        default = Trouble()
        changed = {f.name: getattr(other, f.name) for f in fields(other) if getattr(other, f.name) != getattr(default, f.name)}
        changed["damages"] = tuple(damage for damage in damages.ORDER if damage in self.damages + other.damages)
        return replace(self, **changed)


DAY = 86_400
TROUBLES = {
    "none": Trouble(),
    "wrapped anywhere": Trouble(damages=(damages.wrap_hard,)),
    "wrapped at spaces": Trouble(damages=(damages.wrap_soft,)),
    "wrapped by the server": Trouble(broken=True),
    "tail of the file cut": Trouble(damages=(damages.tail_of_file,), cut=True),
    "tail of a line cut": Trouble(damages=(damages.tail_of_line,), cut=True),
    "head of the file cut": Trouble(damages=(damages.head_of_file,), cut=True),
    "heads of lines cut": Trouble(damages=(damages.head_of_lines,), cut=True),
    "ANSI colours": Trouble(colours=True),
    "progress bars": Trouble(glued=True),
    "whole log in JSON": Trouble(written="JSON"),
    "whole log in JSON, colours and bars": Trouble(written="JSON", colours=True, glued=True),
    "CR LF": Trouble(written="\r\n"),
    "time backwards": Trouble(steps=(10, 10, -3600, 10, 10)),
    "servers one after another": Trouble(processes="one after another"),
    "servers interleaved": Trouble(processes="interleaved"),
    "several engines": Trouble(engines=3),
    "nan": Trouble(nan=True, counts=("usual", "usual", "no draft tokens", "usual", "usual")),
    "midnight": Trouble(start="2031-11-30T23:59:35"),
    "New Year": Trouble(start="2031-12-31T23:59:35", year_known=False),
    "leap day": Trouble(start="2032-02-28T23:59:45", steps=(10, 10, DAY - 20, 10, 10)),
    "idle gaps": Trouble(steps=(10, 10, 1230, 10, 75, 10)),
    "last window lost": Trouble(lost=True),
    "without Engine lines": Trouble(engine_lines=False),
    "short drafts": Trouble(counts=("short drafts",)),
    "nothing and all accepted": Trouble(counts=("nothing accepted", "all accepted", "one draft", "usual")),
    "large counts": Trouble(counts=("large",)),
    "a line contradicts itself": Trouble(counts=("usual", "usual", "contradictory", "usual", "usual")),
    "prose and tables": Trouble(hostile="prose"),
    "logged prompts": Trouble(hostile="prompts"),
}


@dataclass
class _Server:
    """One process and its engines, while its log is written."""

    process: str
    k: int
    engines: int
    last: dict[int, datetime] = field(default_factory=dict)
    late: bool = False  # one line is late by a second; more would hide the interval


def make_case(wording_name: str, prefix_name: str, trouble_name: str, seed: int = 0) -> Case:
    """One log and its truth; the same names and seed give the same bytes. Several troubles are joined by " + "."""
    name = f"{wording_name} / {prefix_name} / {trouble_name} / {seed}"
    random_ = random.Random(zlib.crc32(name.encode()))
    wording, prefix = WORDINGS[wording_name], PREFIXES[prefix_name]
    trouble = functools.reduce(operator.or_, [TROUBLES[part] for part in trouble_name.split(" + ")])
    zone = random_.choice(list(ZONES))
    start = datetime.fromisoformat(trouble.start).replace(tzinfo=timezone(timedelta(minutes=ZONES[zone])))
    servers = _servers(prefix, trouble, random_)
    guessable = trouble.counts != ("short drafts",) and len(servers) == 1 and not trouble.nan
    known: dict[str, Any] = {"zone": zone, "k": servers[0].k if guessable and random_.random() < 0.3 else None}
    interval_known = random_.random() < 0.4
    known["log_interval_s"] = float(INTERVAL_S) if interval_known else None
    window = float(INTERVAL_S) if interval_known or prefix.header else None
    lines = _lines(_Plan(wording, prefix, trouble, random_, known["k"]), servers, start)
    for line in lines:
        if line.row is not None:
            _add_times(line, line.row, window, prefix.header, trouble.cut)
    known |= _known_year([line.time for line in lines], trouble, random_)
    case = _write(name, lines, prefix, trouble, random_)
    case.known, case.backwards = known, min(trouble.steps) < 0
    if wording.cumulative and not trouble.cut:
        case.cumulative = sum(line.marker is not None for line in lines)
    case.warnings = _warnings(trouble, prefix, wording, len(servers))
    return case


def _known_year(times: Sequence[datetime], trouble: Trouble, random_: random.Random) -> dict[str, Any]:
    """The file's date, a time near its beginning (both some minutes off) or the year of its first line."""
    near = {"near": times[-1].astimezone(UTC) + timedelta(minutes=random_.randint(0, 200))}
    near_start = {"near_start": times[0].astimezone(UTC) - timedelta(minutes=random_.randint(0, 200))}
    year = {"year": times[0].year}
    return random_.choice([near, near_start, year] if trouble.year_known else [near, near_start])


def _warnings(trouble: Trouble, prefix: Prefix, wording: Wording, servers: int) -> list[str]:
    """Words of the warnings that a reader owes; a log cut at random may have lost the reason for one."""
    if trouble.cut or wording.cumulative:
        return []
    reasons = {
        "backward": min(trouble.steps) < 0 and prefix.header,
        "several servers": servers > 1 and prefix.process is not None,
        "last": trouble.lost and trouble.engine_lines,
    }
    return [word for word, given in reasons.items() if given]


def _servers(prefix: Prefix, trouble: Trouble, random_: random.Random) -> list[_Server]:
    ks = random_.sample([1, 2, 3, 4, 5, 7, 15], 2)
    if trouble.counts == ("short drafts",):
        ks = [k + 1 for k in ks]
    pids = random_.sample(range(7, 400_000), 2)
    names = [prefix.process_name(number, pid) or "" for number, pid in enumerate(pids)]
    several = trouble.processes != "one" and not (trouble.processes == "interleaved" and prefix.process is None)
    return [_Server(name, k, trouble.engines) for name, k in zip(names, ks, strict=True)][: 2 if several else 1]


@dataclass(frozen=True)
class _Plan:
    """What the lines of one log have in common."""

    wording: Wording
    prefix: Prefix
    trouble: Trouble
    random: random.Random
    known_k: int | None


def _lines(plan: _Plan, servers: Sequence[_Server], start: datetime) -> list[Line]:
    trouble, times = plan.trouble, [start]
    for step in trouble.steps:
        times.append(times[-1] + timedelta(seconds=step))
    if trouble.processes == "one after another":
        later = timedelta(seconds=300) + (times[-1] - times[0])
        turns = [(time + later * number, server) for number, server in enumerate(servers) for time in times]
    else:
        turns = [(time, server) for time in times for server in servers]
    lines: list[Line] = []
    for index, (time, server) in enumerate(turns):
        lines += noise.ordinary(plan.random, time - timedelta(seconds=4), server.process)
        kind = trouble.counts[index % len(trouble.counts)]
        lost = trouble.lost and index == len(turns) - 1
        for engine in range(server.engines):
            lines += _window(plan, server, engine, time, kind, lost)
        if trouble.hostile:
            lines += noise.hostile(trouble.hostile, plan.random, time, server.process, plan.wording, plan.prefix.header)
    return lines


def _window(plan: _Plan, server: _Server, engine: int, time: datetime, kind: str, lost: bool) -> list[Line]:
    """The lines of one interval of one engine: the Engine line and its speculation line, with something between at times."""
    random_ = plan.random
    elapsed = max((time - server.last.get(engine, time - timedelta(seconds=INTERVAL_S))).total_seconds(), 10.0)
    server.last[engine] = time
    counts = plant_counts(random_, server.k, elapsed=elapsed + random_.choice([0.0, 0.002, 0.013]), kind=kind)
    row = plant_row(plan.wording, counts, plan.known_k)
    row.cells["process"] = server.process or None
    lines = []
    if plan.trouble.engine_lines:
        lines.append(_engine_line(plan, server, engine, time, row, lost))
    else:
        row.cells |= dict.fromkeys(ENGINE_COLUMNS)
        row.cells["extra"] = row.cells["extra"] if plan.wording.extra else None
    if random_.random() < 0.2:
        lines.append(noise.access(random_, time, server.process))
    if not lost:
        line = _speculation_line(plan, counts, row, time, server)
        if kind == "contradictory" and line.row is not None:
            _contradict(line, line.row)
        lines.append(line)
    if plan.trouble.glued and (len(lines) > 1 or random_.random() < 0.5):
        for line in random_.sample([line for line in lines if line.source is not None], 1):
            line.glued = "".join(random_.sample(damages.BARS, random_.randint(1, 3))) + random_.choice(["", "", "\r"])
    return lines


def _engine_line(plan: _Plan, server: _Server, engine: int, time: datetime, row: Row, lost: bool) -> Line:
    wording, trouble, random_ = plan.wording, plan.trouble, plan.random
    prefix_rate = random_.choice([f"{random_.uniform(0, 100):.1f}", "0.0", None])
    numbers = EngineNumbers(
        prompt=f"{random_.uniform(0, 3000):.1f}",
        generation=f"{random_.uniform(1, 2000):.1f}",
        running=random_.randint(1, 300),
        waiting=random_.choice([0, 0, 3, 641]),
        kv="nan" if trouble.nan and random_.random() < 0.3 else f"{random_.uniform(0, 100):.1f}",
        prefix="nan" if trouble.nan and random_.random() < 0.6 else prefix_rate,
    )
    label, name = wording.label, wording.engine_name
    if server.engines > 1 and not label.endswith("Aggregated"):
        label, name = f"Engine {engine:03d}", str(engine)
    row.cells |= {
        "engine": name,
        "running": numbers.running,
        "waiting": numbers.waiting,
        "prompt_tokens_per_s": float(numbers.prompt),
        "generation_tokens_per_s": float(numbers.generation),
        "kv_cache_usage": None if numbers.kv == "nan" else float(numbers.kv) / 100,
        "prefix_cache_hit_rate": None if numbers.prefix in (None, "nan") else float(numbers.prefix) / 100,
    }
    line = Line(wording.engine(label, numbers), time, server.process, wording.files[0], bracket=wording.bracket)
    return replace(line, engine_of=None if lost or wording.cumulative else row, mentions=True)


def _speculation_line(plan: _Plan, counts: Counts, row: Row, time: datetime, server: _Server) -> Line:
    wording = plan.wording
    line = Line(wording.speculation(counts), time, server.process, wording.files[1], bracket=wording.bracket)
    line.marker, line.mentions = wording.marker(), True
    if not wording.cumulative:
        # Nothing was drafted: whether that is an interval or no record at all is the reader's choice.
        line.row, line.must = row, Must.REPORTED if counts.drafted == 0 else Must.ROW
    if not server.late and plan.random.random() < 0.1:
        server.late = True
        line.time += timedelta(seconds=1)  # the second ended between the two lines
    return line


def _contradict(line: Line, row: Row) -> None:
    """Print half as many accepted tokens as every ratio of the line says."""
    accepted = row.cells["accepted"]
    line.body = line.body.replace(f": {accepted} tokens", f": {accepted // 2} tokens", 1)
    line.body = line.body.replace(f"accepted tokens: {accepted},", f"accepted tokens: {accepted // 2},", 1)
    anything = [column for column in row.cells if column.startswith("accepted_")]
    row.cells |= dict.fromkeys([*anything, "k", "drafts", "since_last_line_s"], Anything())
    row.cells |= {"accepted": accepted // 2, "drafts_exact": False, "accepted_k_exact": False}
    line.must, line.contradictory = Must.REPORTED, True


def _add_times(line: Line, row: Row, window: float | None, shown: bool, cut: bool) -> None:
    end = line.time.timestamp() if shown else None
    row.cells |= {"end": end, "window_s": window, "start": None if end is None or window is None else end - window}
    if cut:
        row.relax(["window_s", "start"])  # fewer lines may be left than the modal spacing needs


def _write(name: str, lines: Sequence[Line], prefix: Prefix, trouble: Trouble, random_: random.Random) -> Case:
    width = random_.choice([80, 100, 120])
    printed = []
    for number, line in enumerate(lines, start=1):
        if trouble.broken and prefix.repeats and not trouble.cut:
            printed.append(broken_by_server(line, prefix, 10 * number, width))
        else:
            printed.append(print_line(line, prefix, 10 * number, trouble.colours))
    for damage in trouble.damages:
        printed = damage(printed, random_)
    if trouble.written == "JSON":
        content, expected = damages.write_json(printed, random_)
    else:
        at_end = damages.tail_of_file not in trouble.damages and random_.random() < 0.9
        last = printed[-1].line.row
        if not at_end and last is not None and last.cells["accepted"] == 0:
            last.relax_tail()  # rates of zero add up to zero, however many more were cut
        content, expected = damages.write(printed, trouble.written, at_end)
    return Case(name, content, {}, expected)


if __name__ == "__main__":
    sys.stdout.buffer.write(make_case(*sys.argv[1:4], seed=int((*sys.argv, "0")[4]) if len(sys.argv) > 4 else 0).content)
