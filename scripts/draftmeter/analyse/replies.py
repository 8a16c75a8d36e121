"""What replies were worth: the same without speculation where nothing is left to chance, and right where that is known."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from draftmeter.analyse.baseline import Pair
from draftmeter.analyse.facts import AnalysisError, count_fact, fact
from draftmeter.analyse.tables import Tables, numbers
from draftmeter.facts import Fact
from draftmeter.stats.ratios import share_over_clusters, summed_by

FloatArray = NDArray[np.float64]
TextArray = NDArray[np.str_]

SAME = "requests at temperature 0 whose reply has the same tokens with speculation and without"


def reply_facts(workload: str, tables: Tables, pairs: Iterable[Pair], confidence: float) -> dict[str, Fact]:
    """Facts `<workload>.<quantity>`; none where no request was sent at temperature 0 on both sides, and none was scored."""
    facts: dict[str, Fact] = {}
    greedy = [pair for pair in pairs if pair.workload == workload and pair.greedy]
    if greedy:
        facts |= _same_replies(greedy, confidence)
    scored = tables.of_workload(workload).requests, tables.without_speculation(workload).requests
    for name, words, requests in zip(("score", "score_without"), ("with", "without"), scored, strict=True):
        if requests["score"].notna().any():
            facts[name] = _score(requests, f"{words} speculation", workload, confidence)
    return {f"{workload}.{quantity}": one for quantity, one in facts.items()}


def _same_replies(pairs: list[Pair], confidence: float) -> dict[str, Fact]:
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
