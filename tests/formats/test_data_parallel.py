"""Log and /metrics of a real vLLM 0.32.0 server with two data-parallel engines, as it stood after eight requests."""

from pathlib import Path

import pandas as pd

from draftmeter.cli import main

STORED = Path(__file__).parent / "data_parallel"
# What the eight replies themselves carried: drafts, accepted draft tokens.
REQUESTS = (512, 352)


def test_two_engines_are_kept_apart_and_add_up_in_log_and_counters(tmp_path: Path) -> None:
    assert main(["read", str(STORED), "--zone", "+00:00", "--out", str(tmp_path)]) == 0
    counters = pd.read_parquet(tmp_path / "counters.parquet")
    columns = ["engine", "drafts", "draft_tokens", "accepted", "accepted_1", "accepted_2", "accepted_3"]
    by_metrics, by_log = (counters[counters.counted_by == way][columns].reset_index(drop=True) for way in ("counters", "lines"))
    pd.testing.assert_frame_equal(by_metrics, by_log)
    assert list(by_metrics.engine) == ["all", "0", "1"]
    assert tuple(by_metrics.loc[0, ["drafts", "accepted"]]) == REQUESTS
    assert (by_metrics.iloc[1:, 1:].sum() == by_metrics.iloc[0, 1:]).all()


def test_every_interval_has_the_engine_line_before_it(tmp_path: Path) -> None:
    assert main(["read", str(STORED / "server.log"), "--zone", "+00:00", "--out", str(tmp_path)]) == 0
    intervals = pd.read_parquet(tmp_path / "intervals.parquet")
    assert list(intervals.engine) == ["0", "1", "0", "1", "0", "0"]
    assert list(intervals.running) == [2, 1, 2, 0, 1, 0]
    assert intervals.drafts_exact.all()
    assert set(intervals.window_s) == {2.0}
