"""Several /metrics texts: one server read twice gives a difference, a restart no total, other
labels their sum; in every way.
"""

import json
from pathlib import Path

import pytest

from draftmeter.cli import main
from draftmeter.collect.tables import CollectError, Tables, build_tables
from draftmeter.study.archive import Archive, StoredSource, find_stored
from draftmeter.study.config import read_config
from made_up_files import log_text
from made_up_server import ServerState, exposition

SETTINGS = ["--zone", "+00:00", "--year", "2026", "--log-interval", "10s"]
# Drafts of which 0, 1, 2, 3 tokens were accepted; the difference is 30 drafts with 10, 12 and 20
# fewer rejected.
EARLIER, LATER = [40, 30, 20, 10], [45, 35, 28, 22]
DRAFTS, ACCEPTED_AT = 30, [25, 20, 12]


def state(histogram: list[int], more: int = 0) -> ServerState:
    return ServerState([count + more for count in histogram], 500 + sum(histogram), 50 + sum(histogram), 10, {"stop": 5})


def text(histogram: list[int], start_time: float | None = 1796000000.25, engine: str = "0") -> str:
    return exposition(state(histogram), start_time=start_time).replace('engine="0"', f'engine="{engine}"')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two readings of one server; the later one has the name that comes first."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/b-before.prom").write_text(text(EARLIER))
    (tmp_path / "in/a-after.prom").write_text(text(LATER))
    return tmp_path / "in"


