"""Lines of a log as arrays: sorted, checked, and what follows from them."""

import numpy as np
import pytest

from draftmeter.stats.intervals import IntervalsError, interval_series


def test_lines_are_sorted_by_boot_series_and_time_and_those_without_drafts_left_out() -> None:
    found = interval_series(
        [30.0, 10, 20, 40, 50],
        [10.0, 20, 30, 0, 40],
        [15.0, 30, 45, 0, 60],
        [30.0, 60, 90, 0, 120],
        window_s=10,
        accepted_at=[[8, 7], [16, 14], [24, 21], [0, 0], [31, 29]],
        running=[1, 2, np.nan, 4, 5],
        series=["b", "a", "a", "a", "c"],
        boot=["second", "first", "first", "first", "first"],
    )
    assert found.end.tolist() == [10, 20, 50, 30]
    assert found.series.tolist() == [0, 0, 2, 1] and found.boot.tolist() == [0, 0, 0, 1]
    assert len(found) == 4 and found.k == 2
    assert found.acceptance == pytest.approx([0.5] * 4)
    assert found.tokens_per_step == pytest.approx([2.5] * 4)
    assert found.step_rate == pytest.approx([2, 3, 4, 1])
    assert found.at_least(30).tolist() == [False, True, True, False]
    assert np.isnan(found.running[1]) and found.interval_s() == 10


def test_what_is_unknown_stays_unknown() -> None:
    found = interval_series([1.0, 2], [np.nan, 10], [4.0, 9], [20.0, 20], window_s=[1.0, np.nan])
    assert found.k is None and found.interval_s() is None
    assert found.at_least(1).tolist() == [False, True]
    assert np.isnan(found.tokens_per_step[0]) and np.isnan(found.step_rate).all() and np.isnan(found.running).all()
    assert interval_series([1.0, 2], [5, 10], [4.0, 9], [20.0, 20], window_s=[1.0, 2.0]).interval_s() is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"accepted": [5.0, 31]}, "line 1: found 10 drafts, 30 drafted, 31 accepted"),
        ({"drafts": [31.0, 10]}, "line 0"),
        ({"drafts": [-1.0, 10]}, "line 0"),
        ({"accepted": [np.nan, 1]}, "accepted: found a value that is not finite"),
        ({"end": [np.inf, 1]}, "end: found a time"),
        ({"accepted_at": [[5, 6], [1, 1]]}, r"line 0: .*nor rise"),
        ({"accepted_at": [[5, 4], [11, 1]]}, r"line 1: .*nor rise"),
        ({"accepted_at": [[5, np.nan], [1, 1]]}, "give None"),
        ({"accepted_at": [5, 4]}, r"needs \(2, K\)"),
        ({"running": [1.0]}, r"running: found shape \(1,\)"),
        ({"boot": ["a"]}, r"boot: found shape \(1,\)"),
        ({"window_s": [1.0, 2, 3]}, r"window_s: found shape \(3,\)"),
    ],
)
def test_impossible_lines_are_refused(changed: dict, message: str) -> None:
    given = {"end": [1.0, 2], "drafts": [10.0, 10], "accepted": [5.0, 5], "drafted": [30.0, 30], "window_s": 10.0} | changed
    with pytest.raises(IntervalsError, match=message):
        interval_series(**given)
