"""Sentences follow the data: three made-up data sets with opposite findings, and what the note says of each."""

import re
from functools import cache

import pytest
from test_note import section

from draftmeter.analyse.regions import place, side, within
from draftmeter.facts import Fact
from made_up_facts import as_analysed, made_up_facts
from made_up_figures import FALLING, RISING, UNCLEAR, Findings
from rendered_paper import note

TITLES = {
    "rising": "54.0% of draft tokens accepted, varying beyond chance, with chances that rise along the draft",
    "falling": "52.7% of draft tokens accepted, varying no more than by chance, with chances that fall along the draft",
    "unclear": "65.0% of draft tokens accepted",
}
SETS = {"rising": RISING, "falling": FALLING, "unclear": UNCLEAR}
# By place in the note, what each data set must say there; what another set says there must not be.
SAID = {
    "## Abstract": {
        "rising": [
            "Acceptance varied between intervals by more than the luck of drafts: its variance was 28.6 (23.6 to 33.6) times",
            "Intervals 2 s apart were alike (correlation +0.61); those 2 min apart no longer were (+0.01).",
            "A trend with load could not be told from none: +0.02 percentage points (−0.28 to +0.32)",
            "Along the draft the chance of acceptance rose: +2.1 percentage points (+1.7 to +2.5) per position.",
            "came within 2% of the measured tokens per step: an error of −1.83%",
            "3 hold, 0 fail and 0 cannot be told",
        ],
        "falling": [
            "Acceptance varied between intervals by no more than the luck of drafts: its variance was 0.7 (0.5 to 0.9) times",
            "That intervals which follow one another are alike was not seen: the correlation over 2 s was +0.02",
            "It fell with load: −1.20 percentage points (−1.50 to −0.90) for each running request.",
            "Along the draft the chance of acceptance fell: −15.0 percentage points (−16.0 to −14.0) per position.",
            "missed the measured tokens per step by more than 2%: an error of +14.42%",
            "0 hold, 3 fail and 0 cannot be told",
        ],
        "unclear": [
            "Whether acceptance varied between intervals by more than the luck of drafts cannot be told: its variance was 1.1",
            "whether those 2 min apart still were cannot be told (+0.08).",
            "A trend with load could not be told from none: +0.40 percentage points (interval unknown)",
            "Whether the chance of acceptance rises or falls along the draft cannot be told: −0.1 percentage points",
            "comes within 2% of the measured tokens per step cannot be told: an error of",
            "0 hold, 0 fail and 3 cannot be told",
        ],
    },
    "### Share of draft tokens accepted": {
        "rising": ["On the same prompts reasoning lowered acceptance: with it less without it was −16.0"],
        "falling": ["On the same prompts reasoning raised acceptance: with it less without it was +4.0"],
        "unclear": ["Whether reasoning lowers or raises acceptance on the same prompts cannot be told"],
    },
    "### Variation with workload and in time": {
        "rising": ["is above one: the chances themselves differ between intervals", "Over 2 min that is gone"],
        "falling": ["is below one: nothing beyond that luck is seen", "are alike is not seen here"],
        "unclear": ["does not tell whether there is more than that luck", "Whether that is gone over 2 min cannot be told"],
    },
    "### Load": {
        "rising": ["A trend with load cannot be told from none"],
        "falling": ["Acceptance falls with load: −1.20"],
        "unclear": ["A trend with load cannot be told from none"],
    },
    "### Chance at each position": {
        "rising": ["The chance rises along the draft: +2.1", "the chance rises in all of the five groups and falls in none"],
        "falling": ["The chance falls along the draft: −15.0", "the chance rises in none of the five groups and falls in all"],
        "unclear": [
            "Whether the chance rises or falls along the draft cannot be told",
            "none of the five groups can it be told",
        ],
    },
    "### Tokens per step and step rate": {
        "rising": ["at the first position the formula is close, within 2%", "is off by −24.08%"],
        "falling": ["at the first position the formula is not close: it is off by more than 2%"],
        "unclear": ["Whether the formula is close when fed with the rate at the first position, within 2%, cannot be told"],
    },
    "## The claims of the published study": {
        "rising": ["| overdispersed | **holds** | variance ratio: 28.6 (23.6 to 33.6) | above 1 |"],
        "falling": ["| overdispersed | **fails** | variance ratio: 0.7 (0.5 to 0.9) | above 1 |"],
        "unclear": ["| overdispersed | cannot tell | variance ratio: 1.1 | above 1 |"],
    },
    "## Recommendations": {
        "rising": ["as 14,000 independent drafts would", "a longer one is worth a trial", "the formula may stand in"],
        "falling": [
            "computed as if drafts were independent would have done",
            "try a shorter one first",
            "it falls with it",
        ],
        "unclear": ["Whether a longer or a shorter draft pays"],
    },
}


@cache
def note_of(name: str) -> str:
    return note(made_up_facts("served_model", SETS[name]))


@pytest.mark.parametrize("name", SETS)
def test_the_title_follows_the_findings(name: str) -> None:
    assert note_of(name).startswith(f"# A made-up study: {TITLES[name]}\n")


