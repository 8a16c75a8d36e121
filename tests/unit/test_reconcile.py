"""The cross-checks: residual 0 for a consistent record, and each inconsistency found by its own check."""

from typing import Any

import pytest
from made_up_records import START, log_lines, random_requests, record, request, server_states

from draftmeter.collect.loglines import read_intervals
from draftmeter.collect.prometheus import Difference, count_changes, difference, read_scrape
from draftmeter.collect.reconcile import Check, Sources, reconcile
from draftmeter.record import RequestRow
from made_up_server import ServerState, exposition

ROWS = random_requests(12)


def consistent(rows: list[RequestRow] = ROWS, **changes: Any) -> Sources:
    before, after = (read_scrape(exposition(state)) for state in server_states(rows))
    intervals = read_intervals(log_lines(rows), zone="+00:00", start=START, log_interval_s=2.0, k=before.k)
    values = {
        "record": record("traffic", requests=len(rows)),
        "before": before,
        "after": after,
        "counts": difference(before, after),
        "requests": rows,
        "intervals": intervals,
    }
    return Sources(**{**values, **changes})


def not_ok(sources: Sources) -> dict[str, Check]:
    return {check.check: check for check in reconcile(sources) if check.status != "ok"}


def with_counts(**changes: Any) -> Sources:
    counts = consistent().counts
    values = {name: getattr(counts, name) for name in Difference.__dataclass_fields__}
    return consistent(counts=Difference(**{**values, **changes}))


@pytest.mark.parametrize("k", [1, 3, 5])
def test_a_consistent_record_has_residual_zero_everywhere(k: int) -> None:
    checks = reconcile(consistent(random_requests(12, k=k)))
    assert {check.status for check in checks} == {"ok"}
    assert max(abs(check.residual or 0) for check in checks) < 1e-12
    assert len({check.check for check in checks}) == len(checks) == 17 + k
    assert all(check.reason == "" for check in checks)


def test_another_client_shows_as_the_residual_of_counters_over_own_requests() -> None:
    foreign = request(99, [1, 2, 3, 4])
    sources = consistent([*ROWS, foreign])
    found = not_ok(consistent(counts=sources.counts, intervals=sources.intervals))
    residuals = {name: check.residual for name, check in found.items()}
    own = sum(row.drafts or 0 for row in ROWS)
    assert residuals == {
        "counters against requests: drafts": 10,
        "counters against requests: draft tokens": 30,
        "counters against requests: accepted": 20,
        "counters against requests: accepted at 1": 9,
        "counters against requests: accepted at 2": 7,
        "counters against requests: accepted at 3": 4,
        "counters against requests: generation tokens": 30,
        "counters against requests: requests": 1,
        "other clients' share of drafts": pytest.approx(10 / (own + 10)),
    }
    assert {check.status for check in found.values()} == {"failed"}
    assert f"found {own + 10}, expected {own} drafts" in found["counters against requests: drafts"].reason


def test_a_missing_line_shows_as_a_negative_residual_of_lines() -> None:
    sources = consistent()
    last = sources.intervals[-1]
    found = not_ok(consistent(intervals=sources.intervals[:-1]))
    assert {name: check.residual for name, check in found.items()} == {
        "lines against counters: draft tokens": -last.drafted,
        "lines against counters: accepted": -last.accepted,
    }


def test_a_log_without_a_line_is_unknown_not_failed() -> None:
    found = not_ok(consistent(intervals=[]))
    assert set(found) == {"lines against counters: draft tokens", "lines against counters: accepted"}
    assert all(check.status == "unknown" and check.residual is None for check in found.values())
    assert all(check.reason == "the log has no SpecDecoding line of this run" for check in found.values())


def test_requests_without_acceptance_make_their_sums_unknown() -> None:
    rows = [*ROWS[:-1], ROWS[-1].model_copy(update={"acceptance_histogram": None, "drafts": None})]
    found = not_ok(consistent(requests=rows))
    assert {check.status for check in found.values()} == {"unknown"}
    assert {check.reason for check in found.values()} == {"1 of 12 requests carry no such count"}
    assert set(found) == {
        "counters against requests: drafts",
        *(f"counters against requests: accepted at {k}" for k in (1, 2, 3)),
        "other clients' share of drafts",
    }


def test_errors_and_unfinished_requests_are_counted() -> None:
    rows = [
        ROWS[0].model_copy(update={"error": "status 500"}),
        ROWS[1].model_copy(update={"finish_reason": None}),
        *ROWS[2:],
    ]
    check = not_ok(consistent(requests=rows))["requests finished without error"]
    assert (check.status, check.expected, check.found, check.residual) == ("failed", 12, 10, -2)


def test_histograms_are_checked() -> None:
    rows = [
        ROWS[0].model_copy(update={"acceptance_histogram": [*(ROWS[0].acceptance_histogram or []), 0]}),
        ROWS[1].model_copy(update={"drafts": 1}),
        *ROWS[2:],
    ]
    found = not_ok(consistent(requests=rows))
    assert found["histograms without K + 1 counts"].residual == 1
    assert found["histograms that do not add up"].residual == 1


def test_no_histogram_at_all_is_unknown() -> None:
    rows = [row.model_copy(update={"acceptance_histogram": None}) for row in ROWS]
    found = not_ok(consistent(requests=rows))
    assert found["histograms without K + 1 counts"].reason == "no request carries an acceptance histogram"
    assert found["histograms without K + 1 counts"].status == "unknown"


def test_identities_of_the_counters() -> None:
    counts = consistent().counts
    one, two, three = counts.accepted_per_position
    found = not_ok(with_counts(accepted=counts.accepted + 5))
    assert found["accepted is the sum over positions"].residual == -5
    assert found["one plus the shares is the mean length"].residual == pytest.approx(-5 / counts.drafts)
    assert not_ok(with_counts(accepted_per_position=(two, one, three)))["shares do not rise"].residual == 1
    above = (counts.drafts + 1, two, three)
    assert not_ok(with_counts(accepted_per_position=above))["shares do not rise"].status == "failed"


def test_a_run_without_drafts_has_no_mean_length() -> None:
    state = ServerState([0, 0, 0, 0])
    scrape = read_scrape(exposition(state))
    sources = consistent(before=scrape, after=scrape, counts=difference(scrape, scrape), requests=[], intervals=[])
    found = not_ok(sources)
    for name in ("one plus the shares is the mean length", "other clients' share of drafts"):
        assert (found[name].status, found[name].reason) == ("unknown", "the server made no draft during the run")


def test_falling_counters_and_a_restart_are_failed_checks() -> None:
    sources = consistent()
    found = not_ok(consistent(before=sources.after, after=sources.before))
    check = found["counters never fall"]
    changes = count_changes(sources.after, sources.before)
    assert (check.status, check.found) == ("failed", sum(change < 0 for change in changes.values()))
    restarted = read_scrape(exposition(server_states(ROWS)[1], start_time=1796000001.25))
    assert not_ok(consistent(after=restarted))["start time unchanged"].residual == 1


def test_a_server_without_a_start_time_is_unknown() -> None:
    before, after = (read_scrape(exposition(state, start_time=None)) for state in server_states(ROWS))
    found = not_ok(consistent(before=before, after=after))
    assert (found["start time unchanged"].status, len(found)) == ("unknown", 1)
    assert found["start time unchanged"].reason == "the server shows no start time"


def test_a_record_that_gives_no_number_of_requests_is_unknown() -> None:
    assert not_ok(consistent(record=record("traffic")))["requests recorded"].reason == "record.json has none"
