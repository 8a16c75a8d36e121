"""Properties of the log reader: any bytes are read, no window is counted twice, and other text changes nothing."""

import io
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftmeter.formats.log import Known, read_log, statistics_text
from log_generator import PREFIXES, TROUBLES, WORDINGS, make_case
from log_prefixes import Line, Prefix, print_line
from log_truth import Case, Expected, Must, cell_problem, row_problems

Rows = list[dict[str, Any]]
PER_CASE = settings(max_examples=60)


def rows_of(content: bytes, known: Known | None = None) -> Rows:
    reading = read_log(io.BytesIO(content), known or Known())
    rows = [row for batch in reading.batches() for row in batch.to_pylist()]
    assert reading.n == reading.found.intervals == len(rows)
    return rows


def assert_possible(rows: Rows) -> None:
    for row in rows:
        assert 0 <= row["accepted"] <= row["drafted"], row
        assert row["k"] is None or row["k"] >= 1, row
        at = [value for column, value in row.items() if column.removeprefix("accepted_").isdigit() and value is not None]
        if row["drafts"] is not None:
            assert row["drafts"] >= 0 and all(0 <= value <= row["drafts"] for value in at), row
        if row["drafts_exact"]:
            assert row["drafts"] * row["k"] == row["drafted"], row
        if row["accepted_k_exact"]:
            assert sum(at) == row["accepted"], row
        for column in ("running", "waiting", "window_s", "since_last_line_s", "prompt_tokens_per_s", "kv_cache_usage"):
            assert row[column] is None or row[column] >= 0, row
        assert row["start"] is None or row["start"] <= row["end"], row


def cases(troubles: Iterable[str]) -> st.SearchStrategy[Case]:
    names = [st.sampled_from(list(values)) for values in (WORDINGS, PREFIXES, troubles)]
    return st.builds(make_case, *names, st.integers(0, 10**6))


# A whole line that a prompt quotes is a line like any other if the file happens to begin with it.
WITHOUT_QUOTES = [name for name, trouble in TROUBLES.items() if trouble.hostile is None]


@given(st.binary(max_size=3000))
def test_any_bytes_are_read(content: bytes) -> None:
    assert_possible(rows_of(content))


@st.composite
def _spoilt(draw: st.DrawFn) -> bytes:
    """A generated log in which pieces were overwritten, deleted, doubled or swapped."""
    content = bytearray(draw(cases(TROUBLES)).content)
    for _ in range(draw(st.integers(1, 8))):
        if not content:
            break
        first, length = draw(st.integers(0, len(content) - 1)), draw(st.integers(0, 40))
        piece = bytes(content[first : first + length])
        new = draw(
            st.sampled_from([b"", piece + piece, piece[::-1], b"\n", b"\r", b"9", b'"', b", ", b"\xff\x00"])
            | st.binary(max_size=4)
        )
        content[first : first + length] = new
    return bytes(content)


@PER_CASE
@given(_spoilt())
def test_spoilt_logs_are_read(content: bytes) -> None:
    assert_possible(rows_of(content))


def _planted(case: Case, offset: int) -> int:
    (index,) = [i for i, item in enumerate(case.expected) if item.start <= offset < max(item.end, item.start + 1)]
    return index


def assert_each_window_at_most_once(case: Case, cuts: Iterable[int]) -> None:
    known = Known(**case.known)
    for cut in cuts:
        head, tail = rows_of(case.content[:cut], known), rows_of(case.content[cut:], known)
        found = [(_planted(case, row["offset"] + shift), row) for rows, shift in ((head, 0), (tail, cut)) for row in rows]
        windows = [index for index, _ in found]
        where = f"{case.name}, cut at {cut}: {case.content[max(0, cut - 60) : cut]!r} | {case.content[cut : cut + 60]!r}"
        assert len(set(windows)) == len(windows), f"a window counted twice: {where}"
        for index, row in found:
            planted = case.expected[index].row
            assert planted is not None, f"a row of no interval: {row}\n{where}"
            pair = (row["drafted"], row["accepted"])
            assert pair == (planted.cells["drafted"], planted.cells["accepted"]), f"wrong counts: {row}\n{where}"


@PER_CASE
@given(cases(WITHOUT_QUOTES), st.data())
def test_a_file_and_its_rest_never_count_a_window_twice(case: Case, data: st.DataObject) -> None:
    assert_each_window_at_most_once(case, [data.draw(st.integers(0, len(case.content)))])


@pytest.mark.parametrize(("wording", "prefix"), list(zip(WORDINGS, PREFIXES, strict=False)))
def test_a_cut_within_a_statistics_line(wording: str, prefix: str) -> None:
    """At places all along one line: neither part may guess what the other has."""
    random_ = random.Random(wording + prefix)
    case = make_case(wording, prefix, random_.choice(["none", "nothing and all accepted", "short drafts"]))
    record = random_.choice([item for item in case.expected if item.row is not None] or case.expected)
    assert_each_window_at_most_once(case, range(record.start + random_.randint(0, 7), record.end + 1, 8))


