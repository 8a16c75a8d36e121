"""Clusters and boots: what is alike, variances by hand, and intervals that cover a simulated truth."""

import numpy as np
import pytest

from chance import fits
from draftmeter.stats.ratios import Clusters, RatiosError, clusters_of, ratio_of_sums, scatter


def table(prompts: int, boots: int) -> Clusters:
    """Every prompt once in every boot, boot after boot."""
    return clusters_of(np.tile(np.arange(prompts), boots), np.repeat(np.arange(boots), prompts))


def test_what_is_alike() -> None:
    crossed = clusters_of(["p", "q", "p", "q", "q"], ["b1", "b1", "b2", "b2", "b2"])
    assert (crossed.number, crossed.boots, crossed.crossed, len(crossed)) == (2, 2, True, 5)
    nested = clusters_of(["s1", "s1", "s2"], ["b1", "b1", "b2"])
    assert (nested.number, nested.boots, nested.crossed) == (2, 2, False)
    part = crossed.chosen(np.array([False, False, True, False, True]))
    assert (part.boots, part.number, part.crossed) == (1, 2, False)
    assert (clusters_of([]).number, clusters_of([]).crossed) == (0, False)


def test_what_is_too_little_is_said() -> None:
    assert clusters_of([]).lacking == "no interval: 0 clusters, 2 are needed"
    assert clusters_of([0, 0]).lacking == "no interval: 1 cluster, 2 are needed"
    for boots in (2, 3):
        assert table(9, boots).lacking == (
            f"no interval: {boots} boots sent the same prompts, and at least 4 are needed to know how much boots differ"
        )
        assert ratio_of_sums(np.ones(9 * boots), np.ones(9 * boots), 0.95, table(9, boots)).low is None
    assert table(9, 1).lacking is None and table(9, 4).lacking is None
    assert clusters_of(np.arange(9), np.arange(9) // 5).lacking is None


def test_labels_that_fit_no_rows_are_refused() -> None:
    with pytest.raises(RatiosError, match="one label of both for each row"):
        clusters_of([1, 2, 3], [1, 2])
    with pytest.raises(RatiosError, match="needs one label"):
        clusters_of([[1, 2]])


def test_one_boot_and_clusters_within_boots_by_hand() -> None:
    e = np.array([[1.0], [2.0], [-4.0], [1.0]])
    by_cluster = scatter(e, clusters_of(["a", "a", "b", "c"]))
    assert by_cluster.covariance[0, 0] == pytest.approx(3 / 2 * (9 + 16 + 1)) and by_cluster.freedom.tolist() == [2]
    by_boot = scatter(e, clusters_of(["a", "b", "c", "d"], [1, 1, 2, 2]))
    assert by_boot.covariance[0, 0] == pytest.approx(2 / 1 * (9 + 9)) and by_boot.freedom.tolist() == [1]


def test_crossed_boots_are_the_two_way_table() -> None:
    # Five boots of six prompts: the variance of the sum from the mean squares of the analysis of variance.
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5, 6)) + np.linspace(-3, 3, 5)[:, None] + rng.normal(size=(1, 6))
    values -= values.mean()
    found = scatter(values.reshape(-1, 1), table(6, 5))
    of_boots = 6 * np.sum(values.mean(axis=1) ** 2) / 4
    of_prompts = 5 * np.sum(values.mean(axis=0) ** 2) / 5
    rest = np.sum((values - values.mean(axis=0) - values.mean(axis=1)[:, None]) ** 2) / 20
    variance = 30 * (of_boots + of_prompts - rest)
    assert found.covariance[0, 0] == pytest.approx(variance)
    freedom = (of_boots + of_prompts - rest) ** 2 / (of_boots**2 / 4 + of_prompts**2 / 5 + rest**2 / 20)
    assert found.freedom[0] == pytest.approx(np.clip(freedom, 4, 5))


