"""The same runs with speculation and without: which may be compared, and what it did to speed and
to replies.

Only tokens per second are compared, never the time of a reply, for sampled replies differ in
length. Replies are compared where nothing is left to chance, and are right or wrong where that is
known.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from draftmeter.analyse.facts import AnalysisError, count_fact, fact
from draftmeter.analyse.requests import cells_of, clusters_of_cells
from draftmeter.analyse.setup import differences
from draftmeter.analyse.tables import Measured, Tables, numbers, run_labels
from draftmeter.facts import Fact
from draftmeter.stats.estimate import Estimate
from draftmeter.stats.ratios import Clusters, ratio_of_sums, share_over_clusters, smooth_function_of_ratios, summed_by

FloatArray = NDArray[np.float64]
TextArray = NDArray[np.str_]

RUN = ["boot", "run"]
REQUEST = ["boot", "run", "request_id"]
# Fewer clusters say too little about how they differ.
FEWEST_PROMPTS = 8
PER_SECOND = "tokens per second"
TIMES = "times"
# A speed-up says nothing of speculation where pauses took so much more of the time on one side than on the other.
MOST_PAUSED = 0.05
NO_TOKEN = "no token was generated on one side"
SIDES = {"with": "with speculation", "without": "without speculation"}
SAME = "requests at temperature 0 whose reply has the same tokens with speculation and without"


@dataclass(frozen=True)
class WithAndWithout:
    """One workload at one number of streams, run with speculation and without; requests of both are in one order."""

    measured: Measured
    streams: int
    speculating: pd.DataFrame
    """Rows of the table requests."""
    baseline: pd.DataFrame
    greedy: bool
    """Whether all were sampled at temperature 0."""
    unlike: str | None
    """Why the two may not be compared."""

    @property
    def subject(self) -> str:
        """What their facts are named after."""
        return f"{self.measured.name}.streams_{self.streams}"


def runs_with_and_without(tables: Tables) -> list[WithAndWithout]:
    """Sorted by workload, streams and server: runs of one name in boots of one name, one server of them without speculation.

    Only runs that a record describes are there; session traffic, which has no number of streams, is not.
    """
    drafting = set(run_labels(tables.counters[tables.drafting]))
    runs = tables.described[np.isfinite(numbers(tables.described, "streams"))]
    labels = run_labels(tables.requests)
    found: list[WithAndWithout] = []
    for (workload, _), rung in runs.groupby(["workload", "streams"], sort=True):
        speculating, streams = run_labels(rung).isin(drafting), int(numbers(rung, "streams")[0])
        if speculating.all():
            continue
        for measured in tables.measured(str(workload)):
            own = speculating if measured.server is None else speculating & (rung["server"] == measured.server)
            if own.any():
                found.append(_both(measured, streams, rung[own], rung[~speculating], tables.requests, labels))
    return found


def _both(
    measured: Measured,
    streams: int,
    speculating: pd.DataFrame,
    baseline: pd.DataFrame,
    requests: pd.DataFrame,
    labels: "pd.Series[str]",
) -> WithAndWithout:
    keys = [pd.MultiIndex.from_frame(side[RUN]) for side in (speculating, baseline)]
    shared = keys[0].intersection(keys[1])
    runs = [side[key.isin(shared)] for side, key in zip((speculating, baseline), keys, strict=True)]
    with_it, without = (requests[labels.isin(run_labels(side))].sort_values(REQUEST, kind="stable") for side in runs)
    if shared.empty:
        unlike: str | None = "no run without speculation has the name and the boot of one with it"
    elif max(map(len, runs)) > len(shared):
        unlike = "several servers executed the same run"
    else:
        unlike = _unlike_runs(*runs) or _unlike_requests(with_it, without)
    samplings = pd.concat(runs)["sampling"]
    greedy = not shared.empty and all(json.loads(sampling).get("temperature") == 0 for sampling in samplings)
    return WithAndWithout(measured, streams, with_it, without, greedy, unlike)


def _unlike_runs(speculating: pd.DataFrame, baseline: pd.DataFrame) -> str | None:
    different = next(differences(speculating, baseline), None)
    if different is None:
        return None
    return f"not comparable: {different.key} is {different.one} with speculation and {different.other} without"


def _unlike_requests(speculating: pd.DataFrame, baseline: pd.DataFrame) -> str | None:
    ids = [set(zip(*(side[name] for name in REQUEST), strict=True)) for side in (speculating, baseline)]
    if ids[0] != ids[1] or len(speculating) != len(baseline):
        return f"not comparable: {len(ids[0] ^ ids[1])} requests were sent on one side alone"
    others = int((speculating["prompt_sha256"].to_numpy() != baseline["prompt_sha256"].to_numpy()).sum())
    return f"not comparable: {others} of {len(baseline)} requests had another prompt without speculation" if others else None


@dataclass(frozen=True)
class _Side:
    """The requests of one side, summed by prompt and boot in the order of their labels, shape (n,); or why they tell no speed."""

    unknown: str | None
    clusters: Clusters
    tokens: FloatArray
    seconds: FloatArray
    """From sending a request to its last token."""
    first_s: FloatArray
    """From sending a request to its first token."""
    paused_s: FloatArray
    """In pauses between chunks; nan where that is not known."""
    requests: FloatArray
    run_tokens: float
    run_seconds: float
    """From the first request sent to the last token, over all runs."""
    runs: int

    @property
    def paused(self) -> float | None:
        """The part of the requests' time that passed in pauses; None where that is unknown."""
        paused, seconds = float(self.paused_s.sum()), float(self.seconds.sum())
        return paused / seconds if self.unknown is None and seconds > 0 and np.isfinite(paused) else None

    @property
    def run_rate(self) -> float | None:
        """Tokens per second of the whole runs; None where that is unknown."""
        return self.run_tokens / self.run_seconds if self.unknown is None and self.run_seconds > 0 else None


