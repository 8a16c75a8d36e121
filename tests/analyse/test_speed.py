"""The speed-up of planted requests: its value by hand, and an interval that covers the truth as often as it says."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from chance import fits
from draftmeter.analyse.tables import Measured
from draftmeter.analyse.with_and_without import WithAndWithout, speed_facts
from draftmeter.facts import Fact


def side(server: str, prompts: list[str], tokens: list[float], seconds: list[float]) -> pd.DataFrame:
    """Requests sent one after the other, their first token a quarter of the time after."""
    ends = np.cumsum(seconds)
    return pd.DataFrame(
        {
            **{"server": server, "boot": "boot-1", "attempt": 1, "run": "run"},
            "request_id": [f"run-{number}" for number in range(len(prompts))],
            "prompt_sha256": prompts,
            "t_sent": ends - seconds,
            "t_first": ends - 0.75 * np.asarray(seconds),
            "t_last": ends,
            "paused_s": 0.0,
            "reply_tokens": tokens,
            "error": None,
        }
    )


def facts(speculating: pd.DataFrame, baseline: pd.DataFrame) -> dict[str, Fact]:
    found = speed_facts([WithAndWithout(Measured("code"), 1, speculating, baseline, greedy=False, unlike=None)], 0.95)
    return {key.removeprefix("code.streams_1."): fact for key, fact in found.items()}


def test_by_hand() -> None:
    prompts = [f"{number}" for number in range(8)]
    tokens, seconds = [10.0, 20.0] * 4, [1.0, 1.0] * 4
    slower = [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 3.0]
    found = facts(side("s", prompts, tokens, seconds), side("b", prompts, [15.0] * 8, slower))
    assert found["speed_with"].value == 15 and found["speed_without"].value == pytest.approx(120 / 17)
    speedup = found["speedup"]
    assert speedup.value == pytest.approx(17 / 8) and (speedup.n, speedup.n_unit) == (8, "prompts")
    # Taylor series of the log: residuals of each prompt over the means, both sides in one.
    residuals = np.array(tokens) / 15 - np.array(seconds) - (1 - np.array(slower) / (17 / 8))
    half = stats.t.ppf(0.975, 7) * math.sqrt(8 / 7 * (residuals**2).sum()) / 8
    assert speedup.low is not None and speedup.high is not None
    assert (math.log(speedup.low), math.log(speedup.high)) == pytest.approx((math.log(17 / 8) - half, math.log(17 / 8) + half))
    assert found["tokens_per_s_ratio"].value == pytest.approx(17 / 8)
    assert found["first_token_s_with"].value == pytest.approx(0.25)
    assert found["first_token_s_without"].value == pytest.approx(17 / 8 / 4)


@pytest.mark.parametrize(("paused", "told"), [(0.04, True), (0.06, False), (math.nan, True)])
def test_a_side_that_stood_still_tells_nothing_of_speculation(paused: float, told: bool) -> None:
    prompts = [f"{number}" for number in range(8)]
    speculating, baseline = side("s", prompts, [10.0] * 8, [1.0] * 8), side("b", prompts, [10.0] * 8, [2.0] * 8)
    baseline["paused_s"] = paused * 2.0
    found = facts(speculating, baseline)
    assert found["speedup"].value == pytest.approx(2) and (found["speedup"].low is not None) is told
    assert found["paused_share_without"].value == (None if math.isnan(paused) else pytest.approx(paused))
    if not told:
        assert "stood still for 0% of the time with speculation and 6% without it" in (found["speedup"].unknown or "")


def test_no_tokens_are_no_speed() -> None:
    prompts = [f"{number}" for number in range(8)]
    found = facts(side("s", prompts, [0.0] * 8, [1.0] * 8), side("b", prompts, [5.0] * 8, [1.0] * 8))
    assert found["speedup"].value is None and found["speedup"].unknown == "no token was generated on one side"


def test_the_interval_covers_the_truth() -> None:
    rng = np.random.default_rng(11)
    prompts = [f"{number // 2:02d}" for number in range(80)]
    covered, unpaired_width, widths, replicates = 0, [], [], 200
    for _ in range(replicates):
        # The pace is the prompt's own on both sides; lengths are drawn anew, as sampling does.
        pace = np.repeat(np.exp(0.5 * rng.normal(size=40)), 2)
        frames = []
        for server, rate in (("s", 34.0), ("b", 20.0)):
            tokens = rng.integers(20, 200, size=80)
            frames.append(side(server, prompts, tokens, tokens / (rate * pace * np.exp(0.2 * rng.normal(size=80)))))
        found = facts(*frames)
        low, high = found["speedup"].low, found["speedup"].high
        assert low is not None and high is not None
        covered += low <= 1.7 <= high
        widths.append(math.log(high / low))
        logs = [
            math.log(fact.high / fact.low) for fact in (found["speed_with"], found["speed_without"]) if fact.low and fact.high
        ]
        unpaired_width.append(math.hypot(*logs))
    assert fits(covered, replicates, least=0.92, most=0.97)
    assert np.mean(widths) < 0.8 * np.mean(unpaired_width)
