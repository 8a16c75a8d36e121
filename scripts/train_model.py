"""Rule train_model: train the small model, export it, compute its acceptance offline, draw its curves, write its card."""

import hashlib
import json
import shutil
import sys
import sysconfig
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftmeter.job import job
from draftmeter.strict import write_json
from draftmeter_training.card import model_card
from draftmeter_training.corpus import Corpus, read_corpus
from draftmeter_training.curves import plot_training
from draftmeter_training.decoder import DEPTH
from draftmeter_training.export import read_model, write_model
from draftmeter_training.offline import MAX_TOKENS, REPLIES, offline_acceptance
from draftmeter_training.prompts import write_prompt_sets
from draftmeter_training.reference import SamplingRule
from draftmeter_training.training import Settings, tokenizer_of, train

if TYPE_CHECKING:
    from snakemake.script import snakemake

RULE = SamplingRule(temperature=0.7)


def run(settings: Settings, work: Path, folder: Path) -> None:
    """Everything of the rule; `work` keeps the checkpoint that an interrupted training goes on from."""
    training, held_out = read_corpus()
    tokenizer = tokenizer_of(training, settings)
    write_model(train(settings, training, held_out, tokenizer, work), tokenizer, folder / "checkpoint")
    write_prompt_sets(held_out, folder / "prompts")
    history = json.loads((work / "history.json").read_text())
    shutil.copy(work / "history.json", folder)
    plot_training(history, [folder / "curves.svg", folder / "curves.png"])
    shutil.copy(Path(sysconfig.get_paths()["stdlib"]) / "LICENSE.txt", folder / "PYTHON-LICENSE.txt")
    # What is described is the exported file, not the weights before rounding.
    model = read_model(folder / "checkpoint")
    offline = offline_acceptance(model, tokenizer, folder / "prompts", RULE, lambda text: print(text, flush=True))
    facts = _facts(settings, training, history) | {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "offline": offline,
    }
    write_json(folder / "facts.json", facts)
    (folder / "README.md").write_text(model_card(settings.layout, facts))
    _write_sums(folder)


def _facts(settings: Settings, training: Corpus, history: list[dict[str, Any]]) -> dict[str, Any]:
    last = history[-1]
    return {
        "settings": asdict(settings),
        "python": sys.version.split()[0],
        "corpus": {
            "code_files": len(training.code),
            "passages": len(training.prose),
            "sha256": training.sha256(),
        },
        "depth": DEPTH,
        "steps": last["step"],
        "elapsed_s": last["elapsed_s"],
        "tokens": last["step"] * settings.rows * (settings.length - 1),
        "held_out": last["held_out"],
        "sampling": asdict(RULE),
        "replies": REPLIES,
        "max_tokens": MAX_TOKENS,
    }


def _write_sums(folder: Path) -> None:
    """SHA256SUMS over every file, in the format of sha256sum."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    with job(snakemake.log[0], ValueError, OSError):
        run(
            Settings(**snakemake.params.settings, threads=snakemake.threads),
            Path(snakemake.params.work),
            Path(snakemake.output[0]),
        )