def speed_facts(pairs: Iterable[WithAndWithout], confidence: float) -> dict[str, Fact]:
    """For each pair the speed of a request's stream and of the whole run, with speculation and without, and their ratios.

    Replies differ in length where they are sampled: what is compared is tokens per second, never the time of a reply.
    """
    facts: dict[str, Fact] = {}
    for pair in pairs:
        sides = {name: _side(requests) for name, requests in zip(SIDES, (pair.speculating, pair.baseline), strict=True)}
        own: dict[str, Fact] = {}
        for name, side in sides.items():
            own |= _of_side(name, side, confidence)
        own["speedup"] = _speedup(sides["with"], sides["without"], pair.unlike, confidence)
        own["tokens_per_s_ratio"] = _run_ratio(sides["with"], sides["without"], pair.unlike)
        facts |= {f"{pair.subject}.{quantity}": one for quantity, one in own.items()}
    return facts


def _side(requests: pd.DataFrame) -> _Side:
    sent, first, last, tokens = (numbers(requests, name) for name in ("t_sent", "t_first", "t_last", "reply_tokens"))
    failed = int(requests["error"].notna().sum())
    lacking = int((~np.isfinite([sent, first, last, tokens]).all(axis=0)).sum())
    unknown: str | None = None
    if not len(requests):
        unknown = "no request is known"
    elif failed:
        unknown = f"{failed} of {len(requests)} requests failed"
    elif lacking:
        unknown = f"{lacking} of {len(requests)} requests do not say their tokens or times"
    cells = cells_of(requests)
    paused = numbers(requests, "paused_s")
    sums = summed_by(cells, tokens, last - sent, first - sent, paused, np.ones(len(requests)))
    summed_tokens, seconds, first_s, paused_s, count = sums
    runs = pd.DataFrame({"sent": sent, "last": last}).groupby(run_labels(requests).to_numpy(dtype=str))
    run_seconds = float((runs["last"].max() - runs["sent"].min()).sum())
    return _Side(
        unknown,
        clusters_of_cells(np.unique(cells)),
        summed_tokens,
        seconds,
        first_s,
        paused_s,
        count,
        float(tokens.sum()),
        run_seconds,
        len(runs),
    )


def _of_side(name: str, side: _Side, confidence: float) -> dict[str, Fact]:
    words = SIDES[name]
    of_stream = f"tokens of a reply per second from sending its request to its last token, {words}, requests taken together"
    to_first = f"seconds from sending a request to its first token, {words}, on average"
    of_run = f"reply tokens per second from the first request sent to the last token, {words}"
    return {
        f"speed_{name}": _mean(side, side.tokens, side.seconds, PER_SECOND, of_stream, confidence),
        f"first_token_s_{name}": _mean(side, side.first_s, side.requests, "s", to_first, confidence),
        f"paused_share_{name}": _paused(side, words),
        f"tokens_per_s_{name}": _of_runs(side.run_rate, PER_SECOND, of_run, side.runs, side.unknown),
    }


