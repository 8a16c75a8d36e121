"""Pooled figures with intervals from blocks of lines: those of the survey, and what shorter drafts would give."""

from dataclasses import replace

import numpy as np
import pytest
from simulated_study import as_lines, long_traffic

from draftmeter.stats.lines import Lines, LinesError, lines
from draftmeter.stats.pooled import pooled_names
from draftmeter.stats.pooled_lines import pooled_by_blocks
from draftmeter.stats.simulate import PUBLISHED_LIKE, Decay
from draftmeter.stats.survey import Settings, survey


def simulated(slots: int) -> Lines:
    return as_lines(long_traffic(replace(PUBLISHED_LIKE, decays=(Decay(0.6, 15.0),)), slots, np.random.default_rng(5)))


def test_pooled_figures_by_blocks_are_those_of_the_survey() -> None:
    log = simulated(6000)
    found = pooled_by_blocks(log, 500, 0.95, 300, 7)
    assert list(found.estimates) == [*pooled_names(3), "tokens_per_step_at_1", "tokens_per_step_at_2"]
    everything = survey(log, Settings(resamples=300, seed=7))
    for name in pooled_names(3):
        mine, theirs = found.estimates[name], everything.estimates[f"pooled.{name}"]
        assert mine.value == theirs.value
        assert mine.standard_error == pytest.approx(theirs.standard_error)  # the same resamples
    share = found.estimates["share_1"]
    shorter = found.estimates["tokens_per_step_at_1"]
    assert (shorter.value, shorter.low, shorter.high) == pytest.approx((1 + share.value, 1 + share.low, 1 + share.high))
    assert found.estimates["tokens_per_step_at_2"].value == pytest.approx(1 + share.value + found.estimates["share_2"].value)
    assert found.equality.p_value < 0.01


def test_pooled_figures_without_positions_or_lines() -> None:
    log = simulated(500)
    plain = lines(log.end, log.drafts, log.accepted, log.drafted, window_s=10.0)
    found = pooled_by_blocks(plain, 500, 0.95, 200, 7)
    assert list(found.estimates) == ["accepted_over_drafted", "tokens_per_step"]
    assert found.equality.unknown is not None
    with pytest.raises(LinesError, match="no line with a draft token"):
        pooled_by_blocks(lines([], [], [], [], window_s=10.0), 500, 0.95, 200, 7)
