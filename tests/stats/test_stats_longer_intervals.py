"""Short intervals joined to longer ones: counts are kept, windows follow the clock, gaps hold nothing."""

from dataclasses import replace

import numpy as np
import pytest

from draftmeter.stats.intervals import IntervalSeries, IntervalsError, interval_series, joined_intervals
from draftmeter.stats.simulate import PUBLISHED_LIKE, simulate


def simulated(slots: int, **changes: object) -> IntervalSeries:
    server = replace(PUBLISHED_LIKE, **changes)
    traffic = simulate(server, slots, np.random.default_rng(5))
    return interval_series(
        traffic.end,
        traffic.drafts,
        traffic.accepted,
        traffic.drafted,
        window_s=server.interval_s,
        accepted_at=traffic.accepted_at,
        running=traffic.running,
    )


def test_windows_by_hand() -> None:
    # Two seconds each; the second and the last part of the first window, and the whole second one, had no draft.
    ends = np.array([2.0, 6.0, 8.0, 22.0, 30.0])
    drafts = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    at = np.column_stack([drafts, drafts / 2, drafts / 2])
    short = interval_series(100 + ends, drafts, 2 * drafts, 3 * drafts, window_s=2.0, accepted_at=at, running=[1, 2, 3, 4, 5])
    found = joined_intervals(short, 10.0)
    assert found.end.tolist() == [110, 130]
    assert found.drafts.tolist() == [60, 90]
    assert found.accepted.tolist() == [120, 180] and found.drafted.tolist() == [180, 270]
    assert found.accepted_at.tolist() == [[60, 30, 30], [90, 45, 45]]
    # The first window's last part has no line, so that nobody knows how many requests were running at its end.
    assert np.isnan(found.running[0]) and found.running[1] == 5
    assert found.interval_s() == 10.0


def test_series_are_not_joined_and_counts_are_kept() -> None:
    short = simulated(4000, interval_s=2.0)
    two = interval_series(
        np.concatenate([short.end, short.end + 3.0]),
        *(np.tile(column, 2) for column in (short.drafts, short.accepted, short.drafted)),
        window_s=2.0,
        accepted_at=np.tile(short.accepted_at, (2, 1)),
        series=np.repeat(["a", "b"], len(short)),
    )
    found = joined_intervals(two, 10.0)
    assert found.drafted.sum() == two.drafted.sum() and found.accepted_at.sum() == two.accepted_at.sum()
    first, second = (found.drafts[found.series == number] for number in (0, 1))
    assert first.tolist() == second.tolist()
    assert np.all(np.diff(found.end[found.series == 0]) > 9.9)


def test_jitter_of_the_stamps_moves_no_line_into_another_window() -> None:
    short = simulated(1000, interval_s=2.0)
    jitter = np.random.default_rng(0).uniform(-0.9, 0.9, len(short))
    jitter[0] = 0
    moved = interval_series(short.end + jitter, short.drafts, short.accepted, short.drafted, window_s=2.0)
    assert joined_intervals(moved, 10.0).drafts.tolist() == joined_intervals(short, 10.0).drafts.tolist()


def test_other_lengths_are_refused() -> None:
    short = simulated(100, interval_s=4.0)
    with pytest.raises(IntervalsError, match="only a whole part of 10 s"):
        joined_intervals(short, 10.0)
    with pytest.raises(IntervalsError, match="found None s"):
        joined_intervals(interval_series([1.0], [1.0], [1.0], [3.0], window_s=np.nan), 10.0)
    assert joined_intervals(short, 4.0).drafts.tolist() == short.drafts.tolist()