def _mean(side: _Side, y: FloatArray, x: FloatArray, unit: str, definition: str, confidence: float) -> Fact:
    found = Estimate(None, None, None, len(x), side.unknown)
    if side.unknown is None:
        found = _enough(ratio_of_sums(y, x, confidence, side.clusters))
    method = f"own requests; {confidence:.0%} t interval, linearised, in clusters by prompt"
    return _estimated(found, unit, definition, method)


def _speedup(speculating: _Side, baseline: _Side, unlike: str | None, confidence: float) -> Fact:
    """By linearisation of the log of the ratio over prompts; the sums of a prompt on both sides are one cluster."""
    found = Estimate(None, None, None, len(baseline.tokens), unlike or _why(speculating, baseline))
    if found.unknown is None:
        sums = np.column_stack([speculating.tokens, speculating.seconds, baseline.tokens, baseline.seconds])
        found = replace(found, unknown=NO_TOKEN)
        if np.all(sums.sum(axis=0) > 0):
            found = _undisturbed(_enough(_log_ratio(sums, confidence, baseline.clusters)), speculating.paused, baseline.paused)
    definition = f"tokens per second of a request's stream, {SIDES['with']} over {SIDES['without']}"
    method = f"own requests; {confidence:.0%} t interval, linearised on the log, in clusters by prompt, both sides in one"
    return _estimated(found, TIMES, definition, method)


def _log_ratio(sums: FloatArray, confidence: float, clusters: Clusters) -> Estimate:
    """exp of log(y/x) - log(y'/x') with its interval, `sums` (y, x, y', x') of n rows in clusters, shape (n, 4)."""
    signs = np.array([1, -1, -1, 1])
    log = smooth_function_of_ratios(
        sums,
        np.ones(len(sums)),
        function=lambda means: float(signs @ np.log(means)),
        gradient=lambda means: np.asarray(signs / means, dtype=np.float64),
        confidence=confidence,
        clusters=clusters,
    )
    value, low, high = (None if end is None else float(np.exp(end)) for end in (log.value, log.low, log.high))
    return replace(log, value=value, low=low, high=high)


def _run_ratio(speculating: _Side, baseline: _Side, unlike: str | None) -> Fact:
    unknown = unlike or _why(speculating, baseline)
    ratio = None
    if unknown is None and speculating.run_rate and baseline.run_rate:
        ratio = speculating.run_rate / baseline.run_rate
    elif unknown is None:
        unknown = NO_TOKEN
    definition = f"reply tokens per second of whole runs, {SIDES['with']} over {SIDES['without']}"
    return _of_runs(ratio, TIMES, definition, baseline.runs, unknown)


def _why(*sides: _Side) -> str | None:
    return next((f"{side.unknown} {words}" for side, words in zip(sides, SIDES.values(), strict=True) if side.unknown), None)


def _enough(found: Estimate) -> Estimate:
    if found.n >= FEWEST_PROMPTS or found.value is None:
        return found
    return found.without_interval(f"no interval: {found.n} prompts, at least {FEWEST_PROMPTS} are needed")


def _paused(side: _Side, words: str) -> Fact:
    return fact(
        side.paused,
        unit="fraction",
        definition=f"part of the requests' time in which a reply stood still for more than half a second, {words}",
        method="own requests",
        n=int(side.requests.sum()),
        n_unit="requests",
        unknown=None if side.paused is not None else side.unknown or "the times between chunks are not known",
    )


def _undisturbed(found: Estimate, speculating: float | None, baseline: float | None) -> Estimate:
    """Without an interval where one side stood still much longer than the other: that is hardly the work of speculation."""
    if found.low is None or speculating is None or baseline is None or abs(speculating - baseline) <= MOST_PAUSED:
        return found
    reason = (
        f"no interval: replies stood still for {speculating:.0%} of the time with speculation and {baseline:.0%} without it, "
        "as they do on a machine that is held up by others"
    )
    return found.without_interval(reason)


def _estimated(found: Estimate, unit: str, definition: str, method: str) -> Fact:
    return fact(
        found.value,
        low=found.low,
        high=found.high,
        unit=unit,
        definition=definition,
        method=method if found.low is not None else "own requests",
        n=found.n,
        n_unit="prompts",
        unknown=found.unknown,
    )


