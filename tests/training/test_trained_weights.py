"""The weights in the repository: whole, small enough, and what their card says."""

import hashlib
import json
from pathlib import Path

import pytest
from scipy import stats

from chance import LUCK

MODEL = Path(__file__).parents[2] / "models" / "small-moe"


def test_every_file_is_the_one_that_training_wrote():
    lines = (MODEL / "SHA256SUMS").read_text().splitlines()
    stated = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    found = {
        path.relative_to(MODEL).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in MODEL.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    }
    assert found == stated


def test_the_weights_are_small():
    facts = json.loads((MODEL / "facts.json").read_text())
    assert 3e6 < facts["parameters"] < 7e6
    assert (MODEL / "checkpoint" / "model.safetensors").stat().st_size < 16e6
    assert facts["elapsed_s"] <= 90 * 60


def test_acceptance_differs_between_workloads_and_the_reference_replays_itself():
    offline = json.loads((MODEL / "facts.json").read_text())["offline"]
    assert all(found["replayed"] == found["replies"] for found in offline.values())
    assert offline["code"]["through"][0] < offline["questions, reasoning on"]["through"][0]


def test_the_stored_weights_still_draft_as_stated():
    pytest.importorskip("torch")
    pytest.importorskip("tokenizers")
    from draftmeter_training.export import read_model  # noqa: PLC0415
    from draftmeter_training.reference import SamplingRule, acceptance, speculate  # noqa: PLC0415
    from draftmeter_training.tokens import prompt_ids, read_tokenizer  # noqa: PLC0415

    model, tokenizer = read_model(MODEL / "checkpoint"), read_tokenizer(MODEL / "checkpoint")
    rows = [json.loads(line) for line in (MODEL / "prompts" / "code.jsonl").read_text().splitlines()[:24]]
    prompts = [prompt_ids(tokenizer, row["prompt"], reasoning=False) for row in rows]
    found = acceptance([reply.accepted for reply in speculate(model, prompts, SamplingRule(0.7), 64, seed=1)])
    stated = json.loads((MODEL / "facts.json").read_text())["offline"]["code"]
    luck = stats.t.isf(LUCK / 2, len(prompts) - 1) * found.standard_error[0]
    assert found.through[0] == pytest.approx(stated["through"][0], abs=luck)
