"""All drafts pooled: the figures against their definitions, intervals by cluster, and the test of equal chances."""

import numpy as np
import pytest
from scipy import stats

from chance import fits
from draftmeter.stats.acceptance import (
    CountsError,
    chance_at,
    names_along_the_draft,
    share_through,
    shorter_drafts,
    tokens_per_step,
)
from draftmeter.stats.pooled import equality_test, pooled_by_cluster, pooled_names
from draftmeter.stats.ratios import clusters_of, ratio_of_sums, smooth_function_of_ratios
from pooled_figures import figures

AT = np.array([799.0, 646.0, 533.0])


def test_figures_are_those_of_the_definitions() -> None:
    found = figures(1000, AT)
    shares = [share.value for share in share_through(1000, AT)]
    chances = [chance.value for chance in chance_at(1000, AT)]
    checked = AT.sum() / (AT.sum() + 1000 - AT[-1])
    rate = AT.sum() / 3000
    assert [found[f"share_through_{k}"] for k in (1, 2, 3)] == pytest.approx(shares)
    assert [found[f"chance_{k}"] for k in (1, 2, 3)] == pytest.approx(chances)
    assert (found["rise_2"], found["rise_3"]) == pytest.approx((chances[1] - chances[0], chances[2] - chances[1]))
    assert found["chance_slope"] == pytest.approx(np.polyfit([1, 2, 3], chances, 1)[0])
    assert found["accepted_over_checked"] == pytest.approx(checked)
    assert found["tokens_per_step"] == pytest.approx(tokens_per_step(1000, AT.sum()).value)
    for name, a in (("first_position", shares[0]), ("checked", checked), ("accepted_over_drafted", rate)):
        formula = 1 + a + a**2 + a**3
        assert found[f"formula_{name}"] == pytest.approx(formula)
        assert found[f"formula_{name}_error"] == pytest.approx(formula / (1 + sum(shares)) - 1)
    a, *others = shares
    assert found["formula_last_terms_error"] == pytest.approx((a**2 + a**3) / sum(others) - 1)


def test_five_steps_of_four_drafts() -> None:
    found = figures(5, np.array([4.0, 3, 2, 1]))
    assert (found["accepted_over_drafted"], found["tokens_per_step"]) == (0.5, 3.0)
    assert found["accepted_over_checked"] == pytest.approx(10 / 14)  # four steps hold a rejection
    assert shorter_drafts([0.8, 0.6, 0.4, 0.2]) == pytest.approx((1.8, 2.4, 2.8, 3.0))


def test_shorter_drafts_refuse_rising_shares() -> None:
    with pytest.raises(CountsError, match="do not rise"):
        shorter_drafts([0.5, 0.6])
    with pytest.raises(CountsError, match="from 0 to 1"):
        shorter_drafts([1.2])


def test_one_position_and_none() -> None:
    assert "chance_slope" not in pooled_names(1) and "formula_last_terms_error" not in pooled_names(1)
    assert pooled_names(0) == ("accepted_over_drafted", "tokens_per_step")
    assert figures(10, np.array([5.0]))["chance_1"] == 0.5
    assert names_along_the_draft(0) == [] and names_along_the_draft(1) == ["chance_1"]


def test_an_unknown_chance_leaves_the_others_known() -> None:
    found = figures(10, np.array([0.0, 0, 0]))
    assert found["chance_1"] == 0 and np.isnan(found["chance_2"]) and np.isnan(found["chance_slope"])


def test_short_drafts_by_hand() -> None:
    # Steps that accept 0, 1, 2, 1, 0, 3 of 3, 3, 2, 1, 3, 3 tokens: the one of one token was never asked for a second.
    found = figures(6, [4, 2, 1], [6, 3, 1])
    assert [found[f"chance_{k}"] for k in (1, 2, 3)] == pytest.approx([4 / 6, 2 / 3, 1.0])
    assert (found["rise_2"], found["rise_3"]) == pytest.approx((0.0, 1 / 3), abs=1e-12)
    # Rejections are in three of the steps; the short drafts were accepted to their end.
    assert found["accepted_over_checked"] == pytest.approx(7 / 10)
    plain = figures(6, [4, 2, 1])
    assert [plain[f"chance_{k}"] for k in (1, 2, 3)] == pytest.approx([4 / 6, 2 / 4, 1 / 2])
    assert plain["accepted_over_checked"] == pytest.approx(7 / 12)
    same = {name for name in found if found[name] == plain[name]}
    assert {"share_through_1", "share_through_2", "share_through_3", "tokens_per_step", "formula_first_position"} <= same
    assert np.isnan(figures(2, [0, 0], [2, 0])["chance_2"])