def test_boots_that_are_alike_take_nothing_away() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(4, 30, 2))
    values -= values.mean(axis=1, keepdims=True)  # every boot has the same mean
    values[:, :, 1] += np.array([[-1.5], [-0.5], [0.5], [1.5]])
    values -= values.mean(axis=(0, 1))
    found = scatter(values.reshape(-1, 2), table(30, 4))
    prompts = values.sum(axis=0)
    assert found.covariance[0, 0] == pytest.approx(30 / 29 * np.sum(prompts[:, 0] ** 2)) and found.freedom[0] == 29
    assert found.covariance[1, 1] > 30 / 29 * np.sum(prompts[:, 1] ** 2)
    assert np.all(np.linalg.eigvalsh(found.covariance) > 0)


def test_a_few_prompts_in_several_boots_take_nothing_away() -> None:
    clusters = clusters_of([0, 1, 2, 3, 0, 4, 5, 6, 7, 8, 9], [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3])
    e = np.random.default_rng(2).normal(size=(11, 1))
    sums = [np.bincount(labels, e[:, 0]) for labels in (clusters.cluster, clusters.boot)]
    expected = sum(len(one) / (len(one) - 1) * np.sum(one**2) for one in sums)
    assert clusters.crossed and scatter(e, clusters).covariance[0, 0] == pytest.approx(expected)


def simulated(rng: np.random.Generator, boots: int, sds: tuple[float, float, float], crossed: bool) -> tuple[np.ndarray, ...]:
    """Accepted and drafted tokens of 30 requests a boot, with normal effects of prompt, boot and request on the log odds."""
    boot = np.repeat(np.arange(boots), 30)
    prompt = np.tile(np.arange(30), boots) if crossed else np.arange(30 * boots)
    effects = [sd * rng.normal(size=30 * boots)[labels] for sd, labels in zip(sds[:2], (prompt, boot), strict=True)]
    odds = 0.9 + sum(effects) + sds[2] * rng.normal(size=30 * boots)
    drafted = 20 + rng.integers(0, 40, 30 * boots)[prompt]
    return rng.binomial(drafted, 1 / (1 + np.exp(-odds))), drafted, prompt, boot


def truth(sds: tuple[float, float, float]) -> float:
    """The expected chance, by Gauss-Hermite quadrature over the sum of the effects."""
    at, weight = np.polynomial.hermite_e.hermegauss(60)
    return float(np.sum(weight / (1 + np.exp(-0.9 - np.linalg.norm(sds) * at))) / np.sqrt(2 * np.pi))


@pytest.mark.parametrize("boot_sd", [0.0, 0.1, 0.3])
@pytest.mark.parametrize(("boots", "crossed"), [(4, True), (6, True), (2, False), (5, False)])
def test_intervals_over_boots_cover(boots: int, crossed: bool, boot_sd: float) -> None:
    # With 3,000 studies each, the 95% intervals covered in 93.4 to 97.1%.
    rng, sds = np.random.default_rng(boots), (0.5, boot_sd, 0.3)
    hits, expected = 0, truth(sds)
    for _ in range(400):
        accepted, drafted, prompt, boot = simulated(rng, boots, sds, crossed)
        found = ratio_of_sums(accepted, drafted, 0.95, clusters_of(prompt, boot))
        hits += found.low <= expected <= found.high
    assert fits(hits, 400, least=0.93, most=0.975)


def test_prompts_alone_would_not_cover_boots_that_differ() -> None:
    rng, sds = np.random.default_rng(9), (0.3, 0.3, 0.3)
    # They covered in 63% of 1,000 studies.
    hits, expected = 0, truth(sds)
    for _ in range(400):
        accepted, drafted, prompt, _ = simulated(rng, 4, sds, crossed=True)
        found = ratio_of_sums(accepted, drafted, 0.95, clusters_of(prompt))
        hits += found.low <= expected <= found.high
    assert not fits(hits, 400, least=0.9)
