"""Drafts and accepted tokens by position from what a statistics line prints: counts, and ratios rounded to some decimals.

Drafts are not printed. If every draft was full they are Drafted / K, which every printed ratio must confirm to the last
digit; else accepted / (mean - 1), to the rounding of the mean. Arrays hold one element (or row) for each line; printed
ratios are integers in units of their last decimal, with ABSENT where the line has none and NOT_A_NUMBER for nan.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ABSENT = -1
NOT_A_NUMBER = -2

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PrintedLines:
    """What n lines print. `mean` in hundredths, `rates` (n, K) in thousandths with ABSENT past the line's positions,
    `share` (accepted / drafted) in thousandths, `accepted_speed` and `drafted_speed` in tokens/s (nan: not printed).

    `k` is each line's K, ABSENT where it is unknown. `whole`: its rates are those of all K positions.
    `with_bonus`: its mean is known to count the token that every step gives besides the accepted ones.
    """

    drafted: Ints
    accepted: Ints
    mean: Ints
    rates: Ints
    share: Ints
    accepted_speed: Floats
    drafted_speed: Floats
    k: Ints
    whole: Bools
    with_bonus: Bools


@dataclass(frozen=True, slots=True)
class Inferred:
    """What follows: -1 in `drafts` and `at` (n, K) is "cannot be known".

    `contradictory`: some printed numbers of the line cannot all be true.
    """

    drafts: Ints
    drafts_exact: Bools
    at: Ints
    at_exact: Bools
    contradictory: Bools


def printed(values: Floats, decimals: int) -> Ints:
    """The digits with which f"{value:.{decimals}f}" prints each finite value below 10^12, as an integer.

    The exact value of the double decides, ties go to the even digit.
    """
    scale = float(10**decimals)
    scaled = values * scale
    # The rounding error of the product, exactly (Dekker): the scale is short, so only the value is split.
    split = values * 134217729.0
    high = split - (split - values)
    error = (high * scale - scaled) + (values - high) * scale
    digits = np.rint(scaled)
    above = scaled - digits  # exact
    digits += (above == 0.5) & (error > 0)
    digits -= (above == -0.5) & (error < 0)
    # rint went to the even digit, but the exact value lies on the other side of the tie.
    return digits.astype(np.int64)


def counts_printed_as(rates: Ints, drafts: Ints) -> tuple[Ints, Ints]:
    """The least and the largest count n for which n / drafts prints with three decimals as the rate (thousandths).

    The largest is below the least where there is none. Shapes broadcast; drafts are at least 1.
    """
    rates, drafts = np.broadcast_arrays(rates, drafts)
    least = np.maximum((2 * rates - 1) * drafts // 2000, 0)
    largest = np.minimum(-((-(2 * rates + 1) * drafts) // 2000), drafts)
    # Only the ends can be off, by one: at a tie the binary quotient decides.
    least = least + (printed(least / drafts, 3) != rates)
    largest = largest - (printed(largest / drafts, 3) != rates)
    none = (least > largest) | (printed(least / drafts, 3) != rates) | (printed(largest / drafts, 3) != rates)
    return np.where(none, 1, least), np.where(none, 0, largest)


def infer(lines: PrintedLines) -> Inferred:
    """Drafts and accepted tokens by position of each line, and which of them are certain."""
    drafted, accepted = lines.drafted, lines.accepted
    known_k = lines.k > 0
    k = np.maximum(lines.k, 1)
    inside = np.arange(lines.rates.shape[1]) < lines.k[:, None]
    full = np.maximum(drafted // k, 1)
    is_full = known_k & (drafted > 0) & (drafted % k == 0)
    bonus = _bonus(lines, full, is_full)
    mean_agrees = lines.mean == printed(bonus + accepted / full, 2)
    least, largest, rates_agree = _fit_rates(lines, inside, full)
    ratios_agree = _share_agrees(lines) & _speeds_agree(lines) & ~_rates_rise(lines)
    none_at_all = (drafted == 0) & (lines.mean == NOT_A_NUMBER)  # 0 / 0
    exact = (is_full & mean_agrees & rates_agree & ratios_agree) | (none_at_all & lines.whole)

    estimate, possible = _estimate(lines, bonus, k, inside)
    without_mean = is_full & (lines.mean == ABSENT) & rates_agree
    drafts = np.where(is_full & (mean_agrees | rates_agree), full, -1)
    drafts = np.where(possible & known_k, estimate, drafts)
    drafts = np.where((is_full & mean_agrees & rates_agree) | without_mean, full, drafts)
    drafts = np.where(none_at_all, 0, drafts)
    contradictory = ~ratios_agree | (~possible & (lines.mean != ABSENT) & known_k & ~exact)

    single = exact & np.all(~inside | (least == largest), axis=1)
    rounded = (2 * lines.rates * np.maximum(drafts, 0)[:, None] + 1000) // 2000
    at = np.where(single[:, None], least, rounded)
    unknown = (lines.rates < 0) | (contradictory | (drafts < 0))[:, None]
    at = np.where(unknown, -1, at)
    at_exact = single & lines.whole & (np.where(inside, at, 0).sum(axis=1) == accepted)
    certain = known_k & ~contradictory & ((accepted == 0) | (k == 1))  # from the counts alone
    at = np.where(certain[:, None], np.where(accepted == 0, 0, accepted)[:, None], at)
    return Inferred(drafts, exact, np.where(inside, at, -1), at_exact | certain, contradictory)


def _bonus(lines: PrintedLines, full: Ints, is_full: Bools) -> Ints:
    """1 where the printed mean counts the token that every step gives besides the accepted ones, 0 where it does not."""
    rates_sum = np.maximum(lines.rates, 0).sum(axis=1) / 10
    by_rates = np.abs(lines.mean - 100 - rates_sum) <= np.abs(lines.mean - rates_sum)
    by_counts = (lines.mean >= 100) & ~(is_full & (lines.mean == printed(lines.accepted / full, 2)))
    likely = np.where(lines.whole & (lines.rates >= 0).any(axis=1), by_rates, by_counts)
    bonus: Ints = (lines.with_bonus | likely).astype(np.int64)
    return bonus


def _fit_rates(lines: PrintedLines, inside: Bools, full: Ints) -> tuple[Ints, Ints, Bools]:
    """The counts that every printed rate allows if all drafts were full, and whether they can add up to accepted."""
    shown = lines.rates >= 0
    least, largest = counts_printed_as(np.maximum(lines.rates, 0), full[:, None])
    printable = np.all(~shown | (least <= largest), axis=1) & ~(lines.rates == NOT_A_NUMBER).any(axis=1)
    least_sum = np.where(shown, least, 0).sum(axis=1)
    most_sum = np.where(shown, largest, np.where(inside, full[:, None], 0)).sum(axis=1)
    return least, largest, printable & (least_sum <= lines.accepted) & (lines.accepted <= most_sum)


def _estimate(lines: PrintedLines, bonus: Ints, k: Ints, inside: Bools) -> tuple[Ints, Bools]:
    """Drafts from the mean where drafts may have been short (the end of the context, a grammar); -1 where unknown.

    Also whether any number of drafts, from Drafted / K to one for each drafted token, agrees with the mean and the rates.
    """
    drafted, accepted = lines.drafted, lines.accepted
    above = lines.mean - 100 * bonus
    fewest = np.maximum(-(-drafted // k), 1)
    estimate = np.where(above > 0, (200 * accepted + above) // (2 * np.maximum(above, 1)), -1)
    estimate = np.where((above > 0) & (accepted > 0), np.clip(estimate, fewest, np.maximum(drafted, fewest)), -1)
    least, most = _between(accepted, above / 100, 0.005)
    rates_sum = np.maximum(lines.rates, 0).sum(axis=1) / 1000
    slack = np.where(lines.whole, 0.0005 * inside.sum(axis=1), np.inf)
    by_rates = _between(accepted, np.where(lines.whole, rates_sum, 0.0), slack)
    none = (lines.rates == ABSENT).all(axis=1)
    least = np.maximum(least, np.where(none, 0.0, by_rates[0]))
    most = np.minimum(most, np.where(none, np.inf, by_rates[1]))
    possible = (lines.mean >= 0) & (np.maximum(least, fewest) <= np.minimum(most, drafted) + 1e-6)
    nothing = accepted == 0
    zero = (above == 0) & ~(lines.rates > 0).any(axis=1)
    return estimate, np.where(nothing, zero | (drafted == 0), possible)


def _between(accepted: Ints, ratio: Floats, slack: Floats | float) -> tuple[Floats, Floats]:
    """The least and the most drafts for which accepted / drafts is within `slack` of the ratio."""
    low, high = np.maximum(ratio - slack, 0), np.maximum(ratio + slack, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.where(high > 0, accepted / high, np.inf)
        most = np.where(low > 0, accepted / low, np.inf)
    # A tie may be printed either way, and the bounds are quotients of doubles.
    return least * (1 - 1e-9), most * (1 + 1e-9)


def _share_agrees(lines: PrintedLines) -> Bools:
    share = lines.share
    # Versions compute it in different orders, so at a tie either digit may be printed.
    same = np.abs(share - 1000 * lines.accepted / np.maximum(lines.drafted, 1)) <= 0.5 + 1e-6
    agree: Bools = (share == ABSENT) | np.where(lines.drafted > 0, same, share == NOT_A_NUMBER)
    return agree


def _speeds_agree(lines: PrintedLines) -> Bools:
    """Both throughputs are counts over the same time, printed with two decimals."""
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(lines.accepted * lines.drafted_speed - lines.drafted * lines.accepted_speed)
        agree: Bools = apart <= 0.00501 * (lines.accepted + lines.drafted)
    agree |= ~np.isfinite(lines.accepted_speed) | ~np.isfinite(lines.drafted_speed)
    return agree


def _rates_rise(lines: PrintedLines) -> Bools:
    """A token is accepted only after the one before it, so a rate never rises from one position to the next, or above 1."""
    shown = (lines.rates[:, 1:] >= 0) & (lines.rates[:, :-1] >= 0)
    rise: Bools = np.any(shown & (lines.rates[:, 1:] > lines.rates[:, :-1]), axis=1) | np.any(lines.rates > 1000, axis=1)
    return rise
