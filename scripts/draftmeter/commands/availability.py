"""What a server, a config or a file offers a study, and what the study could and could not say from it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """Whether something is there; null: it cannot be seen from here. `detail` says how, or why not."""

    there: bool | None
    detail: str


@dataclass(frozen=True)
class Availability:
    """What one subject offers. `intervals`: whether counters are read often enough for intervals of their own."""

    subject: str
    kind: str
    engine_version: str | None
    models: Sequence[str]
    k: int | None
    k_from: str
    log_interval_s: float | None
    log_interval_from: str
    counters: Answer
    counters_by_position: Answer
    per_request_metrics: Answer
    log_lines: Answer
    intervals: bool
    problems: Sequence[str] = ()
    blocking: Sequence[str] = ()
    """Problems that make a study impossible, whatever else is there."""
    baseline: bool = False
    """Whether a study runs it without speculation, to compare with: it has no acceptance to measure."""

    @property
    def possible(self) -> bool:
        """Whether a study can be made of it: acceptance by position must be known from somewhere."""
        if self.blocking:
            return False
        return self.baseline or bool(self.counters_by_position.there or (self.log_lines.there and self.k is not None))

    def can(self) -> list[str]:
        """Sentences: what a study could say."""
        said: list[str] = []
        if self.blocking:
            return said
        if self.baseline:
            return ["Emitted tokens per second without speculation, beside the same runs of a server with it."]
        if self.counters_by_position.there:
            said.append(
                "Acceptance, the chance at each position and tokens per step, exact from the server's counters; "
                "also at every shorter draft, if the draft policy is unchanged."
            )
        elif self.counters.there:
            said.append("Accepted over drafted and tokens per step from the server's counters, but not by position.")
        if self.log_lines.there:
            said.append("How acceptance varies between the intervals of the log, with load, and how long it keeps its level.")
        elif self.intervals:
            said.append("How acceptance varies between intervals, from differences of counters that are read often enough.")
        if self.log_lines.there and self.counters.there:
            said.append("Whether the log is complete: its lines against the counters.")
        if self.log_lines.there and not self.counters.there and self.k is not None:
            said.append("Acceptance by position and tokens per step, as far as the log is complete.")
        if self.per_request_metrics.there:
            said.append("Acceptance by request: confidence intervals by prompt or session, and the share of other clients.")
        return said

    def cannot(self) -> list[str]:
        """Sentences: what a study could not say, and why."""
        said: list[str] = []
        if self.blocking:
            return said
        if self.baseline:
            return ["Anything about acceptance: it makes no drafts."]
        if not self.counters.there:
            said.append(f"Nothing from counters: {self.counters.detail}.")
        elif not self.counters_by_position.there:
            said.append(f"No chance by position from counters: {self.counters_by_position.detail}.")
        if not self.log_lines.there and not self.intervals:
            said.append(f"Nothing about intervals: {self.log_lines.detail}.")
        if not self.per_request_metrics.there:
            said.append(f"Nothing by request, so no confidence intervals from requests: {self.per_request_metrics.detail}.")
        if self.log_lines.there and not self.counters.there:
            said.append("Not whether the log misses intervals, nor emitted tokens per step: that needs counters.")
        return said

    def as_data(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        return {**asdict(self), "study_possible": self.possible, "could_say": self.can(), "could_not_say": self.cannot()}

    def lines(self) -> list[str]:
        """Everything as lines of text."""
        facts = {
            "engine": f"vLLM {self.engine_version or '(version unknown)'}",
            "models": ", ".join(self.models) or "unknown",
            "K": f"{'none' if self.baseline else self.k or 'unknown'} ({self.k_from})",
            "log interval": f"{_seconds(self.log_interval_s)} ({self.log_interval_from})",
            "counters": _said(self.counters),
            "counters by position": _said(self.counters_by_position),
            "per-request metrics": _said(self.per_request_metrics),
            "log lines": _said(self.log_lines),
        }
        can, cannot = self.can(), self.cannot()
        return [
            f"{self.subject} ({self.kind})",
            *([] if self.blocking else [f"  {name:21} {text}" for name, text in facts.items()]),
            *(f"  problem: {problem}" for problem in (*self.blocking, *self.problems)),
            *(["  A study could say:", *(f"  + {sentence}" for sentence in can)] if can else []),
            *(["  It could not say:", *(f"  - {sentence}" for sentence in cannot)] if cannot else []),
            f"  A study of it is {'possible' if self.possible else 'not possible'}.",
        ]


def _said(answer: Answer) -> str:
    return f"{ {True: 'yes', False: 'no', None: 'unknown'}[answer.there] }: {answer.detail}"


def _seconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds:g} s"
