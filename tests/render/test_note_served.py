"""What the note says of a baseline and of a calibration beside a served model, for opposite speeds and for none."""

import re
from functools import cache

import pytest
from test_note import section

from draftmeter.render.context import beside_context
from draftmeter.render.facts import Facts
from made_up_facts import forget
from made_up_served import SPEEDS, served_facts
from rendered_paper import note

R = "Made-up reasoning prompts"
SPEED = "### Speed with and without speculation"
SAID = {
    "## Abstract": {
        "faster": [
            f"from 1.35 times ({R} at 8 streams) to 2.04 times ({R} at 1 stream) as fast",
            "Nowhere was it slower.",
        ],
        "slower": [
            f"from 0.55 times ({R} at 8 streams) to 0.92 times ({R} at 1 stream) as fast",
            f"Speculation slowed it down for Made-up evaluation set at 8 streams and {R} at 1 and 8 streams.",
        ],
        "mixed": [
            f"from 0.63 times ({R} at 8 streams) to 1.71 times ({R} at 1 stream) as fast",
            "Speculation slowed it down for Made-up reasoning prompts at 8 streams.",
            "Whether it was faster or slower cannot be told for Made-up evaluation set at 8 streams.",
        ],
    },
    SPEED: {
        "faster": ["| Made-up reasoning prompts | 1 | 43.7 | 21.4 | 2.04 | 1.84 to 2.24 | **faster** |"],
        "slower": ["| Made-up reasoning prompts | 8 | 11.8 | 21.4 | 0.55 | 0.45 to 0.65 | **slower** |"],
        "mixed": [
            "| Made-up evaluation set | 8 | 21.8 | 21.4 | 1.02 | 0.92 to 1.12 | cannot tell |",
            "It was faster with speculation, with the whole interval, for Made-up reasoning prompts at 1 stream.",
            "Speculation slowed it down, with the whole interval, for Made-up reasoning prompts at 8 streams.",
        ],
    },
    "## Recommendations": {
        "faster": ["On a server like this speculation pays at the loads that were tried"],
        "slower": [f"where it slowed requests down: Made-up evaluation set at 8 streams and {R} at 1 and 8 streams."],
        "mixed": ["where it slowed requests down: Made-up reasoning prompts at 8 streams."],
    },
}


@cache
def note_of(speeds: str) -> str:
    return note(served_facts(speeds))


@pytest.mark.parametrize("heading", SAID)
@pytest.mark.parametrize("speeds", SPEEDS)
def test_each_section_says_what_its_speeds_say(speeds: str, heading: str) -> None:
    text = section(note_of(speeds), heading)
    for other, sentences in SAID[heading].items():
        for sentence in sentences:
            assert (sentence in text) == (other == speeds), (other, sentence)


@pytest.mark.parametrize("speeds", SPEEDS)
def test_every_table_and_list_begins_a_block_of_its_own(speeds: str) -> None:
    text = note_of(speeds)
    assert re.findall(r"^[^|\n][^\n]*\n\|", text, re.MULTILINE) == []
    assert re.findall(r"^(?!- )[^\n]+\n- ", text, re.MULTILINE) == []


def test_a_limitation_says_what_the_speeds_hold_for() -> None:
    limits = section(note_of("mixed"), "## Limitations")
    assert "What a step costs was not measured" not in limits
    assert "on a CPU: on a GPU, or with a larger model, their ratio is another" in limits
    facts = served_facts("mixed")
    for row in facts["setup"]:
        row["processor"] = "GPU"
    limits = section(note(facts), "## Limitations")
    assert "is that of this model on this machine" in limits and "on a CPU" not in limits


def test_speeds_that_are_unknown_say_why() -> None:
    facts = served_facts("faster")
    for key in [key for key in facts["facts"] if key.endswith("speedup")]:
        forget(facts, key, "not comparable: the engine is another")
    text = note(facts)
    assert "as fast" not in section(text, "## Abstract")
    assert "Unknown here: not comparable: the engine is another." in section(text, SPEED)
    assert "the two could not be compared" in section(text, "## Limitations")
    assert "speculation pays" not in text and "was not measured" in section(text, "## Recommendations")


def test_one_speed_is_no_range() -> None:
    facts = served_facts("faster")
    for key in [key for key in facts["facts"] if re.match(r"reasoning\.streams_\d\.(speed|tokens_per_s_|first)", key)]:
        del facts["facts"][key]
    text = section(note(facts), "## Abstract")
    assert "a request of Made-up evaluation set at 8 streams got its tokens 1.62 times (1.52 to 1.72) as fast." in text


def test_servers_beside_the_study_are_named_for_what_they_did() -> None:
    text = note_of("mixed")
    measured = section(text, "## What was measured, and how")
    assert "the server named baseline served without it" in measured
    assert "the server named calibration served a model whose acceptance is known exactly" in measured
    assert "| Draft method | none | mtp | mtp | mtp |" in measured and "| Draft tokens per step | none | 3 | 3 | 3 |" in measured
    beside = section(text, "## Appendix: calibration")
    assert "by the same version of the engine and on the same machine" in beside
    facts = served_facts()
    facts["setup"][1]["hardware"] = "another machine"
    assert "by another version of the engine or on another machine" in section(note(facts), "## Appendix: calibration")


def test_the_calibration_beside_a_study_is_no_calibration_study() -> None:
    text = note_of("mixed")
    assert "all 24 comparisons with an exact figure lie within 4 standard errors" in section(text, "## Abstract")
    assert "Nothing else in this note is known by construction" in text
    assert "Acceptance is set by construction" not in text and "Repeat this calibration" not in text
    failed = section(note(served_facts(calibration="failed")), "## Abstract")
    assert "**The calibration failed.** 1 of 24 comparisons" in failed and "lie within" not in failed
    facts = served_facts()
    for row in facts["calibration"]:
        row |= {"z": None, "standard_error": None, "status": "unknown", "reason": "no request"}
    assert "nothing shows that the instrument measures right" in section(note(facts), "## Abstract")


def test_without_them_nothing_is_said() -> None:
    text = note(served_facts(calibration="none"))
    assert "Appendix: calibration" not in text and "known exactly" not in text
    context = beside_context(Facts.model_validate(served_facts(calibration="none")))
    assert context["calibrators"] == [] and len(context["baselines"]) == 1


def test_replies_and_scores_are_said() -> None:
    text = note_of("mixed")
    same = "Of 60 replies in Made-up certainty, 57 had the same tokens with speculation and without: 95.0% (92.0% to 98.0%)."
    assert same in section(text, "## Cross-checks")
    right = "answered right 43.0% (33.0% to 53.0%) in Made-up reasoning prompts, without speculation 41.0% (31.0% to 51.0%)."
    assert right in section(text, "### Share of draft tokens accepted")
    facts = forget(served_facts(), "greedy.same_replies", "not comparable")
    assert "How many replies of Made-up certainty were the same without speculation is unknown: not comparable" in note(facts)
