"""Intervals from resampled sums: scales, joint variation, boots, and what is too short."""

import numpy as np
import pytest

from chance import fits
from draftmeter.stats.blocks import Blocks, plan_blocks
from draftmeter.stats.resample import FISHER, FRACTION, LOG, PLAIN, Scale, Sums, joint_estimates


def mean_part(blocks: Blocks, x: np.ndarray, scale: Scale = PLAIN, name: str = "mean") -> Sums:
    sums = blocks.sums(np.column_stack([np.ones(len(x)), x]))
    function = lambda s: (s[:, 1] / s[:, 0])[:, None]  # noqa: E731
    return Sums((name,), (float(x.mean()),), (scale,), sums, function, sums[:, :1])


def even_blocks(lines: int, boot: np.ndarray | None = None) -> Blocks:
    """Blocks of lines that are known to remember nothing; of drawn ones, one series in fifty seems too short."""
    return plan_blocks(np.ones(lines), boot)


def test_independent_lines_give_the_t_interval_of_the_mean() -> None:
    rng = np.random.default_rng(0)
    blocks = even_blocks(2000)
    errors = []
    for number in range(40):
        x = rng.normal(10, 2, 2000)
        (found,) = joint_estimates(blocks, [mean_part(blocks, x)], 0.95, 400, number)
        one = found.estimates["mean"]
        assert one.value == pytest.approx(x.mean()) and one.n == 2000 and "top level" not in one.method
        assert one.high - one.value == pytest.approx(one.value - one.low)
        assert 2.0 < (one.high - one.value) / one.standard_error < 2.3
        assert "400 stationary bootstraps in blocks of 100 lines" in one.method
        errors.append(one.standard_error)
    # Each rests on twenty blocks, and a sixth of it is luck: 0.13 are five standard errors of their mean. They are 0.04 low.
    assert np.mean(errors) == pytest.approx(2 / np.sqrt(2000), rel=0.17)


def test_scales_keep_an_interval_where_the_figure_can_be() -> None:
    rng = np.random.default_rng(2)
    x = np.abs(rng.normal(0.02, 0.2, 300))
    blocks = even_blocks(300)
    parts = [
        mean_part(blocks, x / x.max(), FRACTION, "f"),
        mean_part(blocks, x, LOG, "l"),
        mean_part(blocks, 0.9 + 0 * x, FISHER, "z"),
    ]
    found = {name: one for joint in joint_estimates(blocks, parts, 0.95, 500, 3) for name, one in joint.estimates.items()}
    assert 0 <= found["f"].low < found["f"].value < found["f"].high <= 1
    assert found["l"].low > 0
    assert found["l"].high / found["l"].value == pytest.approx(found["l"].value / found["l"].low)
    assert found["z"].high == pytest.approx(0.9)


def test_covariance_of_a_part_holds_what_its_figures_share() -> None:
    x = np.random.default_rng(4).normal(size=1500)
    blocks = even_blocks(1500)
    sums = blocks.sums(np.column_stack([np.ones(1500), x]))
    part = Sums(
        ("a", "b"),
        (float(x.mean()), float(-2 * x.mean())),
        (PLAIN, PLAIN),
        sums,
        lambda s: (s[:, 1] / s[:, 0])[:, None] * [1.0, -2.0],
        np.repeat(sums[:, :1], 2, axis=1),
    )
    (joint,) = joint_estimates(blocks, [part], 0.95, 1000, 5)
    a, b = joint.estimates["a"].standard_error, joint.estimates["b"].standard_error
    assert b == pytest.approx(2 * a)
    assert joint.covariance[0, 1] == pytest.approx(-a * b)
    assert joint.freedom.shape == (2,)


def test_boots_that_differ_widen_the_interval_and_alike_ones_do_not() -> None:
    rng = np.random.default_rng(6)
    boot = np.repeat(np.arange(5), 400)
    alike = rng.normal(size=(5, 400))
    alike = (alike - alike.mean(axis=1, keepdims=True)).ravel()
    apart = alike + np.array([-1.0, -0.5, 0.0, 0.5, 1.0])[boot]
    results = []
    for x in (alike, apart):
        blocks = even_blocks(2000, boot)
        (joint,) = joint_estimates(blocks, [mean_part(blocks, x)], 0.95, 1000, 7)
        results.append(joint.estimates["mean"])
    assert "5 boots as the top level" in results[1].method
    # The means of five boots with standard deviation 0.79: 0.35, with four degrees of freedom.
    assert results[1].standard_error == pytest.approx(0.79 / np.sqrt(5), rel=0.15)
    assert results[1].freedom == 4
    assert results[0].standard_error < 0.06


def test_between_boot_variance_is_covered() -> None:
    # Six boots whose means vary as much as the mean of one boot does. Of 1,000 draws, 96% of the intervals held 0.
    rng = np.random.default_rng(8)
    boot = np.repeat(np.arange(6), 100)
    hits = 0
    for number in range(200):
        x = rng.normal(size=600) + 0.1 * rng.normal(size=6)[boot]
        blocks = even_blocks(600, boot)
        (joint,) = joint_estimates(blocks, [mean_part(blocks, x)], 0.95, 200, number)
        one = joint.estimates["mean"]
        hits += one.low <= 0 <= one.high
    assert fits(hits, 200, least=0.94)


def test_too_short_is_unknown_not_narrow() -> None:
    drifting = np.arange(400.0)
    blocks = plan_blocks(drifting)
    (joint,) = joint_estimates(blocks, [mean_part(blocks, drifting)], 0.95, 100, 0)
    one = joint.estimates["mean"]
    assert one.value is not None and one.low is None and one.standard_error is None and one.method == ""
    assert one.unknown.startswith("too short: ") and "at least 20 are needed" in one.unknown
    assert np.isnan(joint.covariance).all()


def test_undefined_figures_say_why() -> None:
    blocks = even_blocks(500)
    sums = blocks.sums(np.column_stack([np.ones(500), np.zeros(500)]))

    def part(value: float, function: object, presence: np.ndarray) -> Sums:
        return Sums(("a",), (value,), (PLAIN,), sums, function, presence)

    sometimes = part(1.0, lambda s: np.where(np.arange(len(s)) % 7, 1.0, np.nan)[:, None], sums[:, :1])
    never = part(float("nan"), lambda s: s[:, :1], sums[:, :1])
    empty = part(float("nan"), lambda s: s[:, :1], sums[:, 1:])
    reasons = [joint.estimates["a"].unknown for joint in joint_estimates(blocks, [sometimes, never, empty], 0.95, 100, 0)]
    assert reasons == ["no interval: undefined in some resamples", "undefined for these 500 lines", "no line to make it of"]


def test_the_same_seed_gives_the_same_interval() -> None:
    x = np.random.default_rng(11).normal(size=500)
    blocks = even_blocks(500)
    one, two, other = (joint_estimates(blocks, [mean_part(blocks, x)], 0.95, 100, seed)[0].estimates for seed in (1, 1, 2))
    assert one == two and one != other
    assert joint_estimates(blocks, [], 0.95, 100, 0) == ()