def reported(capsys: pytest.CaptureFixture[str], *paths: Path) -> dict:
    capsys.readouterr()
    assert main(["report", *map(str, paths), *SETTINGS, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def collected(*paths: Path, workloads: tuple[str, ...] = ()) -> Tables:
    named = zip(paths, workloads or ["traffic"] * len(paths), strict=True)
    return build_tables([], [StoredSource(given=path.name, at=str(path), workload=name, settings=None) for path, name in named])


def test_two_readings_of_one_server_are_reported_as_their_difference(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = reported(capsys, folder)
    (source,) = found["sources"]
    figures = source["figures"]
    assert found["pooled"] is None
    assert source["source"] == f"{folder}/a-after.prom less {folder}/b-before.prom"
    assert (figures["drafts"]["value"], figures["accepted"]["value"]) == (DRAFTS, sum(ACCEPTED_AT))
    assert figures["share_through_2"]["value"] == ACCEPTED_AT[1] / DRAFTS
    assert f"{folder}/a-after.prom (after) less those of {folder}/b-before.prom (before)" in source["warnings"][0]
    assert reported(capsys, folder / "b-before.prom", folder / "a-after.prom")["sources"][0]["figures"] == figures


def test_what_read_wrote_gives_the_workflow_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder.parent / "out"
    assert main(["read", str(folder), "--out", str(out), *SETTINGS]) == 0
    config = read_config(out / "archive.yaml")
    assert isinstance(config, Archive)
    tables = build_tables([], find_stored(config, out).others)
    (row,) = tables.counters.to_dict("records")
    assert (row["server"], row["drafts"], row["restarts"]) == ("a-after", DRAFTS, 0)
    assert [row[f"accepted_{k}"] for k in (1, 2, 3)] == ACCEPTED_AT
    assert row["source"].endswith("a-after.prom less " + str(folder / "b-before.prom"))
    assert set(tables.checks["status"]) == {"ok"}
    assert tables.runs["source_kind"].tolist() == ["two /metrics texts"]
    assert reported(capsys, out)["sources"][0]["figures"]["drafts"]["value"] == DRAFTS


def test_readings_in_between_and_sources_of_one_workload(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "c.prom").write_text(text([41, 31, 21, 11]))
    (source,) = reported(capsys, folder)["sources"]
    assert source["figures"]["drafts"]["value"] == DRAFTS
    assert source["warnings"][0].endswith(f"what lies between is in both: {folder}/c.prom")
    apart = [folder / name for name in ("c.prom", "b-before.prom", "a-after.prom")]
    assert collected(*apart).counters["drafts"].tolist() == [DRAFTS]
    # Each workload is a run of its own: c.prom stands alone.
    two = collected(*apart, workloads=("other", "traffic", "traffic"))
    assert sorted(two.counters["drafts"]) == [DRAFTS, 104]


def test_the_log_of_the_same_time_gives_intervals_alone(folder: Path) -> None:
    (folder / "server.log").write_text(log_text())
    tables = collected(folder)
    assert tables.counters["counted_by"].tolist() == ["counters", "lines"]
    assert tables.counters["drafts"].tolist()[0] == DRAFTS and len(tables.intervals) == 4


def test_the_same_reading_twice_counts_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a-after.prom").write_text(text(EARLIER))
    (source,) = reported(capsys, folder)["sources"]
    assert source["figures"]["drafts"]["value"] == sum(EARLIER)
    assert "hold the same counts of one server: they are counted once" in source["warnings"][0]


def created(content: str, seconds: float) -> str:
    """With the time at which the counter of drafts was made."""
    lines = content.splitlines(keepends=True)
    return "".join(f"{line.rsplit(' ', 1)[0]} {seconds}\n" if "num_drafts_created" in line else line for line in lines)


RESTARTS = {
    "process_start_time_seconds is 500 s later in the second text": text(LATER, start_time=1796000500.25),
    "spec_decode_num_drafts_created is ": created(text(LATER), 4e9),
    "fell from the first text to the second": text([5, 5, 40, 5]),
}


@pytest.mark.parametrize("sign", RESTARTS)
def test_a_restart_in_between_is_told_and_there_is_no_total(sign: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = folder / "a-first.prom", folder / "b-second.prom"
    (folder / "b-before.prom").rename(first)
    (folder / "a-after.prom").unlink()
    second.write_text(RESTARTS[sign])
    found = reported(capsys, folder)
    assert found["sources"][0]["figures"]["drafts"]["value"] == sum(EARLIER)
    assert len(found["sources"]) == 2 and found["pooled"]["figures"] is None
    for part in (str(first), str(second), "engine 0", sign):
        assert part in found["pooled"]["unknown"]
    out = folder.parent / "out"
    assert main(["read", str(folder), "--out", str(out), *SETTINGS]) == 0
    assert "no archive.yaml: " in capsys.readouterr().err and not (out / "archive.yaml").exists()
    assert sign in reported(capsys, out)["pooled"]["unknown"]
    with pytest.raises(CollectError, match=r"a-first\.prom .*b-second\.prom .*give each a workload of its own") as caught:
        collected(folder)
    assert sign in str(caught.value)
    assert len(collected(first, second, workloads=("one", "two")).counters) == 2


def test_doctor_says_that_no_study_can_be_made_of_texts_around_a_restart(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder.parent / "out"
    assert main(["read", str(folder), "--out", str(out), *SETTINGS]) == 0
    assert main(["doctor", str(out / "archive.yaml")]) == 0
    (folder / "a-after.prom").write_text(text(LATER, start_time=1796000500.25))
    capsys.readouterr()
    assert main(["doctor", str(out / "archive.yaml")]) == 1
    assert "process_start_time_seconds is 500 s later" in capsys.readouterr().out


def test_servers_with_other_labels_are_added_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "b-before.prom").write_text(text(EARLIER, start_time=1796000500.25, engine="1"))
    found = reported(capsys, folder)
    assert len(found["sources"]) == 2
    assert found["pooled"]["figures"]["drafts"]["value"] == sum(EARLIER) + sum(LATER)
    assert collected(folder).counters["drafts"].tolist() == [sum(LATER), sum(EARLIER)]


def test_two_models_on_a_page_are_never_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = exposition(state(EARLIER), state(LATER)).replace('engine="1",model_name="made-up"', 'engine="0",model_name="other"')
    (tmp_path / "page.prom").write_text(page)
    found = reported(capsys, tmp_path / "page.prom")
    assert [(one["model"], one["figures"]["drafts"]["value"]) for one in found["sources"]] == [("made-up", 100), ("other", 130)]
    assert found["pooled"]["figures"] is None and "the sources are of the models" in found["pooled"]["unknown"]
    with pytest.raises(CollectError, match="a workload is of one model"):
        collected(tmp_path / "page.prom")
