"""The optimiser: orthogonalised momentum for matrices (Muon, Jordan et al. 2024), AdamW for everything else."""

from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Any

import torch
from torch import Tensor, nn

from draftmeter_training.decoder import Decoder

MATRIX_RATE = 0.02
OTHER_RATE = 4e-3
MOMENTUM = 0.95
MATRIX_DECAY = 0.01
# A quintic iteration that sends singular values to about 1 in five rounds.
QUINTIC = (3.4445, -4.7750, 2.0315)
ROUNDS = 5


class Muon(torch.optim.Optimizer):
    """Momentum whose singular values are all set to about 1 before the step; for matrices and stacks of matrices."""

    def __init__(self, matrices: Iterable[nn.Parameter]) -> None:
        super().__init__(matrices, {"lr": MATRIX_RATE})

    def step_with(self, workers: Executor) -> None:
        """One step, the matrices shared among the workers."""
        for group in self.param_groups:
            for _ in workers.map(lambda matrix: self._move(matrix, self.param_groups[0]["lr"]), group["params"]):
                pass

    @torch.no_grad()
    def _move(self, matrix: nn.Parameter, rate: float) -> None:
        assert matrix.grad is not None
        state = self.state[matrix]
        if not state:
            state["momentum"] = torch.zeros_like(matrix)
        momentum = state["momentum"].lerp_(matrix.grad, 1 - MOMENTUM)
        update = orthogonal(matrix.grad.lerp(momentum, MOMENTUM))
        scale = max(1.0, matrix.shape[-2] / matrix.shape[-1]) ** 0.5
        matrix.mul_(1 - rate * MATRIX_DECAY).add_(update, alpha=-rate * scale)


def orthogonal(matrices: Tensor) -> Tensor:
    """The nearest matrix with singular values near 1, for each matrix of shape (..., n, m)."""
    a, b, c = QUINTIC
    wide = matrices.shape[-2] <= matrices.shape[-1]
    x = matrices if wide else matrices.mT
    size: Tensor = torch.linalg.matrix_norm(x, keepdim=True)
    x = x / (size + 1e-7)
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if wide else x.mT


class Optimiser:
    """Both optimisers under one rate factor, for a whole model or a part of it."""

    def __init__(self, model: nn.Module) -> None:
        matrices = [p for name, p in model.named_parameters() if is_matrix(name, p)]
        others = [p for name, p in model.named_parameters() if not is_matrix(name, p)]
        self.muon = Muon(matrices)
        self.adam = torch.optim.AdamW(others, lr=OTHER_RATE, betas=(0.9, 0.95), weight_decay=0.0)

    def step(self, factor: float, workers: Executor) -> None:
        """One step at `factor` (0 to 1) of the full rates."""
        for optimiser, rate in ((self.muon, MATRIX_RATE), (self.adam, OTHER_RATE)):
            for group in optimiser.param_groups:
                group["lr"] = rate * factor
        self.muon.step_with(workers)
        self.adam.step()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"muon": self.muon.state_dict(), "adam": self.adam.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])


def is_matrix(name: str, parameter: nn.Parameter) -> bool:
    """Whether a parameter is a hidden matrix: not a vector, not the embedding, the output rows or a router."""
    return parameter.ndim >= 2 and not any(part in name for part in ("embed_tokens", "lm_head", ".gate.weight"))


def initialise(model: Decoder, seed: int) -> None:
    """Seeded start weights: outputs of attention and feed-forward start at zero, so that each layer starts as nothing."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim < 2:
                continue
            if name.endswith(("o_proj.weight", "down_proj.weight", ".down")):
                parameter.zero_()
            else:
                scale = 0.02 if "lm_head" in name else 1.0 if "embed_tokens" in name else parameter.shape[-1] ** -0.5
                parameter.normal_(0.0, scale, generator=generator)
