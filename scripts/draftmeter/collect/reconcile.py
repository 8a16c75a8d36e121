"""The cross-checks of one record: three sources that must say the same, and identities of counts.

Counters are the truth for the server, per-request metrics for our requests, log lines for
intervals. Every residual is `found - expected`: counters above own requests are other clients,
lines below counters are missing log.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

from draftmeter.collect.columns import ALL_ENGINES, COUNTED_BY_COUNTERS, position_names, positions_of
from draftmeter.formats.counters import Counters, EngineReading, fallen
from draftmeter.record.run import Record, RequestRow

# 1 + accepted / drafts, computed in two orders, differs by a few units in the last place of a
# double.
ROUNDING = 1e-12
# Time stamps of lines have a resolution of one second.
STAMP_S = 1.0
FEWEST_LINES = 5
SAME_START, NO_FALL = OF_PROCESS = ("start time unchanged", "counters never fall")
"""The checks that both readings are of one server process."""
LINES_WITHIN, LINE_SPACING = "lines within the run", "spacing of lines is the log interval"
LINE_COUNTS = {"draft tokens": "draft_tokens", "accepted": "accepted"}
"""What log lines are compared in with counters, and its column."""
NO_LINE = "the log has no SpecDecoding line of this run"
_NO_DRAFT = "the server made no draft during the run"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a record.

    Unknown: `found`, `expected` or both are None, and `reason` says why.
    """

    check: str
    expected: float | None
    found: float | None
    residual: float | None
    unit: str
    tolerance: float
    status: Literal["ok", "failed", "unknown"]
    reason: str


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of one record: two readings with their difference, requests and intervals."""

    record: Record
    before: EngineReading
    after: EngineReading
    counts: Counters
    requests: Sequence[RequestRow]
    intervals: Sequence[Mapping[str, Any]]
    """Rows of the table intervals."""


def reconcile(sources: Sources) -> list[Check]:
    """All checks of a record, in a fixed order; without speculation those that need no drafts."""
    counts = sources.counts
    if not counts.k:
        return [*_check_process(sources), *_check_finished(sources), *_check_output(sources)]
    return [
        *_check_process(sources),
        *_check_identities(counts.drafts, counts.accepted, counts.accepted_per_position, _why_no_drafts(counts)),
        *_check_requests(sources),
        *_check_counters_against_requests(sources),
        *_check_counters_against_lines(sources),
        *_check_times_of_lines(sources),
    ]


def _check_process(sources: Sources) -> list[Check]:
    """That both scrapes read one server process."""
    before, after = sources.before, sources.after
    lower = fallen(before.counters, after.counters)
    return [
        _compare(
            SAME_START,
            before.start_time,
            after.start_time,
            "s",
            reason="the server shows no start time",
            cause="the server restarted between the scrapes",
        ),
        _compare(
            NO_FALL,
            0,
            len(lower),
            "counters",
            cause=f"{', '.join(lower)} fell: the server restarted between the scrapes, or their files were swapped",
        ),
    ]


def check_counts(row: Mapping[str, Any]) -> list[Check]:
    """The checks of a row of the table counters: what must hold within it, whoever counted."""
    drafted, accepted, drafts = row["draft_tokens"], row["accepted"], row["drafts"]
    above = None if drafted is None or accepted is None else max(0, accepted - drafted)
    at = [row[name] for name in position_names(positions_of(row))]
    reason = _NO_DRAFT
    if not at or None in at or drafts is None:
        reason = "drafts or positions are not known"
    elif not row["accepted_k_exact"]:
        reason = "the positions were recovered from rounded numbers"
    exact = at if reason == _NO_DRAFT else None
    return [
        _compare("accepted is no more than drafted", 0, above, "tokens", reason="a count is missing"),
        *_check_identities(drafts, accepted, exact, reason),
    ]


def _check_identities(drafts: int | None, accepted: int | None, at: Sequence[int] | None, reason: str) -> list[Check]:
    """What must hold within counts, whatever the server accepted.

    `reason` is why there is no mean, or no count at a position.
    """
    total = rises = mean_length = one_plus_shares = None
    if drafts is not None and at is not None:
        total = sum(at)
        rises = sum(later > earlier for earlier, later in pairwise([drafts, *at]))
        if drafts > 0 and accepted is not None:
            mean_length = 1 + accepted / drafts
            one_plus_shares = 1 + sum(count / drafts for count in at)
    return [
        _compare("accepted is the sum over positions", accepted, total, "tokens", reason=reason),
        _compare("shares do not rise", 0, rises, "positions", reason=reason),
        _compare(
            "one plus the shares is the mean length",
            mean_length,
            one_plus_shares,
            "tokens per step",
            tolerance=ROUNDING * (1 + len(at or ())),
            reason=reason,
        ),
    ]


def _why_no_drafts(counts: Counters) -> str:
    return "the counter of drafts fell" if counts.drafts is not None and counts.drafts < 0 else _NO_DRAFT


def _check_finished(sources: Sources) -> list[Check]:
    """That every request is there and finished."""
    rows = sources.requests
    finished = sum(row.error is None and row.finish_reason is not None for row in rows)
    return [
        _compare(
            "requests recorded",
            sources.record.requests,
            len(rows),
            "requests",
            reason="record.json has none",
            cause="requests.jsonl was cut short or changed after the run",
        ),
        # So many failures were let pass while the run was measured; each is a row with its error.
        _compare("requests finished without error", len(rows), finished, "requests", tolerance=sources.record.errors or 0),
    ]


def _check_requests(sources: Sources) -> list[Check]:
    """That every request finished, and that its per-request metrics are complete."""
    rows, k = sources.requests, sources.counts.k or 0
    histograms = [row.acceptance_histogram for row in rows if row.acceptance_histogram is not None]
    wrong_length = sum(len(histogram) != k + 1 for histogram in histograms)
    wrong_sum = sum(not _histogram_adds_up(row) for row in rows if row.acceptance_histogram is not None)
    reason = "no request carries an acceptance histogram"
    return [
        *_check_finished(sources),
        _compare("histograms without K + 1 counts", 0, wrong_length if histograms else None, "requests", reason=reason),
        _compare("histograms that do not add up", 0, wrong_sum if histograms else None, "requests", reason=reason),
    ]


def _histogram_adds_up(row: RequestRow) -> bool:
    histogram = row.acceptance_histogram or []
    return row.drafts == sum(histogram) and row.accepted_tokens == sum(n * count for n, count in enumerate(histogram))


def _check_counters_against_requests(sources: Sources) -> list[Check]:
    """The server's counters against the sums over our requests.

    Residuals above 0 are other clients.
    """
    counts, rows, k = sources.counts, _answered(sources), sources.counts.k or 0
    compare = partial(_compare_with_requests, sources)
    own_drafts, reason = _sum_over_requests(rows, lambda row: row.drafts)
    others = None
    drafts = counts.drafts or 0
    if own_drafts is not None and drafts > 0:
        others = (drafts - own_drafts) / drafts
    elif drafts <= 0:
        reason = _why_no_drafts(counts)
    most = [_most_tokens(row) for row in sources.requests if row.error is not None]
    some_failed = sum(most) / drafts if drafts > 0 else 0.0
    if _others(sources):
        others, reason = None, _others(sources)
    return [
        compare("drafts", counts.drafts, lambda row: row.drafts, "drafts"),
        compare("draft tokens", counts.draft_tokens, lambda row: row.draft_tokens, "tokens", each=k),
        compare("accepted", counts.accepted, lambda row: row.accepted_tokens, "tokens", more=k),
        *(
            compare(f"accepted at {position}", count, partial(accepted_at, k=position), "tokens")
            for position, count in enumerate(counts.accepted_per_position or (), start=1)
        ),
        *_check_output(sources),
        _compare("other clients' share of drafts", 0, others, "fraction", above=some_failed, reason=reason),
    ]


def _check_output(sources: Sources) -> list[Check]:
    """The server's counters of what left it against our requests."""
    counts, answered = sources.counts, _answered(sources)
    own = None if _others(sources) else len(answered)
    return [
        _compare_with_requests(sources, "generation tokens", counts.generation_tokens, lambda row: row.reply_tokens, "tokens"),
        _compare(
            "counters against requests: requests",
            own,
            counts.requests_finished,
            "requests",
            above=len(sources.requests) - len(answered),
            reason=_others(sources),
        ),
    ]


