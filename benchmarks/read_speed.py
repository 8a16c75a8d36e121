"""Times `draftmeter read` against `grep -cF "SpecDecoding metrics"` on the same warm log, as whole processes.

Usage: python benchmarks/read_speed.py [--megabytes 200 2000] [--one-in 500 25] [--repeats 3] [--library] [--folder DIR]
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

PATTERN = "SpecDecoding metrics"
START_S = 1.0  # what the start of the program may take, whatever it reads
STAMP = b"@@-@@ @@:@@:@@"
PROCESS = "(APIServer pid=71) "
APPLICATION = (
    "INFO @@-@@ @@:@@:@@ [async_llm.py:261] Added request chatcmpl-{n:032x}.",
    "INFO @@-@@ @@:@@:@@ [logger.py:39] Received request chatcmpl-{n:032x}: params: SamplingParams(n=1, temperature=0.7, "
    "top_p=0.95, top_k=20, min_p=0.0, seed=None, max_tokens=4096), prompt_token_ids: None, lora_request: None.",
    "WARNING @@-@@ @@:@@:@@ [protocol.py:58] The following fields were present in the request but ignored: {{'user'}}",
    "INFO @@-@@ @@:@@:@@ [loggers.py:199] Request chatcmpl-{n:032x} finished: 12 tokens",
)
LIBRARY = """
import sys
from datetime import UTC, datetime
from draftmeter.formats.log import Known, read_log
with open(sys.argv[1], "rb") as stream:
    reading = read_log(stream, Known(zone="+00:00", near=datetime(2031, 12, 1, tzinfo=UTC)))
    print(sum(batch.num_rows for batch in reading.batches()))
"""


@dataclass(frozen=True)
class Timing:
    """One process: wall and CPU seconds and peak memory in MB."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def write_log(path: Path, megabytes: int, one_in: int) -> int:
    """Write a log in which one line in `one_in` is a statistics line (Engine and speculation lines in turn); return the pairs."""
    random_ = random.Random(one_in)
    stretches = [_other_lines(random_, 2 * one_in - 2) for _ in range(64)]
    pairs = [_pair(random_) for _ in range(1009)]
    stamp, written, number = datetime(2031, 3, 1, tzinfo=UTC), 0, 0
    with path.open("wb", buffering=1 << 22) as stream:
        while written < megabytes * 1_000_000:
            stamp += timedelta(seconds=10)
            text = stretches[number % len(stretches)] + pairs[number % len(pairs)]
            written += stream.write(text.replace(STAMP, f"{stamp:%m-%d %H:%M:%S}".encode()))
            number += 1
    return number


def _other_lines(random_: random.Random, count: int) -> bytes:
    """Access lines, and one application line in five."""
    lines = []
    for _ in range(count):
        if random_.random() < 0.2:
            lines.append(PROCESS + random_.choice(APPLICATION).format(n=random_.getrandbits(128)))
        else:
            client = f"10.0.{random_.randint(0, 255)}.{random_.randint(1, 254)}:{random_.randint(1024, 65535)}"
            lines.append(f'{PROCESS}INFO:     {client} - "POST /v1/chat/completions HTTP/1.1" 200 OK')
    return "".join(f"{line}\n" for line in lines).encode()


