"""What a reader has to know of a series of scrapes, in sentences: restarts, gaps, engines that come and go, what was not used."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from draftmeter.formats.counters import EngineKey
from draftmeter.formats.lifetimes import Counted

LISTED = 20
SUSPICIOUS_RESTARTS = 5
SUSPICIOUS_SHARE = 0.02


def notes_of(
    pace_s: float, tally: Mapping[str, int], problems: Counter[str], counted: Mapping[EngineKey, Sequence[Counted]]
) -> tuple[str, ...]:
    """The sentences, the most general first. `tally` counts scrapes and pairs of scrapes by what became of them."""
    scrapes = tally["scrapes"]
    found = [
        *(_of(problem, n, scrapes) for problem, n in problems.most_common(LISTED)),
        *_more(len(problems)),
        *_pairs(pace_s, tally),
        *_restarts(counted, scrapes),
        *_comings_and_goings(counted),
    ]
    return tuple(found)


def _of(problem: str, n: int, scrapes: int) -> str:
    return problem if n == scrapes else f"{problem} (in {n} of {scrapes} scrapes)"


def _more(n: int) -> list[str]:
    return [f"... and {n - LISTED} more"] if n > LISTED else []


def _pairs(pace_s: float, tally: Mapping[str, int]) -> list[str]:
    pace = f"the pace of {pace_s:g} s"
    sentences = {
        "not later": "{n} were not later than the one before and are not used",
        "incomplete": "{n} were cut short or lacked counts that others have, and are not used",
        "gap": f"{{n}} followed the one before after more than 1.5 times {pace}: no interval, but the increase is in the totals",
        "changed": "{n} found a server restarted or another set of engines: no interval, but the increase is in the totals",
        "joined": f"{{n}} followed the one before within half of {pace}: joined to the next interval",
        "idle": "{n} ended an interval without a draft: not listed",
    }
    return [f"of {tally['scrapes']} scrapes, {text.format(n=tally[name])}" for name, text in sentences.items() if tally[name]]


def _restarts(counted: Mapping[EngineKey, Sequence[Counted]], scrapes: int) -> list[str]:
    lives = [one for each in counted.values() for one in each]
    restarts = sorted({one.restart for one in lives if one.restart is not None}, key=lambda one: one.before)
    sentences = []
    for restart in restarts[:LISTED]:
        who = f"the server {restart.replica}" if restart.replica else "the server"
        began = f" (it began at {_time(restart.began)})" if restart.began is not None else ""
        sentences.append(
            f"{who} restarted between {_time(restart.after)} and {_time(restart.before)}{began}: "
            "what it counted between the last scrape and its end is unknown"
        )
    sentences += _more(len(restarts))
    unexplained = sum(restart.began is None for restart in restarts)
    if unexplained >= max(SUSPICIOUS_RESTARTS, SUSPICIOUS_SHARE * scrapes):
        sentences.append(
            f"counts fell {unexplained} times: perhaps several servers answer in turn at this address (a load balancer); "
            "the totals are then wrong: read each server at its own address"
        )
    if any(one.in_turn for one in lives):
        sentences.append(
            "several server processes answer in turn at this address (a load balancer?): each was counted by itself, "
            "from its first scrape to its last"
        )
    ks = list(dict.fromkeys(one.life.last.k for one in lives if one.life.last.drafts and one.life.last.k is not None))
    if len(ks) > 1:
        sentences.append(f"K is not the same throughout ({', '.join(map(str, ks))}): sums over different K have no positions")
    return sentences


def _comings_and_goings(counted: Mapping[EngineKey, Sequence[Counted]]) -> list[str]:
    if not counted:
        return []
    first = min(lives[0].life.first_t for lives in counted.values())
    last = max(one.life.last_t for lives in counted.values() for one in lives)
    sentences = []
    for key, lives in counted.items():
        who = f"engine {key.label or 'without a number'}" + (f" (model {key.model})" if _several(key.model, counted) else "")
        if lives[0].life.first_t > first:
            how = "began within the series and is counted whole"
            if not lives[0].whole:
                how = "is counted from there: what it had counted before is not included"
            sentences.append(f"{who} first appears at {_time(lives[0].life.first_t)} and {how}")
        seen_last = max(one.life.last_t for one in lives)
        if seen_last < last:
            sentences.append(f"{who} is last seen at {_time(seen_last)}; what it counted after that is unknown")
    return sentences[:LISTED] + _more(len(sentences))


def _several(model: str, counted: Iterable[EngineKey]) -> bool:
    return any(key.model != model for key in counted)


def _time(t: float | None) -> str:
    return "an unknown time" if t is None else datetime.fromtimestamp(t, UTC).isoformat(timespec="seconds")
