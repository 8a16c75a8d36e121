"""The cross-checks: residual 0 for a consistent record, and each inconsistency found by its own check."""

import io
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from draftmeter.collect.reconcile import Check, Sources, reconcile
from draftmeter.formats.counters import EngineReading, fallen, rise
from draftmeter.formats.log import Known, read_log
from draftmeter.formats.metrics import read_strict
from draftmeter.record.run import OtherClients, RequestRow
from made_up_records import START, log_lines, random_requests, record, request, server_states
from made_up_server import ServerState, exposition

ROWS = random_requests(12)


def server(text: str) -> EngineReading:
    return read_strict(text).rows()[0]


def consistent(rows: list[RequestRow] = ROWS, **changes: Any) -> Sources:
    before, after = (server(exposition(state)) for state in server_states(rows))
    log = io.BytesIO("".join(f"{line}\n" for line in log_lines(rows)).encode())
    reading = read_log(log, Known(zone="+00:00", near_start=START, log_interval_s=2.0, k=before.counters.k))
    values = {
        "record": record("traffic", requests=len(rows)),
        "before": before,
        "after": after,
        "counts": rise(before.counters, after.counters),
        "requests": rows,
        "intervals": [row for batch in reading.batches() for row in batch.to_pylist()],
    }
    return Sources(**{**values, **changes})


def not_ok(sources: Sources) -> dict[str, Check]:
    return {check.check: check for check in reconcile(sources) if check.status != "ok"}


def with_counts(**changes: Any) -> Sources:
    return consistent(counts=replace(consistent().counts, **changes))


@pytest.mark.parametrize("k", [1, 3, 5])
def test_a_consistent_record_has_residual_zero_everywhere(k: int) -> None:
    checks = reconcile(consistent(random_requests(12, k=k)))
    assert {check.status for check in checks} == {"ok"}
    assert max(abs(check.residual or 0) for check in checks) < 1e-12
    assert len({check.check for check in checks}) == len(checks) == 19 + k
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


def test_a_failed_request_may_have_got_anything_up_to_its_limit() -> None:
    """The server counted all twelve; the last reply broke off, and its row says nothing."""
    whole = consistent()
    nothing = {"reply_tokens": None, "drafts": None, "draft_tokens": None, "accepted_tokens": None}
    lost = {**nothing, "acceptance_histogram": None, "finish_reason": None, "error": "the stream broke off"}
    rows = [*ROWS[:-1], ROWS[-1].model_copy(update=lost)]
    borne = whole.record.model_copy(update={"errors": 1})
    assert not_ok(replace(whole, requests=rows, record=borne)) == {}
    assert set(not_ok(replace(whole, requests=rows))) == {"requests finished without error"}
    assert set(not_ok(replace(whole, requests=rows, record=borne, counts=replace(whole.counts, requests_finished=13)))) == {
        "counters against requests: requests"
    }
    drafts = whole.counts.drafts
    assert drafts is not None
    many = replace(whole, requests=rows, record=borne, counts=replace(whole.counts, drafts=drafts + ROWS[-1].max_tokens + 1))
    assert "counters against requests: drafts" in not_ok(many)


def test_a_run_with_other_clients_within_its_limit_is_not_compared_with_own_requests() -> None:
    sources = consistent([*ROWS, request(99, [1, 2, 3, 4])])
    marked = sources.record.model_copy(
        update={"requests": len(ROWS), "other_clients": OtherClients(requests=1, generation_tokens=30, share=0.08)}
    )
    found = not_ok(replace(sources, requests=ROWS, record=marked))
    assert found and {check.status for check in found.values()} == {"unknown"}
    assert {check.reason for check in found.values()} == {
        "other clients took part: at least 8.00% of what the server did was theirs"
    }


def test_the_times_of_lines_are_unknown_where_the_clock_was_set() -> None:
    sources = consistent()
    found = not_ok(replace(sources, record=sources.record.model_copy(update={"clock_step_s": -30.0})))
    assert set(found) == {"lines within the run", "spacing of lines is the log interval"}
    assert {check.reason for check in found.values()} == {"the machine's clock was set by -30.0 s during the run"}


def test_a_missing_line_shows_as_a_negative_residual_of_lines() -> None:
    sources = consistent()
    last = sources.intervals[-1]
    found = not_ok(consistent(intervals=sources.intervals[:-1]))
    assert {name: check.residual for name, check in found.items()} == {
        "lines against counters: draft tokens": -last["drafted"],
        "lines against counters: accepted": -last["accepted"],
    }


