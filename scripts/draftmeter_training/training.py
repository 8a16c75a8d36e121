"""The training loop: seeded, with progress, with checkpoints that resume, within a budget of wall time."""

import json
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from draftmeter_training.conversations import MIXTURE, makers
from draftmeter_training.corpus import Corpus
from draftmeter_training.decoder import DEPTH, Decoder, Experts
from draftmeter_training.layout import Layout, layout_from, layout_values
from draftmeter_training.losses import Losses, head_losses, losses, watch
from draftmeter_training.optimiser import Optimiser, initialise
from draftmeter_training.rows import Rows, held_out_rows, training_rows
from draftmeter_training.tokens import learn_tokenizer

WARM_UP_STEPS = 40
FULL_RATE_UNTIL = 0.25
# The head alone starts again from a lower rate, where the decoder's training left it at none.
HEAD_RATE = 0.5
HEAD_CHAIN_EVERY = 2
# Chains start at every sixth token, and late in training, when the head follows the decoder, at every third.
CHAIN_EVERY, CHAIN_EVERY_LATE = 6, 3
LATE_BELOW_RATE = 0.4
BALANCE_RATE = 2e-3
CHECKPOINT_EVERY_S = 120.0
WATCH_ROWS = 16
REPORT_EVERY = 20
ROWS_A_PART = 1


@dataclass(frozen=True)
class Settings:
    """What decides a training run: first decoder and head together, then the head alone with the decoder as it is.

    In each part the rate falls to zero at its steps or when its seconds of training time are used up, whichever comes
    first: the same seed gives the same weights on the same machine where the steps come first.
    """

    seed: int = 5
    steps: int = 3600
    budget_s: float = 4500.0
    head_steps: int = 400
    head_budget_s: float = 600.0
    rows: int = 8
    length: int = 641
    watch_every: int = 200
    threads: int = 2
    layout: Layout = field(default_factory=Layout)


@dataclass
class Progress:
    """Where a run stands: steps and seconds of the whole model's training, and of the head's alone.

    `history` holds one entry a report or watch.
    """

    step: int = 0
    elapsed_s: float = 0.0
    head_step: int = 0
    head_elapsed_s: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)

    def took(self, seconds: float, head_alone: bool) -> None:
        """Count one step."""
        if head_alone:
            self.head_step += 1
            self.head_elapsed_s += seconds
        else:
            self.step += 1
            self.elapsed_s += seconds

    def place(self) -> dict[str, Any]:
        """Steps and seconds so far, both parts together."""
        return {"step": self.step + self.head_step, "elapsed_s": round(self.elapsed_s + self.head_elapsed_s, 1)}


def rate_factor(settings: Settings, progress: Progress) -> float:
    """The whole model's rate as a fraction of the full one: warm-up, plateau, then straight to zero."""
    done = max(progress.step / settings.steps, progress.elapsed_s / settings.budget_s)
    fall = min(1.0, (1 - done) / (1 - FULL_RATE_UNTIL))
    return max(0.0, fall) * min(1.0, (progress.step + 1) / WARM_UP_STEPS)


def head_rate_factor(settings: Settings, progress: Progress) -> float:
    """The rate of the head alone: straight to zero from its start."""
    if progress.head_step >= settings.head_steps:
        return 0.0
    done = max(progress.head_step / settings.head_steps, progress.head_elapsed_s / settings.head_budget_s)
    return HEAD_RATE * max(0.0, 1 - done) * min(1.0, (progress.head_step + 1) / WARM_UP_STEPS)


def train(settings: Settings, training: Corpus, held_out: Corpus, tokenizer: Tokenizer, folder: Path) -> Decoder:
    """Train, or go on from the checkpoint in `folder` (created), and return the model; history.json lies beside it.

    Raises ValueError for a checkpoint of other settings.
    """
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / "checkpoint.pt"
    model = Decoder(settings.layout)
    initialise(model, settings.seed)
    optimiser, progress = Optimiser(model), Progress()
    if checkpoint.exists():
        progress, optimiser = _resume(checkpoint, settings, model)
        _say(f"goes on at step {progress.step + progress.head_step}")
    shape = (WATCH_ROWS, settings.length)
    watched = {kind: held_out_rows(held_out, tokenizer, settings.seed, kind, shape) for kind in MIXTURE}
    model.train()
    # Each worker computes on one thread: torch's own threads wait for each other, and a busy machine then stops them all.
    torch.set_num_threads(1)
    with ThreadPoolExecutor(settings.threads, initializer=torch.set_num_threads, initargs=(1,)) as workers:
        saved = time.monotonic()
        while (factor := rate_factor(settings, progress) or head_rate_factor(settings, progress)) > 0:
            head_alone = not rate_factor(settings, progress)
            if head_alone and not progress.head_step:
                _watch(model, watched, progress)
                optimiser = Optimiser(model.head)
            began = time.monotonic()
            step = progress.step + progress.head_step
            rows = training_rows(training, tokenizer, settings.seed, step, (settings.rows, settings.length))
            report = _step(model, optimiser, workers, rows, step, factor, head_alone)
            progress.took(time.monotonic() - began, head_alone)
            if (step + 1) % REPORT_EVERY == 0:
                entry = {**progress.place(), "rate": round(factor, 4), **report}
                progress.history.append(entry)
                _say(json.dumps(entry))
            if (step + 1) % settings.watch_every == 0:
                _watch(model, watched, progress)
            if time.monotonic() - saved > CHECKPOINT_EVERY_S:
                _save(checkpoint, settings, model, optimiser, progress)
                saved = time.monotonic()
    _watch(model, watched, progress)
    _save(checkpoint, settings, model, optimiser, progress)
    (folder / "history.json").write_text(json.dumps(progress.history, indent=1) + "\n")
    return model