@pytest.mark.parametrize("name", SETS)
def test_every_table_and_list_begins_a_block_of_its_own(name: str) -> None:
    text = note_of(name)
    assert re.findall(r"^[^|\n][^\n]*\n\|", text, re.MULTILINE) == []
    assert re.findall(r"^(?!- )[^\n]+\n- ", text, re.MULTILINE) == []
    assert re.findall(r"^(?!- )[^\n]+\n!\[", text, re.MULTILINE) == []


@pytest.mark.parametrize("heading", SAID)
@pytest.mark.parametrize("name", SETS)
def test_each_section_says_what_its_data_set_says(name: str, heading: str) -> None:
    text = section(note_of(name), heading)
    own = SAID[heading][name]
    for sentence in own:
        assert sentence in text, sentence
    for other, sentences in SAID[heading].items():
        for sentence in sentences:
            assert other == name or sentence in own or sentence not in text, (other, sentence)


def test_all_three_data_sets_differ_in_every_finding_but_that_on_load() -> None:
    found = [made_up_facts("served_model", one)["findings"] for one in SETS.values()]
    for name in ("variation", "memory", "positions", "formula"):
        assert len({one[name] for one in found}) == len(SETS), name
    assert [one["load"] for one in found] == ["cannot tell", "below", "cannot tell"]


def test_claims_name_the_figure_that_decides_first_and_each_with_its_interval() -> None:
    facts = made_up_facts("served_model")
    facts["claims"][1] |= {"decisive": "traffic.rise_3", "reason": "the interval reaches over an end of the region"}
    facts["claims"][2]["facts"] = [f"production_intervals.fifth_{fifth}.chance_slope" for fifth in range(1, 6)] + ["gone.fact"]
    facts["claims"][2]["decisive"] = None
    rows = re.findall(r"^\| (?:chance|reasoning).*$", section(note(facts), "## The claims of the published study"), re.MULTILINE)
    assert "| rise 3: +1.8 percentage points (+1.2 to +2.4); chance slope: +2.1 percentage points (+1.7 to +2.5);" in rows[0]
    assert "chance slope, fifth 1: +2.1 percentage points (+1.7 to +2.5);" in rows[1] and "and 1 more" in rows[1]


def test_a_comparison_stands_beside_its_fact_in_the_same_form() -> None:
    text = section(note(made_up_facts("served_model")), "## Appendix: beside the published figures")
    assert "| accepted over drafted | 54.0% | 53.1% to 54.9% | 66.0% |  |" in text
    assert "| variance ratio | 28.6 | 23.6 to 33.6 | 34 | in ten seconds |" in text
    assert "| tokens per step spread, at least 200 drafts | +32.00% | +29.00% to +35.00% | +26% |  |" in text


def fact(value: float | None, low: float | None = None, high: float | None = None) -> Fact:
    rest = {"method": "m", "n": 1, "n_unit": "requests", "unit": "ratio", "definition": "d", "unknown": "too short"}
    return Fact.model_validate({"value": value, "low": low, "high": high, **rest})


def test_only_a_whole_interval_decides() -> None:
    assert [side(fact(2, *ends), 1.0) for ends in ((1.1, 3), (0.9, 3), (1.0, 3), (None, None))] == [
        "above",
        "cannot tell",
        "cannot tell",
        "cannot tell",
    ]
    assert side(fact(0.5, 0.2, 0.9), 1.0) == "below" and side(fact(None), 1.0) == "unknown"
    assert place(fact(0.01, -0.02, 0.02), [within(0.02)]) == "inside"
    assert place(fact(0.01, -0.01, 0.03), [within(0.02)]) == "cannot tell"
    assert place(fact(-0.05, -0.08, -0.03), [within(0.02)]) == "outside"
    assert place(fact(None), [within(0.02)]) == "unknown"


@pytest.mark.parametrize(("confidence", "limit", "said"), [(0.95, 0.05, "are not ruled out"), (0.9, 0.1, "do not fit")])
def test_a_p_value_is_held_against_the_confidence_of_the_study(confidence: float, limit: float, said: str) -> None:
    facts = made_up_facts("served_model")
    facts["study"]["confidence"] = confidence
    facts["facts"]["traffic.equal_chances_p"]["value"] = 0.08
    assert as_analysed(facts)["findings"]["margins"]["p"] == limit
    text = note(facts)
    assert f"Equal chances at all positions {said} (p 0.080)" in text
    assert re.search(rf"^\| unequal chances.* \| {limit:g} \|", text.replace("[]{{#margins}}", ""), re.MULTILINE)


@pytest.mark.parametrize(
    ("last", "said"),
    [((0.3, 0.1), "those 2 min apart still were (+0.30)"), ((0.05, 0.2), "whether those 2 min apart still were cannot be told")],
)
def test_what_the_longest_lag_says(last: tuple[float, float], said: str) -> None:
    found = Findings(**{**RISING.__dict__, "correlations": (*RISING.correlations[:3], last)})
    assert said in section(note(made_up_facts("served_model", found)), "## Abstract")


def test_one_decay_is_told_as_one() -> None:
    facts = made_up_facts("served_model")
    facts["facts"]["production_intervals.decay_components"]["value"] = 1
    text = section(note(facts), "### Variation with workload and in time")
    assert "One exponential decay, with a time of 9.00 s (6.00 to 12.0), describes the curve as well as two would" in text
    assert "Two exponential decays" not in text