def _compare_with_requests(
    sources: Sources,
    name: str,
    found: int | None,
    of_row: Callable[[RequestRow], int | None],
    unit: str,
    *,
    each: int = 1,
    more: int = 0,
) -> Check:
    """Counts over the requests that were answered; one that failed may have got up to its limit.

    `each` is how many of the unit a token of the limit can stand for, `more` how many may be beyond it.
    """
    own, reason = _sum_over_requests(_answered(sources), of_row)
    if _others(sources):
        own, reason = None, _others(sources)
    above = sum(each * _most_tokens(row) + more for row in sources.requests if row.error is not None)
    return _compare(f"counters against requests: {name}", own, found, unit, above=above, reason=reason)


def _answered(sources: Sources) -> list[RequestRow]:
    return [row for row in sources.requests if row.error is None]


def _most_tokens(row: RequestRow) -> int:
    """How many tokens a request can have got, or drafts that its steps can have verified."""
    return row.max_tokens


def _others(sources: Sources) -> str:
    """Why counters and own requests cannot be compared, where the run is known to have had other clients."""
    others = sources.record.other_clients
    if others is None or not others.share:
        return ""
    return f"other clients took part: at least {others.share:.2%} of what the server did was theirs"


def accepted_at(row: RequestRow, k: int) -> int | None:
    """Drafts of a request of which at least k tokens were accepted; None without a histogram."""
    return None if row.acceptance_histogram is None else sum(row.acceptance_histogram[k:])


