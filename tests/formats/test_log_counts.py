"""Drafts and accepted tokens from printed numbers: the vectorised inference against a plain one in exact decimals."""

import math
import random
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.formats.log.recovered import ABSENT, NOT_A_NUMBER, Inferred, PrintedLines, counts_printed_as, infer, printed
from draftmeter.formats.log.window import find_all, find_all_in_python


@dataclass
class Line:
    """One printed line, in texts."""

    drafted: int
    accepted: int
    mean: str
    rates: list[str]
    share: str = ""


def lines(*rows: Line) -> PrintedLines:
    def units(text: str) -> int:
        return ABSENT if not text else NOT_A_NUMBER if text == "nan" else int(text.replace(".", ""))

    k = max(len(row.rates) for row in rows)
    rates = [[units(rate) for rate in row.rates] + [ABSENT] * (k - len(row.rates)) for row in rows]
    unprinted = np.full(len(rows), np.nan)
    return PrintedLines(
        drafted=np.array([row.drafted for row in rows]),
        accepted=np.array([row.accepted for row in rows]),
        mean=np.array([units(row.mean) for row in rows]),
        rates=np.array(rates),
        share=np.array([units(row.share) for row in rows]),
        accepted_speed=unprinted,
        drafted_speed=unprinted,
        k=np.array([len(row.rates) for row in rows]),
        whole=np.ones(len(rows), bool),
        with_bonus=np.ones(len(rows), bool),
    )


def printed_as(rate: str, drafts: int) -> list[int]:
    """The counts that print as this rate, found one by one near it."""
    middle = round(float(rate) * drafts)
    reach = drafts // 1000 + 3
    near = range(max(middle - reach, 0), min(middle + reach, drafts) + 1)
    return [n for n in near if f"{n / drafts:.3f}" == rate]


def plain(line: Line) -> tuple[int | None, bool, list[int | None], bool]:
    """Drafts, accepted by position and what is exact, as the log reader of the first versions had it."""
    k = len(line.rates)
    drafts: int | None = None
    exact = False
    if line.drafted > 0 and line.drafted % k == 0:
        full = line.drafted // k
        found = [printed_as(rate, full) for rate in line.rates]
        if f"{1 + line.accepted / full:.2f}" == line.mean and all(found):
            exact = sum(map(min, found)) <= line.accepted <= sum(map(max, found))
            drafts = full if exact else None
    above = Decimal(line.mean) - 1
    if drafts is None and above > 0 and line.accepted > 0:
        estimate = int((line.accepted / above).to_integral_value(ROUND_HALF_UP))
        drafts = min(max(estimate, math.ceil(line.drafted / k), 1), line.drafted)
    if line.accepted == 0:
        return drafts, exact, [0] * k, True
    if drafts is None:
        return None, False, [None] * k, False
    found = [printed_as(rate, drafts) for rate in line.rates]
    if exact and all(len(counts) == 1 for counts in found):
        at: list[int | None] = [counts[0] for counts in found]
        return drafts, exact, at, sum(map(min, found)) == line.accepted
    return drafts, exact, [int((Decimal(rate) * drafts).to_integral_value(ROUND_HALF_UP)) for rate in line.rates], False


def row(found: Inferred, index: int, k: int) -> tuple[int | None, bool, list[int | None], bool]:
    def known(value: int) -> int | None:
        return None if value < 0 else value

    at = [known(value) for value in found.at[index, :k].tolist()]
    return known(int(found.drafts[index])), bool(found.drafts_exact[index]), at, bool(found.at_exact[index])


@st.composite
def server_lines(draw: st.DrawFn) -> Line:
    """What a server prints of planted drafts, some of them short."""
    largest = draw(st.sampled_from([3, 40, 1000, 30_000]))
    k = draw(st.integers(2, 6))
    histogram = draw(st.lists(st.integers(0, largest), min_size=k + 1, max_size=k + 1).filter(lambda counts: sum(counts) > 0))
    drafts = sum(histogram)
    at = [sum(histogram[position:]) for position in range(1, k + 1)]
    drafted = draw(st.just(k * drafts) | st.integers(max(sum(at), drafts), k * drafts))
    rates = [f"{n / drafts:.3f}" for n in at]
    return Line(drafted, sum(at), f"{1 + sum(at) / drafts:.2f}", rates, f"{sum(at) / drafted * 100:.1f}")