def test_a_log_without_a_line_is_unknown_not_failed() -> None:
    found = not_ok(consistent(intervals=[]))
    spacing = found.pop("spacing of lines is the log interval")
    assert spacing.reason == "0 SpecDecoding lines; the distances between them need at least 5"
    assert set(found) == {"lines against counters: draft tokens", "lines against counters: accepted", "lines within the run"}
    assert all(check.status == "unknown" and check.residual is None for check in [spacing, *found.values()])
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
    scrape = server(exposition(state))
    sources = consistent(before=scrape, after=scrape, counts=rise(scrape.counters, scrape.counters), requests=[], intervals=[])
    found = not_ok(sources)
    for name in ("one plus the shares is the mean length", "other clients' share of drafts"):
        assert (found[name].status, found[name].reason) == ("unknown", "the server made no draft during the run")


def test_falling_counters_and_a_restart_are_failed_checks() -> None:
    sources = consistent()
    found = not_ok(consistent(before=sources.after, after=sources.before))
    check = found["counters never fall"]
    lower = fallen(sources.after.counters, sources.before.counters)
    assert (check.status, check.found) == ("failed", len(lower))
    assert f"{', '.join(lower)} fell: the server restarted between the scrapes, or their files were swapped" in check.reason
    restarted = server(exposition(server_states(ROWS)[1], start_time=1796000001.25))
    check = not_ok(consistent(after=restarted))["start time unchanged"]
    assert (check.status, check.residual) == ("failed", 1)
    assert check.reason.endswith("s: the server restarted between the scrapes")


def test_counters_that_fell_below_the_run_s_own_drafts_say_so() -> None:
    found = not_ok(with_counts(drafts=-3))
    for name in ("one plus the shares is the mean length", "other clients' share of drafts"):
        assert (found[name].status, found[name].reason) == ("unknown", "the counter of drafts fell")


def test_a_lost_request_is_a_failed_check() -> None:
    check = not_ok(consistent(record=record("traffic", requests=13)))["requests recorded"]
    assert (check.status, check.residual) == ("failed", -1)
    assert check.reason == "found 12, expected 13 requests: requests.jsonl was cut short or changed after the run"


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_log_in_another_time_zone_is_outside_the_run(hours: int) -> None:
    moved = [{**line, "end": line["end"] + 3600 * hours} for line in consistent().intervals]
    found = not_ok(consistent(intervals=moved))
    assert set(found) == {"lines within the run"}
    assert (found["lines within the run"].status, found["lines within the run"].residual) == ("failed", len(moved))
    assert "its time zone is not the record's" in found["lines within the run"].reason


@pytest.mark.parametrize(("seconds", "outside"), [(-1.5, 1), (-1.0, 0), (31.0, 0), (31.5, 1)])
def test_a_time_stamp_may_be_a_second_off(seconds: float, outside: int) -> None:
    lines = list(consistent().intervals)
    lines[0] = {**lines[0], "end": START.timestamp() + seconds}
    checks = {check.check: check for check in reconcile(consistent(intervals=lines))}
    assert checks["lines within the run"].found == outside


@pytest.mark.parametrize(("said", "status"), [(2.0, "ok"), (1.0, "ok"), (0.5, "unknown"), (5.0, "failed"), (10.0, "failed")])
def test_lines_of_another_interval_are_noticed(said: float, status: str) -> None:
    changed = record("traffic", requests=len(ROWS), log_interval_s=said)
    check = next(c for c in reconcile(consistent(record=changed)) if c.check == "spacing of lines is the log interval")
    assert (check.status, check.expected) == (status, said)
    assert check.found == (None if status == "unknown" else 2.0)
    assert ("the server's log interval is shorter than the record's" in check.reason) == (status == "failed")
    assert ("a longer log interval" in check.reason) == (status == "unknown")


def test_idle_intervals_and_few_lines_are_no_wrong_spacing() -> None:
    lines = list(consistent().intervals)
    late = [{**line, "end": line["end"] + 12} for line in lines[4:]]
    longer = record("traffic", requests=len(ROWS), end=START + timedelta(seconds=60))
    assert not not_ok(consistent(record=longer, intervals=[*lines[:4], *late]))
    check = not_ok(consistent(intervals=lines[:4]))["spacing of lines is the log interval"]
    assert (check.status, check.reason) == (
        "unknown",
        "4 SpecDecoding lines; the distances between them need at least 5",
    )


def test_a_server_without_a_start_time_is_unknown() -> None:
    before, after = (server(exposition(state, start_time=None)) for state in server_states(ROWS))
    found = not_ok(consistent(before=before, after=after))
    assert (found["start time unchanged"].status, len(found)) == ("unknown", 1)
    assert found["start time unchanged"].reason == "the server shows no start time"


def test_a_record_that_gives_no_number_of_requests_is_unknown() -> None:
    assert not_ok(consistent(record=record("traffic")))["requests recorded"].reason == "record.json has none"