def tokenizer_of(training: Corpus, settings: Settings, documents: int = 6000) -> Tokenizer:
    """The tokenizer, learnt from conversations drawn as in training."""
    rng = torch.Generator().manual_seed(settings.seed)
    seeds = torch.randint(2**31, (documents,), generator=rng).tolist()
    return learn_tokenizer(_texts(training, seeds), settings.layout.vocabulary)


def _texts(training: Corpus, seeds: list[int]) -> list[str]:
    make = makers(training, held_out=False)
    kinds, shares = list(MIXTURE), np.array(list(MIXTURE.values()))
    texts = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        conversation = make[str(rng.choice(kinds, p=shares / shares.sum()))](rng)
        texts.append("\n".join(filter(None, (conversation.prompt, conversation.thinking, conversation.reply))))
    return texts


def _step(
    model: Decoder, optimiser: Optimiser, workers: Executor, rows: Rows, step: int, factor: float, head_alone: bool
) -> dict[str, Any]:
    """One step of the optimiser. The workers take the rows one by one: a core that is taken away slows one of them only."""
    late = factor < LATE_BELOW_RATE and step >= WARM_UP_STEPS
    every = HEAD_CHAIN_EVERY if head_alone else CHAIN_EVERY_LATE if late else CHAIN_EVERY
    starts = torch.arange(step % every, rows.tokens.shape[1] - 1 - DEPTH, every)
    parameters = list((model.head if head_alone else model).parameters())

    def gradients(part: Rows) -> tuple[Losses, tuple[Tensor, ...]]:
        if head_alone:
            found = head_losses(model, part, starts)
            return found, torch.autograd.grad(found.head.mean(), parameters)
        found = losses(model, part, starts, follow_decoder=late)
        return found, torch.autograd.grad(found.total(), parameters)

    done = list(workers.map(gradients, rows.split(ROWS_A_PART)))
    for number, parameter in enumerate(parameters):
        parameter.grad = torch.stack([part[1][number] for part in done]).mean(dim=0)
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimiser.step(factor, workers)
    for name, module in model.named_modules():
        if isinstance(module, Experts):
            module.balance(BALANCE_RATE * factor if name.startswith("head.") or not head_alone else 0.0)
    decoder = torch.stack([part[0].decoder.detach() for part in done]).mean()
    head = torch.stack([part[0].head.detach() for part in done]).mean(dim=0)
    return {"loss": round(float(decoder), 4), "head_loss": [round(float(value), 4) for value in head]}


def _watch(model: Decoder, watched: dict[str, Any], progress: Progress) -> None:
    found = {kind: asdict(watch(model, rows)) for kind, rows in watched.items()}
    progress.history.append({**progress.place(), "held_out": found})
    for kind, values in found.items():
        drafts = " ".join(f"{share:.3f}" for share in values["drafts_match"])
        choices = " ".join(f"{share:.3f}" for share in values["choices_match"])
        _say(f"step {progress.place()['step']} held-out {kind}: loss {values['loss']:.3f}, drafts {drafts}, ceiling {choices}")


def _save(path: Path, settings: Settings, model: Decoder, optimiser: Optimiser, progress: Progress) -> None:
    state = {
        "settings": {**asdict(settings), "layout": layout_values(settings.layout)},
        "model": model.state_dict(),
        "optimiser": optimiser.state(),
        "progress": asdict(progress),
    }
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def _resume(path: Path, settings: Settings, model: Decoder) -> tuple[Progress, Optimiser]:
    state = torch.load(path, weights_only=True)
    layout = layout_from(state["settings"]["layout"])
    if layout != settings.layout or state["settings"]["seed"] != settings.seed:
        raise ValueError(f"{path}: was written with {state['settings']}; remove it to start anew with {settings}")
    model.load_state_dict(state["model"])
    progress = Progress(**state["progress"])
    optimiser = Optimiser(model.head if progress.head_step else model)
    optimiser.restore(state["optimiser"])
    return progress, optimiser


def _say(text: str) -> None:
    print(text, flush=True)