def _pair(random_: random.Random) -> bytes:
    drafts = random_.randint(100, 9000)
    at = [int(drafts * random_.uniform(least, least + 0.1)) for least in (0.75, 0.55, 0.3)]
    rates = ", ".join(f"{n / drafts:.3f}" for n in at)
    head = PROCESS + "INFO @@-@@ @@:@@:@@ "
    return (
        f"{head}[loggers.py:335] Engine 000: Avg prompt throughput: {random_.uniform(0, 9000):.1f} tokens/s, "
        f"Avg generation throughput: {drafts / 4:.1f} tokens/s, Running: {random_.randint(1, 99)} reqs, Waiting: 0 reqs, "
        f"GPU KV cache usage: {random_.uniform(1, 90):.1f}%, Prefix cache hit rate: {random_.uniform(1, 90):.1f}%\n"
        f"{head}[metrics.py:120] SpecDecoding metrics: Mean acceptance length: {1 + sum(at) / drafts:.2f}, "
        f"Accepted throughput: {sum(at) / 10:.2f} tokens/s, Drafted throughput: {3 * drafts / 10:.2f} tokens/s, "
        f"Accepted: {sum(at)} tokens, Drafted: {3 * drafts} tokens, Per-position acceptance rate: {rates}, "
        f"Avg Draft acceptance rate: {sum(at) / (3 * drafts) * 100:.1f}%\n"
    ).encode()


def run(command: Sequence[str], output: Path) -> Timing:
    """Run one command with its output in a file (GNU grep stops early on /dev/null)."""
    with output.open("wb") as stream:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=stream)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)  # reaped above, for its own peak memory
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} exited with {process.returncode}")
    return Timing(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000)


def measure(path: Path, folder: Path, repeats: int, library: bool) -> list[tuple[Timing, Timing]]:
    """Run grep and the reader in turn on the warm file; return the pairs of timings."""
    grep = ["grep", "-cF", PATTERN, str(path)]
    read = [sys.executable, "-c", LIBRARY, str(path)]
    if not library:
        read = [str(Path(sys.executable).with_name("draftmeter")), "read", str(path), "--zone", "+00:00"]
        read += ["--out", str(folder / "tables")]
    run(["cat", str(path)], folder / "warm.out")
    (folder / "warm.out").unlink()
    return [(run(grep, folder / "grep.out"), run(read, folder / "read.out")) for _ in range(repeats)]


def table_row(one_in: int, megabytes: int, intervals: int, pairs: Sequence[tuple[Timing, Timing]]) -> str:
    """Medians over the pairs, and the largest peak."""
    ratio = statistics.median((reading.wall_s - START_S) / searching.wall_s for searching, reading in pairs)
    searches, readings = zip(*pairs, strict=True)
    seconds = [
        f"{statistics.median(getattr(timing, what) for timing in timings):.2f}"
        for timings in (searches, readings)
        for what in ("wall_s", "cpu_s")
    ]
    peak = max(timing.peak_mb for timing in readings)
    return f"| {one_in} | {megabytes} | {intervals} | {' | '.join(seconds)} | {ratio:.2f} | {peak:.0f} |"


def main() -> None:
    """Generate the logs in a temporary folder, measure, and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[200, 2000])
    parser.add_argument("--one-in", type=int, nargs="+", default=[500, 25], help="one line in so many is a statistics line")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--library", action="store_true", help="time the log reader alone, without the command's tables")
    parser.add_argument("--folder", type=Path, help="where the logs are generated (default: a temporary folder)")
    options = parser.parse_args()
    print(f"Ratio: (read - {START_S:.0f} s) / grep, median of {options.repeats} interleaved pairs on a warm file.\n")
    print("| one statistics line in | MB | intervals | grep (s) | grep CPU | read (s) | read CPU | ratio | peak (MB) |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    growth = []
    for one_in in options.one_in:
        seconds = []
        for megabytes in options.megabytes:
            with tempfile.TemporaryDirectory(dir=options.folder) as name:
                path = Path(name) / "server.log"
                intervals = write_log(path, megabytes, one_in)
                pairs = measure(path, Path(name), options.repeats, options.library)
            seconds.append(statistics.median(reading.wall_s for _, reading in pairs))
            print(table_row(one_in, megabytes, intervals, pairs), flush=True)
        growth.append(f"One in {one_in}: {options.megabytes[-1]} MB took {seconds[-1] / seconds[0]:.1f} times as long")
    print("\n" + "".join(f"{line} as {options.megabytes[0]} MB.\n" for line in growth), end="")


if __name__ == "__main__":
    main()
