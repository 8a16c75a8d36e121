"""The Markdown table of the coverage study from the rows of its csv: see interval_coverage.py."""

import numpy as np

Row = dict[str, str]

NEEDED, ENOUGH = 0.93, 0.97
# A statistic is part of the summary where this share of traffics has an interval, and not shown below the other.
OFTEN, SELDOM = 0.5, 0.02
TEXT = """# How often 95% intervals hold the truth

{traffics} simulated traffics of each kind and length; `python benchmarks/interval_coverage.py` writes this file and
coverage.csv, which also has the truths, standard errors and widths. Length is the number of intervals with at least
{min_drafts} drafts. All kinds have the published chances, spread and load; they differ in memory: none, one decay of 30 s
with weight 0.8, or two of 11 s and 300 s with weights 0.60 and 0.33, which is as near as two decays come to the published
autocorrelations.

An interval is given only where the data leave 20 effective blocks; else the answer is "too short". Coverage is over the
intervals that are given. Where few are, those are the traffics whose memory looked shorter than it is, and coverage is
low: the share of all traffics with a wrong interval is then the other thing to read.
{missing}
## Summary: statistics with an interval in at least {often:.0%} of the traffics

| memory | intervals | given, median | statistics | cover 93 to 97% | above | below 93% | median coverage | wrong, of all |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
{summary}

## Every statistic

Coverage in percent, in brackets the percent of traffics that have an interval. Below 93% is marked with !, and with !!
where that is more than two standard errors away. Names are those of `draftmeter.stats.interval_statistics.IntervalStatistics`.

{rows}
"""


def table(rows: list[Row], min_drafts: int, wanted: list[tuple[str, int]]) -> str:
    """The text: a summary of each kind and length, then every statistic. It names the `wanted` ones that `rows` lack."""
    cells = list(dict.fromkeys((row["kind"], int(row["intervals"])) for row in rows))
    names = list(dict.fromkeys(row["statistic"] for row in rows))
    by_place = {(row["kind"], int(row["intervals"]), row["statistic"]): row for row in rows}
    lacking = [f"{kind}, {length:,} intervals" for kind, length in wanted if (kind, length) not in cells]
    head = "| statistic | " + " | ".join(f"{kind}, {length:,}" for kind, length in cells) + " |"
    body = [head, "|---" + "|--:" * len(cells) + "|"]
    for name in names:
        shown = [_cell(by_place.get((*cell, name))) for cell in cells]
        if any(shown):
            body.append(f"| {name} | " + " | ".join(shown) + " |")
    return TEXT.format(
        traffics=" or ".join(sorted({row["traffics"] for row in rows})),
        min_drafts=min_drafts,
        often=OFTEN,
        missing=f"\nThis table is partial. Not yet run: {'; '.join(lacking)}.\n" if lacking else "",
        summary="\n".join(_summary(*cell, [row for name in names if (row := by_place.get((*cell, name)))]) for cell in cells),
        rows="\n".join(body),
    )


def _summary(kind: str, length: int, rows: list[Row]) -> str:
    often = [row for row in rows if float(row["given"]) >= OFTEN]
    covered = np.array([float(row["covered"]) for row in often])
    parts = [kind, f"{length:,}", f"{np.median([float(row['given']) for row in rows]):.0%}", str(len(often))]
    parts += [str(int(np.sum(part))) for part in ((covered >= NEEDED) & (covered <= ENOUGH), covered > ENOUGH, covered < NEEDED)]
    missed = np.array([float(row["missed"]) for row in often])
    parts += [f"{np.median(values):.1%}" if often else "" for values in (covered, missed)]
    return "| " + " | ".join(parts) + " |"


def _cell(row: Row | None) -> str:
    if row is None or float(row["given"]) < SELDOM:
        return ""
    covered, error = float(row["covered"]), float(row["standard_error"])
    mark = "" if covered >= NEEDED else "! " if covered + 2 * error >= NEEDED else "!! "
    return f"{mark}{100 * covered:.1f} ({100 * float(row['given']):.0f})"
