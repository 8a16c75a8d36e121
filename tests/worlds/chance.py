"""What a test of random draws may call a failure: what luck alone gives less than once in a million runs.

Other seeds, and other processors (whose last digits of `exp` or of a sum differ, and with them everything drawn afterwards),
give other draws of the same truth. A test of drawn numbers therefore asks for what almost every draw shows.
"""

from scipy import stats

LUCK = 1e-6
ERRORS = 5.0
"""Standard errors that a normal estimate is off by less than once in a million draws."""
CERTAIN = 1 - 1e-7
"""The confidence of intervals that miss what was planted in no run that anyone sees."""


def fits(hits: int, trials: int, least: float, most: float = 1.0) -> bool:
    """Whether `hits` of so many independent trials may be those of a chance from `least` to `most`."""
    too_few = stats.binom.cdf(hits, trials, least) < LUCK
    too_many = stats.binom.sf(hits - 1, trials, most) < LUCK
    return not too_few and not too_many