def _of_runs(value: float | None, unit: str, definition: str, runs: int, unknown: str | None) -> Fact:
    """A figure of whole runs; how much it differs from one run to the next cannot be known from so few."""
    if value is None:
        unknown = unknown or "the run took no time"
    else:
        unknown = "no interval: it is of one run" if runs == 1 else f"no interval: it is of {runs} runs alone"
    return fact(value, unit=unit, definition=definition, method="own requests", n=runs, n_unit="runs", unknown=unknown)


def reply_facts(measured: Measured, tables: Tables, pairs: Iterable[WithAndWithout], confidence: float) -> dict[str, Fact]:
    """Facts of `measured`; none where no request was sent at temperature 0 on both sides, and none was scored."""
    facts: dict[str, Fact] = {}
    greedy = [pair for pair in pairs if pair.measured == measured and pair.greedy]
    if greedy:
        facts |= _same_replies(greedy, confidence)
    scored = tables.of(measured).requests, tables.without_speculation(measured.workload).requests
    for name, words, requests in zip(("score", "score_without"), ("with", "without"), scored, strict=True):
        if requests["score"].notna().any():
            facts[name] = _score(requests, f"{words} speculation", measured.name, confidence)
    return {f"{measured.name}.{quantity}": one for quantity, one in facts.items()}


def _same_replies(pairs: list[WithAndWithout], confidence: float) -> dict[str, Fact]:
    definition = f"{SAME}, over those that have both replies"
    unlike = next((pair.unlike for pair in pairs if pair.unlike), None)
    if unlike:
        counted = count_fact(None, SAME, "own requests", 0, "requests", unlike)
        share = fact(None, unit="fraction", definition=definition, method="own requests", n=0, n_unit="requests", unknown=unlike)
        return {"same_replies": share, "same_replies_count": counted}
    speculating, baseline = (pd.concat(side) for side in ([p.speculating for p in pairs], [p.baseline for p in pairs]))
    hashes = [side["reply_token_sha256"].where(side["error"].isna()) for side in (speculating, baseline)]
    both = np.asarray(hashes[0].notna().to_numpy(bool) & hashes[1].notna().to_numpy(bool))
    same = np.asarray([one == other for one, other in zip(*(column[both] for column in hashes), strict=True)], dtype=np.float64)
    missing = int((~both).sum())
    left_out = f"; {missing} of {len(both)} requests lack a reply and are left out" if missing else ""
    prompts = baseline["prompt_sha256"].to_numpy(dtype=str)[both]
    total = float(same.sum()) if both.any() else None
    return {
        "same_replies": _share(same, prompts, definition, left_out, confidence),
        "same_replies_count": count_fact(
            total, SAME, f"own requests{left_out}", len(same), "requests", None if both.any() else "no request has both replies"
        ),
    }


def _score(requests: pd.DataFrame, words: str, workload: str, confidence: float) -> Fact:
    scores = numbers(requests, "score")
    scored = np.isfinite(scores)
    wrong = scores[scored & ((scores < 0) | (scores > 1))]
    if len(wrong):
        raise AnalysisError(f"table requests: workload {workload} has the score {wrong[0]:g}; a score lies between 0 and 1")
    failed = int((requests["error"].notna().to_numpy(bool) & ~scored).sum())
    left_out = f"; {failed} failed requests have none and are left out" if failed else ""
    definition = f"requests answered right, over those whose prompt has a known answer, {words}"
    return _share(scores[scored], requests["prompt_sha256"].to_numpy(dtype=str)[scored], definition, left_out, confidence)


def _share(hits: FloatArray, prompts: TextArray, definition: str, left_out: str, confidence: float) -> Fact:
    """The mean of `hits` between 0 and 1, shape (n,), in clusters by prompt."""
    source = f"own requests{left_out}"
    if not len(hits):
        unknown = "no request has both replies"
        return fact(None, unit="fraction", definition=definition, method=source, n=0, n_unit="requests", unknown=unknown)
    summed, counts = summed_by(prompts, hits, np.ones(len(hits)))
    found = share_over_clusters(summed, counts, confidence)
    alone = len(np.unique(prompts)) == len(prompts)
    clusters = "" if alone else f" at {found.effective:.4g} effective requests, in clusters by prompt"
    return fact(
        found.estimate.value,
        low=found.estimate.low,
        high=found.estimate.high,
        unit="fraction",
        definition=definition,
        method=f"{source}; {found.estimate.method}{clusters}",
        n=len(hits),
        n_unit="requests",
    )
