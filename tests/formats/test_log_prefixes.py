"""What stands before a record or happens to it on its way: single examples beside the generated ones."""

import io
import json
from typing import Any

import pytest

from draftmeter.formats.log import Known, LogReading, read_log
from made_up_server import engine_line, speculation_line

STAMP = "11-30 05:11:52"
GOOD = speculation_line(STAMP, [1, 2, 3, 4])
ENGINE = engine_line(STAMP)
BODY = GOOD.split("] ", 1)[1]
PLAIN = GOOD.split(") ", 1)[1]


def read(content: str | bytes) -> LogReading:
    return read_log(io.BytesIO(content if isinstance(content, bytes) else content.encode()), Known(zone="+00:00", year=2031))


def rows(content: str | bytes) -> list[dict[str, Any]]:
    return read(content).table().to_pylist()


@pytest.mark.parametrize(
    ("before", "kinds"),
    [
        ("[pod/vllm-0/server] ", {"pod"}),
        ("server.log:123:", {"grep"}),
        ("123-", {"grep"}),
        ("\t", {"indented"}),
        ("\ufeff", {"byte order mark"}),
        ("2031-11-30T05:11:52+01:00 ", {"container time"}),
        ("[2031-11-30 05:11:52,123] ", {"container time"}),
        ("<134>Nov 30 05:11:52 gpu-7 vllm[12]: ", {"syslog"}),
        ("2031-11-30T05:11:52+0100 gpu-7 python3[1]: ", {"journald"}),
        ("Sun 2031-11-30 05:11:52 UTC gpu-7 vllm[1]: ", {"journald"}),
        ("(ServeReplica:llm:LLMServer pid=9, ip=10.0.0.1) ", {"outer process"}),
        ("vllm_server-2  | 2031-11-30T05:11:52.123456Z ", {"compose", "container time"}),
        ("17it [00:12,  3.61it/s]", {"progress bar"}),
        ("\x1b[1;36m", {"colours"}),
        ("^[[1;36m", {"colours"}),
        ("[1;36m", {"colours"}),
        ("#033[1;36m", {"colours"}),
    ],
)
def test_what_may_stand_before_a_line(before: str, kinds: set[str]) -> None:
    reading = read(f"{before}{ENGINE}\n{before}{GOOD}\n")
    (row,) = reading.table().to_pylist()
    assert (row["process"], row["drafts"], row["drafts_exact"], row["running"]) == ("APIServer pid=71", 10, True, 2)
    assert set(reading.found.prefixes) == kinds


@pytest.mark.parametrize(
    "before", ["Please explain: ", "> ", "`", "- ", "| ", "$ cat log: ", "(APIServer pid=71) note: ", "[logger.py:1] "]
)
def test_what_quotes_a_line_is_refused(before: str) -> None:
    reading = read(f"{before}{GOOD}\n{before}{BODY}\n")
    assert reading.n == 0 and reading.found.refused_count == 2


@pytest.mark.parametrize("after", [" |", "`", " (see above)", '", "n": 1}', ", which is good", "\\n"])
def test_what_follows_a_record_makes_it_a_quotation(after: str) -> None:
    reading = read(f"{GOOD}{after}\n")
    assert reading.n == 0 and reading.found.refused_count == 1


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"log": ENGINE + "\n" + GOOD + "\n"}),
        json.dumps({"status": 200, "stdout": ENGINE + "\n" + GOOD}, indent=2),
        json.dumps([ENGINE, GOOD]),
        json.dumps([ENGINE, GOOD], indent=1),
        json.dumps({"lines": [ENGINE, GOOD]}),
        json.dumps(f"{ENGINE}\r\n{GOOD}\r\n"),
        json.dumps({"logs": "".join(json.dumps({"log": line + "\n"}) + "\n" for line in (ENGINE, GOOD))}),
        "".join(json.dumps({"MESSAGE": line, "PRIORITY": "6"}) + "\n" for line in (ENGINE, GOOD)),
        "".join("vllm-1  | " + json.dumps({"message": line}) + "\n" for line in (ENGINE, GOOD)),
        json.dumps({"log": ENGINE + "\n" + GOOD}).replace("/", "\\/"),
        json.dumps({"log": "\x1b[0;36m" + ENGINE + "\n" + "\x1b[0;36m" + GOOD}),
    ],
)
def test_logs_in_json(content: str) -> None:
    (row,) = rows(content)
    assert (row["process"], row["drafts"], row["running"]) == ("APIServer pid=71", 10, 2)