@given(st.lists(server_lines(), min_size=1, max_size=8))
def test_all_lines_at_once_give_what_each_gives_alone(planted: list[Line]) -> None:
    found = infer(lines(*planted))
    assert not found.contradictory.any()
    for index, line in enumerate(planted):
        assert row(found, index, len(line.rates)) == plain(line)


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(0, 3))
def test_printing_is_python_s(numerator: int, denominator: int, decimals: int) -> None:
    for value in (numerator / denominator, 1 + numerator / denominator, 100 * (numerator / denominator)):
        (digits,) = printed(np.array([value]), decimals)
        assert digits == int(f"{value:.{decimals}f}".replace(".", ""))


def test_printing_at_ties_is_python_s() -> None:
    values = [n / 2000 for n in range(4001)] + [n / 16 for n in range(64)] + [n / 200 for n in range(4001)]
    for decimals in (1, 2, 3):
        expected = [int(f"{value:.{decimals}f}".replace(".", "")) for value in values]
        assert printed(np.array(values), decimals).tolist() == expected


@given(st.integers(1, 5000), st.integers(0, 1000))
def test_the_counts_that_print_as_a_rate(drafts: int, rate: int) -> None:
    least, largest = counts_printed_as(np.array([rate]), np.array([drafts]))
    found = printed_as(f"{rate / 1000:.3f}", drafts)
    assert list(range(int(least[0]), int(largest[0]) + 1)) == found


@pytest.mark.parametrize(
    "line",
    [
        Line(30, 20, "3.00", ["0.900", "0.700", "0.400"], "60.0"),
        Line(30, 20, "2.50", ["0.900", "0.700", "0.400"]),
        Line(30, 20, "3.00", ["0.700", "0.900", "0.400"]),
        Line(30, 20, "3.00", ["0.900", "0.700", "0.900"]),
        Line(30, 20, "nan", ["0.900", "0.700", "0.400"]),
        Line(30, 0, "3.00", ["0.900", "0.700", "0.400"]),
        Line(30, 0, "1.00", ["0.100", "0.000", "0.000"]),
        Line(30, 20, "9.00", ["0.900", "0.700", "0.400"]),
    ],
)
def test_numbers_that_cannot_all_be_true_are_contradictory(line: Line) -> None:
    found = infer(lines(line))
    assert found.contradictory[0] and not found.drafts_exact[0] and not found.at_exact[0]


def test_no_drafts_at_all() -> None:
    found = infer(lines(Line(0, 0, "nan", ["nan", "nan"], "nan"), Line(0, 0, "1.00", ["0.000", "0.000"], "nan")))
    assert found.drafts.tolist() == [0, -1] and found.drafts_exact.tolist() == [True, False]
    assert found.at.tolist() == [[0, 0], [0, 0]] and not found.contradictory.any()


def test_one_position_is_known_from_the_count_alone() -> None:
    found = infer(lines(Line(123_456, 98_765, "1.80", ["0.800"])))
    assert (found.at.tolist(), found.at_exact.tolist()) == ([[98_765]], [True])


@given(st.binary(max_size=300), st.binary(min_size=1, max_size=4), st.integers(0, 50), st.integers(0, 320))
def test_both_searches_find_the_same(data: bytes, word: bytes, low: int, high: int) -> None:
    assert find_all(data, word, low, high) == find_all_in_python(data, word, low, high)


def test_a_search_finds_all_of_many() -> None:
    random_ = random.Random(5)
    data = b"".join(random_.choice([b"word", b"wor", b"d", b"\n"]) for _ in range(10_000))
    assert find_all(data, b"word", 0, len(data)) == find_all_in_python(data, b"word", 0, len(data))
