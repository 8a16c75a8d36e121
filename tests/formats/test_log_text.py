"""Which lines of a log that is just being written are kept, and what of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.formats.log import is_statistics_line, statistics_text
from made_up_server import PREFIX, RATE_FIRST, V0, engine_line, speculation_line

STAMP = "11-30 05:11:52"
GOOD = speculation_line(STAMP, [1, 2, 3, 4])


@pytest.mark.parametrize("line", [engine_line(STAMP), GOOD])
def test_statistics_lines_are_recognised(line: str) -> None:
    assert is_statistics_line(line) and is_statistics_line(line + "\n")
    assert is_statistics_line(line.split(") ", 1)[1])  # a server in one process prints no prefix
    assert is_statistics_line(line.replace("[", "[v1/metrics/"))


@pytest.mark.parametrize(
    "line",
    [
        "",
        '(APIServer pid=71) INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
        PREFIX.format(stamp=STAMP, source="logger.py:39") + "SpecDecoding metrics: my secret",
        PREFIX.format(stamp=STAMP, source="logger.py:39") + engine_line(STAMP),
        "please explain: " + GOOD,
        PREFIX.format(stamp=STAMP, source="loggers.py:199") + "Engine 000: Iteration(7): 1 context requests",
        PREFIX.format(stamp=STAMP, source="metrics.py:140") + "DiffusionDecoding metrics: Committed: 3 tokens",
        GOOD + "\nand a prompt",
    ],
)
def test_other_lines_are_not_kept_whatever_they_quote(line: str) -> None:
    assert not is_statistics_line(line)
    assert "prompt" not in (statistics_text(line) or "") and "secret" not in (statistics_text(line) or "")


@pytest.mark.parametrize("line", [engine_line(STAMP), GOOD, RATE_FIRST, V0, GOOD + ", Current speculative depth: 7"])
@pytest.mark.parametrize(
    "wrap",
    [
        "{}",
        "vllm-1  | {}",
        "2031-11-30T05:11:52.123456789Z stderr F {}",
        "Nov 30 05:11:52 gpu-7 vllm[42]: {}",
        '{{"log":"{}\\n","stream":"stderr"}}',
        "Processed prompts:  50%|█████     | 4/8 [00:05<00:05,  1.31s/it]\r{}",
    ],
)
def test_what_is_kept_of_a_statistics_line_is_the_line(line: str, wrap: str) -> None:
    assert statistics_text(wrap.format(line) + "\n") == line


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (GOOD + ", My secret: a prompt", GOOD),
        (GOOD + ", The password of alice is: 5", GOOD),
        ('{"host": "secret-host", "message": "' + GOOD + '", "prompt": "secret"}', GOOD),
        ('{"prompt": "' + GOOD + '"}', None),
        (GOOD + "; secret", None),
        (GOOD[:-9], None),
        ("please explain: " + GOOD, None),
    ],
)
def test_nothing_else_of_a_line_is_kept(line: str, kept: str | None) -> None:
    assert statistics_text(line) == kept


@given(st.text(), st.text(), st.sampled_from([GOOD, engine_line(STAMP)]))
def test_no_text_around_a_record_gets_into_what_is_kept(before: str, after: str, line: str) -> None:
    kept = statistics_text(before + line + after)
    assert kept is None or kept in line or kept.startswith(line)
