"""The known answers, against closed forms and against a plain simulation that shares no code with them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.models.answers import known_answers, settings
from draftmeter.models.known_answer import (
    END,
    Chain,
    KnownAnswerError,
    Setting,
    build_chain,
    expect,
    served_distribution,
)
from draftmeter.study.config import read_study
from draftmeter.study.schema import KnownAnswerModel

CONFIG = Path(__file__).parents[2] / "config" / "calibration.yaml"
STUDY = read_study(CONFIG)
MODEL = STUDY.models["known-answer"]
assert isinstance(MODEL, KnownAnswerModel)
K = 3


def simulate(chain: Chain, setting: Setting, requests: int, seed: int) -> dict[str, np.ndarray]:
    """Speculative sampling token by token, as a server would do it; shape (requests,) each."""
    rng = np.random.default_rng(seed)
    served = served_distribution(chain.matrix, chain.temperature, setting)
    first = served_distribution(chain.start[None, :], chain.temperature, setting)[0]
    first, served = np.cumsum(first), np.cumsum(served, axis=1)

    def drawn(cumulative: np.ndarray) -> int:
        return min(int(cumulative.searchsorted(rng.random(), side="right")), len(cumulative) - 1)

    draft = chain.matrix.argmax(axis=1)
    out = {name: np.zeros(requests) for name in ("drafts", "a1", "a2", "a3", "emitted", "past_cut")}
    for request in range(requests):
        reply = [drawn(first)]
        while len(reply) < setting.max_tokens and reply[-1] != END:
            out["drafts"][request] += 1
            token, new, accepted = reply[-1], [], 0
            for _ in range(K):
                proposal = draft[token]
                sampled = drawn(served[token])
                new.append(sampled)
                if sampled != proposal:
                    break
                accepted += 1
                token = proposal
            else:
                new.append(drawn(served[token]))
            for k in range(accepted):
                out[f"a{k + 1}"][request] += 1
            kept = new[: setting.max_tokens - len(reply)]
            if END in kept:
                kept = kept[: kept.index(END) + 1]
            out["past_cut"][request] += max(accepted - len(kept), 0)
            reply += kept
        out["emitted"][request] = len(reply)
    return out


@pytest.mark.parametrize("setting", [s for s in settings(STUDY) if s.max_tokens <= 128], ids=str)
def test_moments_agree_with_a_simulation(setting: Setting) -> None:
    exact = expect(build_chain(MODEL, setting.category), setting, K)
    found = simulate(build_chain(MODEL, setting.category), setting, requests=600, seed=11)
    counts = np.column_stack([found[name] for name in ("drafts", "a1", "a2", "a3")] + [found["emitted"] - 1])
    standard = (counts - exact.mean) / np.sqrt(np.diag(exact.covariance))
    # Six standard errors: there are a hundred of these comparisons.
    assert np.all(np.abs(standard.mean(axis=0)) < 6 / np.sqrt(len(counts)))
    # The share's own variance: accepted less share times drafts, as the calibration uses it.
    weights = np.eye(K + 2)[1 : K + 1] - np.outer(exact.mean[1 : K + 1] / exact.mean[0], np.eye(K + 2)[0])
    measured = (counts - exact.mean) @ weights.T
    variance = np.einsum("kw,wv,kv->k", weights, exact.covariance, weights)
    assert np.allclose(measured.var(axis=0) / variance, 1, atol=0.4)
    past_cut = found["past_cut"]
    # At most K in a request: the variance is at most K times the mean.
    assert abs(past_cut.mean() - exact.accepted_past_cut) < 6 * np.sqrt(K * exact.accepted_past_cut / len(past_cut)) + 1e-9


def test_equal_chances_give_powers() -> None:
    """Two tokens, each drafted with chance c after the other: share through k is c to the power k, whatever the length."""
    c = 0.8
    matrix = np.array([[1.0, 0, 0, 0], [1.0, 0, 0, 0], [0, 0, 1 - c, c], [0, 0, c, 1 - c]])
    chain = Chain("two", matrix, np.array([0, 0, 1.0, 0]), temperature=1.0)
    exact = expect(chain, Setting("two", 1.0, 1.0, 0, 50), K)
    assert np.allclose(np.array(exact.accepted) / exact.drafts, [c, c**2, c**3])
    assert exact.emitted_tokens == pytest.approx(50)
    # Every emitted token after the first is accepted, resampled after a rejection, or follows a whole draft.
    assert 1 + exact.drafts + sum(exact.accepted) >= 50 > sum(exact.accepted) - exact.accepted_past_cut
    # Every draft after an accepted or a resampled token has the same chance: a binomial variance at position 1.
    difference = np.array([-c, 1.0, 0, 0, 0])
    assert difference @ exact.covariance @ difference == pytest.approx(exact.drafts * c * (1 - c), rel=1e-9)


def test_a_reply_of_one_token_makes_no_draft() -> None:
    exact = expect(build_chain(MODEL, "A"), Setting("A", 0.7, 1.0, 0, 1), K)
    assert (exact.drafts, exact.emitted_tokens, exact.accepted) == (0, 1, [0, 0, 0])


@pytest.mark.parametrize("name", sorted(MODEL.groups))
def test_groups_have_the_chances_of_the_config(name: str) -> None:
    chain = build_chain(MODEL, name)
    best = chain.matrix.max(axis=1)[2:-1].reshape(4, 8).mean(axis=1)
    assert np.allclose(best[:3], MODEL.groups[name].chances)
    assert np.allclose(chain.matrix.sum(axis=1), 1)
    assert not np.any(chain.matrix[2:] > 0.96)


@given(
    row=st.lists(st.floats(0.01, 1), min_size=3, max_size=12),
    temperature=st.floats(0.3, 1.5),
    top_p=st.floats(0.3, 1.0),
    top_k=st.integers(0, 15),
)
def test_truncation_keeps_the_most_probable_and_sums_to_one(
    row: list[float], temperature: float, top_p: float, top_k: int
) -> None:
    rows = np.array([row]) / sum(row)
    try:
        served = served_distribution(rows, 0.7, Setting("x", temperature, top_p, top_k, 8))
    except KnownAnswerError:
        return
    assert served.sum() == pytest.approx(1)
    kept = served[0] > 0
    assert rows[0][kept].max() == rows[0].max()
    assert rows[0][kept].min() >= rows[0][~kept].max(initial=0) - 1e-12
    if top_k:
        assert kept.sum() <= max(top_k, np.sum(rows[0] >= np.sort(rows[0])[-min(top_k, len(row))]))


def test_a_truncation_on_an_edge_is_refused() -> None:
    rows = np.array([[0.05, 0.15, 0.8]])
    with pytest.raises(KnownAnswerError, match="falls on the edge"):
        served_distribution(rows, 1.0, Setting("x", 1.0, 0.95, 0, 8))


def test_answers_cover_every_request_of_the_default_study() -> None:
    answers = known_answers(STUDY, "known-answer")["settings"]
    keys = {(a["category"], a["temperature"], a["top_p"], a["top_k"], a["max_tokens"]) for a in answers}
    for workload in STUDY.workloads.values():
        for category in workload.categories:
            for limit in workload.sampling.max_tokens:
                s = workload.sampling
                assert (category, s.temperature, s.top_p, s.top_k, limit) in keys


def test_chances_range_widely() -> None:
    pooled = [sum(a["share_through"]) / K for a in known_answers(STUDY, "known-answer")["settings"]]
    assert min(pooled) < 0.3 and max(pooled) > 0.7
