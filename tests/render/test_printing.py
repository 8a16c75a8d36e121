"""Figures are printed with fixed digits and their intervals, linked where a document has links; an unknown says why, once."""

import pytest

from draftmeter.facts import Fact
from draftmeter.render.facts import NamedFact, RenderError
from draftmeter.render.printing import Printer, as_printed, counted, decimal, duration, escape_markdown, geometric_formula, plain

SHORT = "too short: 12.5 effective blocks (150 lines), at least 20 are needed"


def made_up(value: float | None, unit: str, key: str = "traffic.figure", **rest: object) -> Fact:
    fields = {"low": None, "high": None, "method": "m", "n": 1, "n_unit": "requests", "definition": "d", "unknown": None}
    return NamedFact.model_validate({"value": value, "unit": unit, "key": key, **fields, **rest})


def plainly() -> Printer:
    return Printer(escape_markdown)


def linked() -> Printer:
    return Printer(escape_markdown, linked=True, places={SHORT: "U3", "no draft was made": "U1"})


def test_numbers_have_fixed_digits_units_and_separators() -> None:
    number = plainly().number
    assert number(made_up(0.6604, "fraction")) == "66.0%"
    assert number(made_up(-0.0113, "relative")) == "−1.13%"
    assert number(made_up(0.0, "relative")) == "0.00%"
    assert number(made_up(4_580_000, "count")) == "4,580,000"
    assert number(made_up(13_700_000, "tokens")) == "13,700,000 tokens"
    assert number(made_up(689.62, "tokens")) == "690 tokens"
    assert number(made_up(3, "tokens")) == "3.00 tokens"
    assert number(made_up(7.6, "percentage points")) == "7.6 percentage points"
    assert number(made_up(0.54, "correlation")) == "+0.54"
    assert number(made_up(0.0004, "p value")) == "below 0.001"
    assert [number(made_up(hours, "h")) for hours in (28.9, 0.0519, 174.2)] == ["28.9 h", "0.052 h", "174 h"]
    assert decimal(-0.0001, 2) == "0.00"
    assert plain(2.0) == "2"


def test_a_difference_carries_its_sign_by_the_name_of_its_quantity() -> None:
    number = plainly().number
    for key in (
        "traffic.rise_2",
        "production_intervals.load_slope_pp",
        "pair.reasoning_difference_pp",
        "a.emitted_minus_verified",
    ):
        assert number(made_up(1.5, "percentage points", key)).startswith("+1.5"), key
    for key in ("production_intervals.sd_pp", "production_intervals.load_range_pp"):
        assert number(made_up(1.5, "percentage points", key)).startswith("1.5"), key


def test_a_narrow_interval_gets_the_digits_that_show_it() -> None:
    printer = plainly()
    assert printer.with_interval(made_up(2.6162, "tokens", low=2.6151, high=2.6173)) == "2.616 tokens (2.615 to 2.617)"
    assert printer.with_interval(made_up(0.66, "fraction", low=0.659996, high=0.660004)) == "66.000% (66.000% to 66.000%)"
    assert printer.with_interval(made_up(2.6, "tokens", low=2.5, high=2.7)) == "2.60 tokens (2.50 to 2.70)"


def test_one_thing_is_not_several() -> None:
    assert [counted(number, "pairs of intervals") for number in (1, 2)] == ["1 pair of intervals", "2 pairs of intervals"]
    assert [counted(number, "records") for number in (0, 1, 1234)] == ["0 records", "1 record", "1,234 records"]
    assert plainly().things(made_up(1, "count"), "drafts") == "1 draft"
    assert plainly().number(made_up(1, "tokens")) == "1.00 tokens"


def test_intervals_and_what_is_unknown() -> None:
    printer = plainly()
    assert printer.with_interval(made_up(0.5, "fraction", low=0.48, high=0.52)) == "50.0% (48.0% to 52.0%)"
    assert printer.with_interval(made_up(9, "count")) == "9"
    assert printer.interval(made_up(9, "count")) == "none"
    assert printer.with_interval(made_up(0.5, "fraction", unknown=SHORT)) == "50.0% (interval unknown)"
    assert printer.interval(made_up(0.5, "fraction", unknown=SHORT)) == "unknown"
    missing = made_up(None, "fraction", unknown="no draft was made")
    assert printer.number(missing) == "unknown: no draft was made"
    assert printer.with_interval(missing) == "unknown for the same reason"
    assert printer.cell(missing) == "unknown"


def test_reasons_left_open_are_told_once_and_those_that_differ_in_numbers_are_one() -> None:
    printer = plainly()
    assert printer.why() == ""
    printer.interval(made_up(0.5, "fraction", unknown=SHORT))
    printer.interval(made_up(0.5, "fraction", unknown=SHORT))
    printer.with_interval(made_up(0.5, "fraction", unknown=SHORT.replace("12.5", "8")))
    printer.cell(made_up(None, "fraction", unknown="no draft was made"))
    assert printer.why() == f"Unknown here: {SHORT} (and 1 alike); no draft was made."
    assert printer.why() == ""
    printer.number(made_up(None, "fraction", unknown="no draft was made"))
    printer.cell(made_up(None, "fraction", unknown="no draft was made"))
    assert printer.why() == ""


def test_a_linked_figure_points_at_its_row_and_its_reason() -> None:
    printer = linked()
    fact = made_up(0.5, "fraction", "a.b_1", low=0.48, high=0.52)
    assert printer.with_interval(fact) == "[50.0% (48.0% to 52.0%)](#fact-a.b_1)"
    assert printer.cell(fact) == "[50.0%](#fact-a.b_1)"
    assert printer.row_value(fact) == "50.0%"
    missing = made_up(None, "fraction", "a.c", unknown="no draft was made")
    assert printer.value(missing) == "[unknown](#fact-a.c): [no draft was made](#U1)"
    printer.interval(made_up(0.5, "fraction", unknown=SHORT))
    assert printer.why() == f"Unknown here: [{SHORT}](#U3)."
    assert printer.anchor("a|b", "fact-a.b") == r"[a\|b]{#fact-a.b}"
    assert plainly().anchor("a|b", "fact-a.b") == r"a\|b"


def test_a_null_without_a_reason_and_a_number_that_is_none_are_errors() -> None:
    with pytest.raises(RenderError, match="without a reason"):
        plainly().number(made_up(None, "fraction"))
    with pytest.raises(RenderError, match="nan"):
        decimal(float("nan"), 1)


def test_a_published_value_keeps_its_digits_in_the_unit_of_this_study() -> None:
    assert as_printed(0.66, "0.660", "fraction") == "66.0%"
    assert as_printed(-0.2, "-0.20", "relative") == "−20%"
    assert as_printed(-0.011, "-0.011", "relative") == "−1.1%"
    assert as_printed(0.02, "0.02", "correlation") == "+0.02"
    assert as_printed(4.58e6, "4.58e+6", "count") == "4,580,000"
    assert as_printed(2.98, "2.98", "tokens") == "2.98"
    assert as_printed(34, "34", "ratio") == "34"


def test_lags_in_words_and_the_formula() -> None:
    assert [duration(seconds) for seconds in (2, 10, 60, 90, 600)] == ["2 s", "10 s", "1 min", "90 s", "10 min"]
    assert [geometric_formula(k) for k in (1, 2, 3)] == ["1 + a", "1 + a + a²", "1 + a + a² + a³"]
