"""Is the chance of acceptance equal at all positions of the draft, and by how much does it rise or fall along it?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]

from draftmeter.stats.resample import Joint

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class EqualityTest:
    """Wald test of "no rise at any position", with the F distribution of Hotelling's T^2."""

    f: float | None
    freedom: tuple[int, float] | None
    p_value: float | None
    unknown: str | None


def names_along_the_draft(k: int) -> list[str]:
    """What :func:`along_the_draft` makes of K chances: chance_1..K, rise_2..K and, for K > 1, chance_slope."""
    positions = range(1, k + 1)
    names = [f"chance_{position}" for position in positions] + [f"rise_{position}" for position in positions[1:]]
    return [*names, "chance_slope"] if k > 1 else names


def along_the_draft(chances: FloatArray) -> FloatArray:
    """The chances (r, K), the rise of each to the one before, and the least-squares slope over positions; shape (r, 2 K).

    One chance stays alone: shape (r, 1). A chance that is unknown (nan) leaves what is made of it unknown, and no more.
    """
    k = chances.shape[1]
    if k == 1:
        return chances
    centred = np.arange(k) - (k - 1) / 2
    slope = (chances * centred).sum(axis=1) / (centred @ centred)
    return np.column_stack([chances, np.diff(chances, axis=1), slope])


def equality_test(rises: FloatArray, covariance: FloatArray, freedom: float) -> EqualityTest:
    """T^2 = r' C^-1 r of the rises r (shape (q,)) with covariance C from f degrees of freedom.

    (f - q + 1) / (f q) T^2 has the F distribution with q and f - q + 1 degrees of freedom if no rise is there.
    """
    q = len(rises)
    if q == 0:
        return EqualityTest(None, None, None, "drafts of one token have one position")
    second = freedom - q + 1
    if second <= 0 or not np.all(np.isfinite(covariance)):
        return EqualityTest(None, None, None, f"too short: {freedom:.0f} degrees of freedom for {q} rises")
    if np.linalg.matrix_rank(covariance) < q:
        return EqualityTest(None, None, None, "the rises do not vary on their own")
    f = max(float(rises @ np.linalg.solve(covariance, rises)), 0.0) * second / (freedom * q)
    return EqualityTest(f, (q, second), float(stats.f.sf(f, q, second)), None)


def equality_test_of(joint: Joint, prefix: str = "") -> EqualityTest:
    """The same test from resampled blocks, for the rises `<prefix>rise_<position>` of a part."""
    names = list(joint.estimates)
    index = [number for number, name in enumerate(names) if name.startswith(f"{prefix}rise_")]
    if not index:
        return EqualityTest(None, None, None, "drafts of one token have one position, or positions are unknown")
    found = [joint.estimates[names[number]] for number in index]
    unknown = next((one.unknown for one in found if one.unknown), None)
    if unknown:
        return EqualityTest(None, None, None, unknown)
    values = np.array([one.value for one in found], dtype=np.float64)
    return equality_test(values, joint.covariance[np.ix_(index, index)], float(joint.freedom[index].min()))