@pytest.mark.parametrize("wording", [name for name, wording in WORDINGS.items() if not wording.cumulative])
@pytest.mark.parametrize("trouble", ["none", "nothing and all accepted", "large counts"])
def test_a_number_cut_at_the_end_of_a_file_is_not_trusted(wording: str, trouble: str) -> None:
    """After every digit of the line's counts and rates, without any other line to compare with."""
    case = make_case(wording, "process", trouble)
    record = next(item for item in case.expected if item.must is Must.ROW)
    assert record.row is not None
    line = case.content[record.start : record.end]
    planted = (record.row.cells["drafted"], record.row.cells["accepted"])
    counts_at = line.index(b"ccepted")
    for cut in [at for at in range(counts_at, len(line) + 1) if line[at - 1 : at].isdigit() or at == len(line)]:
        for row in rows_of(line[:cut], Known(**case.known)):
            said = f"from {line[:cut].decode()}"
            pair = (row["drafted"], row["accepted"])
            assert pair == planted, f"read {pair} drafted and accepted, planted {planted}, {said}"
            for position, count in enumerate(record.row.accepted_at, start=1):
                value = row.get(f"accepted_{position}")
                near = value is None or abs(value - count) <= 0.0005 * record.row.drafts + 1
                assert near, f"accepted_{position} is {value}, planted {count}, {said}"
            assert row["k"] in (None, len(record.row.accepted_at)), f"k is {row['k']}, {said}"
            assert not row["drafts_exact"] or row["drafts"] == record.row.drafts, f"drafts: {row['drafts']} exact, {said}"


_WORDS = ["Accepted:", "Drafted:", "tokens", ", ", "SpecDecoding metrics:", "0.5", "12", "%", "INFO", "Engine 000:", "\t", "ünï"]
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=20)
_PIECES = st.lists(st.sampled_from(_WORDS) | _TEXT, max_size=6)


def _foreign(words: list[str], prefix: Prefix, by_logger: bool) -> str:
    """A line of another source file, or a sentence that no logger printed."""
    time = datetime(2031, 11, 30, 5, 11, 50, tzinfo=UTC)
    text = " ".join(words) if by_logger and prefix.header else " ".join(["note", *words])
    return print_line(Line(text, time, "Worker pid=5", "made_up.py:1" if by_logger else None), prefix, 7).text


@PER_CASE
@given(
    st.sampled_from(list(WORDINGS)),
    st.sampled_from(list(PREFIXES)),
    st.integers(0, 99),
    st.lists(st.tuples(st.integers(0, 1000), _PIECES, st.booleans()), min_size=1, max_size=8),
)
def test_text_between_statistics_lines_changes_no_row(
    wording: str, prefix: str, seed: int, foreign: list[tuple[int, list[str], bool]]
) -> None:
    case = make_case(wording, prefix, "none", seed)
    lines: list[tuple[str, Expected | None]] = [(item.text, item) for item in case.expected]
    for place, words, by_logger in foreign:
        lines.insert(place % (len(lines) + 1), (_foreign(words, PREFIXES[prefix], by_logger), None))
    content = "\n".join(text for text, _ in lines).encode() + b"\n"
    rows = iter(rows_of(content, Known(**case.known)))
    for _, item in lines:
        if item is not None and item.must is Must.ROW:
            row = next(rows, None)
            assert item.row is not None and row is not None, f"a row is missing: {item.text!r}"
            assert row_problems(item.row, row) == [], content.decode()
    assert next(rows, None) is None


_INTERVAL_WORDINGS = [name for name, wording in WORDINGS.items() if not wording.cumulative]


@pytest.mark.parametrize("trouble", ["none", "ANSI colours", "progress bars", "several engines", "nan", "logged prompts"])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_kept_text_of_a_line_has_its_numbers_and_nothing_else(prefix: str, trouble: str) -> None:
    """What `watch` stores of a line reads as the line does; a line that only quotes statistics leaves nothing."""
    for wording in random.Random(prefix + trouble).sample(_INTERVAL_WORDINGS, 2):
        case = make_case(wording, prefix, trouble, 1)
        for record in case.expected:
            kept = statistics_text(record.text)
            if kept is not None:
                assert not {'"', "\x1b", "\r", "\n", "|"} & set(kept), kept
                assert "gpu-7" not in kept and "please" not in kept and "Received" not in kept, kept
            if record.row is None:
                engine_line = "Avg prompt throughput: " in record.text and "metrics: " not in record.text
                assert (kept is not None) == engine_line, f"kept {kept!r} of {record.text!r}"
            elif record.must is Must.ROW:
                assert kept is not None, f"nothing kept of {record.text!r}"
                (row,) = rows_of(kept.encode() + b"\n", Known(**case.known))
                for column in ("process", "end", "drafted", "accepted", "drafts", "accepted_1", "since_last_line_s"):
                    if column in record.row.cells:
                        problem = cell_problem(column, record.row.cells[column], row.get(column))
                        assert problem is None, f"{problem} in {kept!r}"
