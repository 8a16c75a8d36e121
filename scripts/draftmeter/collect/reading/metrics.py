"""A /metrics text as a source: the counters since the server's start."""

from draftmeter.collect.reading.counts import describe_rows, row_of_reading
from draftmeter.collect.reading.inputs import Opened
from draftmeter.collect.reading.source import METRICS_TEXT, Source, unusable
from draftmeter.formats.metrics import read_metrics

LARGEST = 1 << 26


def read_metrics_file(name: str, opened: Opened) -> Source:
    """Read an opened /metrics text; one without any metric of vLLM is unusable."""
    with opened.stream as stream:
        pieces, n = [], 0
        while n <= LARGEST and (piece := stream.read(1 << 20)):
            pieces.append(piece)
            n += len(piece)
    file = {"compression": opened.compression, "damage": opened.damage}
    if n > LARGEST:
        return unusable(name, f"a text of metrics of more than {LARGEST >> 20} MB is not of one server", **file)
    text = b"".join(pieces).decode(errors="replace").replace("\r\n", "\n")
    metrics = read_metrics(text)
    if not metrics.engines:
        return unusable(name, f"a text of metrics, but {'; '.join(metrics.problems)}", **file)
    rows = [row_of_reading(name, reading) for reading in metrics.rows()]
    found = {
        "kind": METRICS_TEXT,
        **file,
        **describe_rows(rows),
        "unknown": {"end": "a /metrics text does not say when it was read"},
        "warnings": list(metrics.problems),
    }
    return Source(name, METRICS_TEXT, found, counters=rows)
