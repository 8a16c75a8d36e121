"""Parts that share one plan of blocks, and the names of those that could not be made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from draftmeter.stats.blocks import Blocks
from draftmeter.stats.resample import BlockEstimate, Joint, Part, estimate


@dataclass
class Collection:
    """Add parts, then estimate them together: one set of resamples serves all."""

    blocks: Blocks
    confidence: float
    resamples: int
    seed: int
    parts: list[Part] = field(default_factory=list)
    unknown: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    """Names that belong together, and why they could not be made."""

    def add(self, names: Sequence[str], make: Callable[[Blocks], Part], reason: str | None = None) -> None:
        """Add the part that `make` makes, or, with a `reason`, note why its `names` are unknown."""
        if reason is None:
            self.parts.append(make(self.blocks))
        else:
            self.unknown.append((tuple(names), reason))

    def estimated(self) -> tuple[dict[str, BlockEstimate], dict[str, Joint]]:
        """All estimates by name, and by the name of each the joint estimate of its part."""
        every = [
            Joint(dict.fromkeys(names, self._nothing(reason)), np.full((len(names), len(names)), np.nan), np.ones(len(names)))
            for names, reason in self.unknown
        ]
        every += estimate(self.blocks, self.parts, self.confidence, self.resamples, self.seed)
        found: dict[str, BlockEstimate] = {}
        joints: dict[str, Joint] = {}
        for joint in every:
            found |= joint.estimates
            joints |= dict.fromkeys(joint.estimates, joint)
        return found, joints

    def _nothing(self, reason: str) -> BlockEstimate:
        boots = int(self.blocks.boots.max()) + 1
        return BlockEstimate(
            None, None, None, None, "plain", 0, 0.0, None, self.blocks.length, self.resamples, boots, self.confidence, reason
        )