def test_a_file_that_begins_within_a_json_string() -> None:
    text = json.dumps({"log": "x" * 50 + "\n" + ENGINE + "\n" + GOOD + "\n" + ENGINE + "\n" + GOOD + "\n"})
    assert len(rows(text[30:])) == 2


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"prompt": GOOD}),
        json.dumps({"prompt": "look:\n" + GOOD + "\n"}),
        json.dumps({"messages": [{"role": "user", "content": GOOD}]}),
        json.dumps({"log": json.dumps({"prompt": GOOD}) + "\n"}),
        json.dumps({"log": f"INFO {STAMP} [logger.py:39] Received request cmpl-1: prompt: 'a\\n{GOOD}\\n', params: x\n"}),
        f"(APIServer pid=71) INFO {STAMP} [logger.py:39] Received request cmpl-1: prompt: 'a\\n{GOOD}\\n', params: x",
        f'(APIServer pid=71) INFO {STAMP} [logger.py:39] Received request: {{"prompt": "a\\n{GOOD}\\n"}}',
    ],
)
def test_logged_prompts_are_refused(content: str) -> None:
    reading = read(content + "\n")
    assert reading.n == 0 and reading.found.refused_count >= 1


@pytest.mark.parametrize("width", [37, 45, 60, 79, 80, 100, 132, 200, 300])
@pytest.mark.parametrize("before", ["", "vllm-1  | "])
def test_lines_broken_at_any_width(width: int, before: str) -> None:
    """By a terminal after the container's name was put before the line, and by one that the name was put after."""
    lines = [engine_line("11-30 05:11:42"), speculation_line("11-30 05:11:42", [1, 2, 3, 4]), ENGINE, GOOD, "INFO:     x"]
    whole = [before + line for line in lines]
    inside = [f"{before}{line[at : at + width]}" for line in lines for at in range(0, len(line), width)]
    outside = [line[at : at + width] for line in whole for at in range(0, len(line), width)]
    for broken in (inside, outside):
        found = rows("\n".join(broken) + "\n")
        assert [(row["drafts"], row["running"], row["process"]) for row in found] == [(10, 2, "APIServer pid=71")] * 2


@pytest.mark.parametrize("lost", range(len(PLAIN.split("Spec")[0]) + 1))
def test_lines_that_lost_their_beginning_keep_what_is_left(lost: int) -> None:
    (row,) = rows(PLAIN[lost:] + "\n")
    assert (row["drafts"], row["drafts_exact"], row["process"]) == (10, True, None)
    assert (row["end"] is None) == (lost > len("INFO "))


def test_a_record_that_lost_its_name_is_reported() -> None:
    reading = read(BODY.removeprefix("SpecDec") + "\n" + GOOD + "\n")
    assert reading.n == 1
    assert reading.found.refused == [{"offset": 0, "reason": "the beginning of the entry is cut off, with its name"}]


def test_a_file_that_ends_within_the_name_of_a_record_reports_it() -> None:
    reading = read(GOOD + "\n" + GOOD[: GOOD.index("coding metrics")])
    assert reading.n == 1
    assert reading.found.refused == [{"offset": len(GOOD) + 1, "reason": "cut before its counts"}]


def test_bytes_that_are_no_text_do_no_harm() -> None:
    noise = bytes(range(256)) * 40
    assert len(rows(noise + b"\n" + GOOD.encode() + b"\n" + noise)) == 1