def simulated(rng: np.random.Generator, clusters: int, chances: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Drafts and drafts by position of clusters whose chances differ."""
    drafts = rng.integers(20, 120, clusters)
    shift = rng.normal(0, 0.4, clusters)
    at, before = np.empty((clusters, len(chances))), drafts
    for position, chance in enumerate(chances):
        odds = np.log(chance / (1 - chance)) + shift
        before = rng.binomial(before, 1 / (1 + np.exp(-odds)))
        at[:, position] = before
    return drafts.astype(float), at


def test_intervals_are_those_of_the_linearised_ratio() -> None:
    drafts, at = simulated(np.random.default_rng(0), 80, (0.8, 0.8, 0.8))
    found = pooled_by_cluster(drafts, 3 * drafts, at, 0.95).estimates
    for name, expected in (
        ("accepted_over_drafted", ratio_of_sums(at.sum(axis=1), 3 * drafts, 0.95)),
        ("chance_2", ratio_of_sums(at[:, 1], at[:, 0], 0.95)),
        (
            "formula_first_position_error",
            smooth_function_of_ratios(
                at,
                drafts,
                lambda s: float(1 + s[0] + s[0] ** 2 + s[0] ** 3) / float(1 + s.sum()) - 1,
                lambda s: (
                    np.array([1 + 2 * s[0] + 3 * s[0] ** 2, 0, 0]) / (1 + s.sum())
                    - (1 + s[0] + s[0] ** 2 + s[0] ** 3) / (1 + s.sum()) ** 2
                ),
                0.95,
            ),
        ),
    ):
        assert (found[name].low, found[name].high) == pytest.approx((expected.low, expected.high), rel=1e-6)
        assert found[name].n == 80


def test_full_drafts_have_the_same_intervals_by_either_denominator() -> None:
    drafts, at = simulated(np.random.default_rng(3), 40, (0.8, 0.75, 0.7))
    eligible = np.column_stack([drafts, at[:, :-1]])
    plain, real = (pooled_by_cluster(drafts, 3 * drafts, at, 0.95, eligible_at=one) for one in (None, eligible))
    for name, one in plain.estimates.items():
        other = real.estimates[name]
        assert (other.value, other.low, other.high) == pytest.approx((one.value, one.low, one.high), rel=1e-6)
    assert real.equality.p_value == pytest.approx(plain.equality.p_value, rel=1e-6)


def test_short_drafts_have_the_interval_of_the_real_ratio_and_cover_the_chance() -> None:
    # Every draft may end after its first token, by a chance that has nothing to do with acceptance: 0.6 at each position.
    rng = np.random.default_rng(4)
    hits = short = 0
    for _ in range(300):
        drafts = rng.integers(20, 60, 50)
        first = rng.binomial(drafts, 0.6)
        eligible = rng.binomial(first, 0.8)
        second = rng.binomial(eligible, 0.6)
        at = np.column_stack([first, second]).astype(float)
        found = pooled_by_cluster(drafts, 2 * drafts, at, 0.95, eligible_at=np.column_stack([drafts, eligible])).estimates
        expected = ratio_of_sums(second, eligible, 0.95)
        assert (found["chance_2"].low, found["chance_2"].high) == pytest.approx((expected.low, expected.high), rel=1e-6)
        hits += found["rise_2"].low <= 0 <= found["rise_2"].high
        short += pooled_by_cluster(drafts, 2 * drafts, at, 0.95).estimates["chance_2"].high < 0.6
    assert fits(hits, 300, least=0.93, most=0.97) and short == 300


def test_rows_are_taken_together_by_cluster_and_boot() -> None:
    rng = np.random.default_rng(5)
    drafts, at = simulated(rng, 80, (0.8, 0.8, 0.8))
    prompt, boot = np.tile(np.arange(20), 4), np.repeat(np.arange(4), 20)
    found = pooled_by_cluster(drafts, 3 * drafts, at, 0.95, clusters_of(prompt, boot))
    expected = ratio_of_sums(at[:, 1], at[:, 0], 0.95, clusters_of(prompt, boot))
    one = found.estimates["chance_2"]
    assert (one.low, one.high) == pytest.approx((expected.low, expected.high), rel=1e-6) and one.n == 20
    assert found.equality.p_value is not None
    few = pooled_by_cluster(drafts, 3 * drafts, at, 0.95, clusters_of(np.tile(np.arange(40), 2), np.repeat([0, 1], 40)))
    assert few.estimates["chance_2"].value == one.value and few.estimates["chance_2"].low is None
    assert few.equality.unknown.startswith("no interval: 2 boots sent the same prompts")


def test_equal_chances_are_rejected_as_often_as_they_should_be_and_a_rise_is_found() -> None:
    rng = np.random.default_rng(1)
    p_values, naive = [], []
    for _ in range(400):
        # Clusters with one latent shift have equal chances on the whole only without it; the truth here is of the pool.
        drafts = rng.integers(20, 120, 60)
        at, before = np.empty((60, 3)), drafts
        for position in range(3):
            before = rng.binomial(before, rng.beta(16, 4, 60))
            at[:, position] = before
        test = pooled_by_cluster(drafts, 3 * drafts, at, 0.95).equality
        p_values.append(test.p_value)
        total = at.sum(axis=0)
        before_all = np.concatenate([[drafts.sum()], total[:-1]])
        naive.append(stats.chi2_contingency([total, before_all - total])[1])
    assert fits(int(np.sum(np.array(p_values) < 0.05)), 400, least=0.04, most=0.07)
    # Drafts as independent trials would see rises that are not there.
    assert np.mean(np.array(naive) < 0.05) > 0.2
    drafts, at = simulated(rng, 200, (0.7, 0.8, 0.85))
    risen = pooled_by_cluster(drafts, 3 * drafts, at, 0.95)
    assert risen.equality.p_value < 1e-6
    assert risen.estimates["rise_2"].low > 0.05 and risen.estimates["chance_slope"].low > 0.03
    assert risen.equality.freedom == (2, 198)


def test_what_cannot_be_known_is_unknown() -> None:
    one = pooled_by_cluster([10], [30], [[5, 2, 1]], 0.95)
    assert one.estimates["chance_1"].value == 0.5 and one.estimates["chance_1"].low is None
    assert "1 cluster" in one.equality.unknown
    nothing = pooled_by_cluster([10, 10], [30, 30], [[0, 0, 0], [0, 0, 0]], 0.95)
    assert nothing.estimates["chance_2"].value is None and "before a position" in nothing.estimates["chance_2"].unknown
    assert nothing.estimates["accepted_over_drafted"].value == 0
    assert "one position" in pooled_by_cluster([10, 12], [10, 12], [[5], [6]], 0.95).equality.unknown
    assert equality_test(np.zeros(2), np.zeros((2, 2)), 20).unknown == "the rises do not vary on their own"
    assert "too short" in equality_test(np.zeros(2), np.eye(2), 1).unknown


@pytest.mark.parametrize(
    ("drafts", "at", "message"),
    [
        ([10.0], [[5.0, 6, 1]], "rise along"),
        ([10.0], [[11.0, 6, 1]], "rise along"),
        ([np.nan], [[1.0, 1, 1]], "unknown"),
        ([10.0, 3], [[1.0, 1, 1]], r"needs \(n,\)"),
        ([10.0], [5.0], r"needs \(n,\)"),
    ],
)
def test_impossible_clusters_are_refused(drafts: list[float], at: list, message: str) -> None:
    with pytest.raises(CountsError, match=message):
        pooled_by_cluster(drafts, 3 * np.asarray(drafts), at, 0.95)


def test_impossible_denominators_are_refused() -> None:
    for eligible in ([[10.0, 5]], [[9.0, 6]], [[9.0, 1]], [[9.0]], [[np.nan, 5]]):
        with pytest.raises(CountsError, match="eligible_k"):
            pooled_by_cluster([9.0], [20.0], [[5.0, 2]], 0.95, eligible_at=eligible)
    with pytest.raises(CountsError, match="2 rows in clusters"):
        pooled_by_cluster([9.0], [20.0], [[5.0, 2]], 0.95, clusters_of([0, 1]))