def _sum_over_requests(rows: Sequence[RequestRow], of_row: Callable[[RequestRow], int | None]) -> tuple[int | None, str]:
    values = [of_row(row) for row in rows]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None, f"{len(values) - len(known)} of {len(values)} requests carry no such count"
    return sum(known), ""


def _check_counters_against_lines(sources: Sources) -> list[Check]:
    """The sums over the log's intervals against the counters; residuals below 0 are missing log."""
    counts, intervals = sources.counts, sources.intervals
    counted = {"draft_tokens": counts.draft_tokens, "accepted": counts.accepted}
    summed = {"draft_tokens": sum(row["drafted"] for row in intervals), "accepted": sum(row["accepted"] for row in intervals)}
    return check_lines(counted, summed if intervals else {}, NO_LINE)


def check_lines(counters: Mapping[str, Any], lines: Mapping[str, Any], no_line: str) -> list[Check]:
    """Draft tokens and accepted tokens of log lines less those of counters.

    Both are rows of the table counters. `no_line` is why the lines do not say a number.
    """
    return [
        _compare(
            f"lines against counters: {what}",
            counters.get(column),
            lines.get(column),
            "tokens",
            reason=no_line if lines.get(column) is None else "there is no such counter, or several models have one",
        )
        for what, column in LINE_COUNTS.items()
    ]


def lines_against_counters(counters: Sequence[Mapping[str, Any]], lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same comparison for reading.json: both counts of tokens, and lines less counters.

    `unknown` is why there is no difference where there is none.
    """
    counted = _total([row for row in counters if row["counted_by"] == COUNTED_BY_COUNTERS])
    none = "there are no log lines with drafts" if not lines else "a log line does not say it, or those of several models do"
    checks = check_lines(counted, _total(lines), none)
    return {
        column: {
            "counters": _whole(check.expected),
            "lines": _whole(check.found),
            "difference": _whole(check.residual),
            "unknown": check.reason if check.status == "unknown" else None,
        }
        for column, check in zip(LINE_COUNTS.values(), checks, strict=True)
    }


def _total(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The row of all engines, if there is only one model."""
    totals = [row for row in rows if row["engine"] == ALL_ENGINES]
    return totals[0] if len(totals) == 1 else {}


def _whole(count: float | None) -> int | None:
    return None if count is None else int(count)


def _check_times_of_lines(sources: Sources) -> list[Check]:
    """That the log's clock and interval are those of the record.

    An interval without a draft leaves no line, so that only the smallest distance of lines can be
    one interval. Where it is larger, idle intervals may lie between all lines, or the server's
    interval is longer: that cannot be told apart.
    """
    record, times = sources.record, [interval["end"] for interval in sources.intervals]
    if record.clock_step_s is not None and abs(record.clock_step_s) > STAMP_S:
        reason = f"the machine's clock was set by {record.clock_step_s:+.1f} s during the run"
        unknown = partial(_compare, expected=None, found=None, reason=reason)
        return [unknown(LINES_WITHIN, unit="lines"), unknown(LINE_SPACING, unit="s", tolerance=STAMP_S)]
    outside = spacing = None
    reason = f"{len(times)} SpecDecoding lines; the distances between them need at least {FEWEST_LINES}"
    if times and record.end is not None:
        first, last = record.start.timestamp() - STAMP_S, record.end.timestamp() + STAMP_S
        outside = sum(not first <= time <= last for time in times)
    if len(times) >= FEWEST_LINES:
        spacing = min(later - earlier for earlier, later in pairwise(times))
    if spacing is not None and spacing > record.log_interval_s + STAMP_S:
        reason = f"the nearest two lines lie {spacing:g} s apart: idle intervals between all lines, or a longer log interval"
        spacing = None
    return [
        _compare(
            LINES_WITHIN,
            0,
            outside,
            "lines",
            reason=NO_LINE if record.end is not None else "record.json has no end",
            cause="the log is of another time, or its time zone is not the record's",
        ),
        _compare(
            LINE_SPACING,
            record.log_interval_s,
            spacing,
            "s",
            tolerance=STAMP_S,
            reason=reason,
            cause="the server's log interval is shorter than the record's",
        ),
    ]


def _compare(
    check: str,
    expected: float | None,
    found: float | None,
    unit: str,
    *,
    tolerance: float = 0.0,
    above: float = 0.0,
    reason: str = "",
    cause: str = "",
) -> Check:
    """`reason` explains a None, `cause` a difference; each is left out where it does not apply.

    `above` is by how much `found` may be larger besides the tolerance.
    """
    if expected is None or found is None:
        return Check(check, _float(expected), _float(found), None, unit, tolerance, "unknown", reason)
    residual = found - expected
    status: Literal["ok", "failed"] = "ok" if -tolerance <= residual <= tolerance + above else "failed"
    text = "" if status == "ok" else f"found {found:.15g}, expected {expected:.15g} {unit}" + (f": {cause}" if cause else "")
    return Check(check, float(expected), float(found), float(residual), unit, tolerance + above, status, text)


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)
