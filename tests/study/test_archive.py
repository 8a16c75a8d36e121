"""The config of an archive: what is accepted, each mistake named, what lies at its paths, and the config made for given files."""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
import zstandard

from draftmeter.record.run import RecordError, read_raw, read_requests
from draftmeter.study.archive import Archive, SourceSettings, archive_of, find_stored
from draftmeter.study.config import parse_config, read_config
from draftmeter.study.schema import ConfigError, Study
from made_up_records import write_boot

CONFIG = Path(__file__).parents[2] / "config"
SHIPPED: dict[str, Any] = yaml.safe_load((CONFIG / "archive.yaml").read_text())
SETTINGS = {"zone": "+01:00", "year": 2031, "log_interval_s": 10.0, "k": 3, "intervals": "auto"}


def changed(path: str, value: Any) -> dict[str, Any]:
    config = copy.deepcopy(SHIPPED)
    *parents, last = path.split("/")
    where = config
    for key in parents:
        where = where[key]
    where[last] = value
    return config


def source(path: str, workload: str | None = "traffic", settings: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"path": path, "workload": workload, "settings": settings}


def archive(*sources: dict[str, Any], **keys: Any) -> Archive:
    config = parse_config({**changed("sources", list(sources)), "known_answer": None, **keys})
    assert isinstance(config, Archive)
    return config


def test_the_shipped_archive_is_whole() -> None:
    config = read_config(CONFIG / "archive.yaml")
    assert isinstance(config, Archive)
    stored = find_stored(config, CONFIG)
    assert [path.parent.parent.name for path in stored.boots] == ["baseline", "calibration", "controlled", "production"]
    assert stored.others == []
    assert stored.known_answer == CONFIG / "archive" / "known_answer.json"
    size = sum(path.stat().st_size for path in (CONFIG / "archive").rglob("*") if path.is_file())
    assert size < 1_000_000
    assert len(stored.files) == sum(path.is_file() for path in (CONFIG / "archive").rglob("*")) - 1


def test_the_kind_of_config_follows_from_its_keys() -> None:
    assert isinstance(parse_config(yaml.safe_load((CONFIG / "config.yaml").read_text())), Study)
    with pytest.raises(ConfigError, match=r"found neither servers \(a study that measures\) nor sources \(an archive\)"):
        parse_config({"study": {}})
    with pytest.raises(ConfigError, match="sources: unknown key"):
        parse_config({**yaml.safe_load((CONFIG / "config.yaml").read_text()), "sources": []})


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("study/scale", 1.0, "study.scale: unknown key"),
        ("models", {}, "models: unknown key"),
        ("sources", [], "sources: list should have at least 1 item"),
        (
            "sources",
            [source("a", None, SETTINGS)],
            "sources.0.settings: found some without a workload; records of a study say it all",
        ),
        ("sources", [source("a", "trafic")], "sources.0.workload: found 'trafic', which is not defined; defined are"),
        ("sources", [source("a", settings={**SETTINGS, "zone": "CET"})], "sources.0.settings.zone: string should match pattern"),
        ("sources", [source("a", settings={"zone": None})], "sources.0.settings.year: missing; every key must be given"),
        ("sources", [source("a", settings={**SETTINGS, "k": 0})], "sources.0.settings.k: input should be greater than or equal"),
        ("workloads/traffic/clusters", "users", "workloads.traffic.clusters: input should be 'sessions' or 'prompts'"),
        ("report/production", "trafic", "report.production: found 'trafic', which is not defined"),
        ("report/controlled", ["pair-on", "nothing"], "report.controlled: found 'nothing', which is not defined"),
        ("report/controlled", ["traffic"], "report.controlled: found 'traffic', which is the production row as well"),
    ],
)
def test_a_mistake_is_named(path: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(changed(path, value))
    assert str(refused.value).startswith(f"the config is not usable:\n  {says}"), refused.value


def test_production_alone_is_a_report() -> None:
    config = changed("report/controlled", [])
    config["report"]["published"] = {}
    assert parse_config(config).report.controlled == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study's records, a log, a watched record with a hidden file, and an empty folder."""
    write_boot(tmp_path / "records" / "production" / "boot-1")
    (tmp_path / "nightly.log").write_text("a line\n")
    (tmp_path / "watched").mkdir()
    (tmp_path / "watched" / "watch.json").write_text("{}")
    (tmp_path / "watched" / ".lock").write_text("")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_paths_are_relative_to_the_folder_and_files_are_listed(folder: Path) -> None:
    watched = source("watched", settings=SETTINGS)
    stored = find_stored(archive(source("records", None), source(str(folder / "nightly.log")), watched), folder)
    assert stored.boots == [folder / "records/production/boot-1/boot.json"]
    assert [(other.given, other.at, other.workload) for other in stored.others] == [
        (str(folder / "nightly.log"), str(folder / "nightly.log"), "traffic"),
        ("watched", str(folder / "watched"), "traffic"),
    ]
    assert stored.others[1].settings == SourceSettings(**SETTINGS)
    assert {folder / "nightly.log", folder / "watched/watch.json", *stored.boots} <= set(stored.files)
    assert folder / "watched/.lock" not in stored.files
    assert len(stored.files) == 1 + 2 * 5 + 2


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        ([source("nowhere.log")], "sources.0.path: found no file at {}/nowhere.log"),
        ([source("records", None), source("empty")], "sources.1.path: found no file at {}/empty"),
        (
            [source("nightly.log", None)],
            "sources.0.path: found no boot.json in {}/nightly.log, so it holds no records of a study",
        ),
        ([source("records")], "sources.0.path: found records of a study in {}/records, which say their workloads"),
        ([source("nightly.log"), source("../{name}/nightly.log")], "sources: {}/nightly.log is given 2 times"),
    ],
)
def test_a_path_that_will_not_do_is_named(sources: list[dict[str, Any]], says: str, folder: Path) -> None:
    named = [one | {"path": one["path"].format(name=folder.name)} for one in sources]
    with pytest.raises(ConfigError) as refused:
        find_stored(archive(*named), folder)
    assert str(refused.value).startswith(f"the archive is not usable:\n  {says.format(folder)}")


def test_missing_exact_figures_are_named_with_every_other_problem(folder: Path) -> None:
    config = archive(source("nowhere.log"), known_answer="exact.json")
    with pytest.raises(ConfigError, match=r"nowhere\.log(.|\n)*known_answer: found no file at .*/exact\.json; use null"):
        find_stored(config, folder)


def test_the_config_of_a_log_is_an_archive(folder: Path) -> None:
    settings = SourceSettings(**SETTINGS | {"log_interval_s": 2.0})
    plain = archive_of([folder / "nightly.log"], settings, label="Nights")
    config = parse_config(yaml.safe_load(yaml.safe_dump(plain)))
    assert isinstance(config, Archive)
    assert (config.report.production, config.report.controlled) == ("traffic", [])
    assert config.workloads["traffic"].label == "Nights"
    assert (config.study.kind, config.known_answer) == ("served_model", None)
    assert (config.analysis.min_drafts, config.analysis.min_drafts_sensitivity) == (100, [20, 200])
    (other,) = find_stored(config, Path("/nowhere")).others
    assert (other.at, other.settings) == (str(folder / "nightly.log"), settings)


def test_the_config_of_files_without_settings_asks_for_the_usual_drafts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    plain = archive_of([Path("nightly.log"), Path("watched")], workload="day")
    assert plain["analysis"]["min_drafts"] == 500
    assert [one["path"] for one in plain["sources"]] == [str(folder / "nightly.log"), str(folder / "watched")]
    assert list(plain["workloads"]) == ["day"] == [plain["report"]["production"]]


def test_the_config_of_records_takes_their_workloads(folder: Path) -> None:
    plain = archive_of([folder / "records"])
    assert plain["sources"][0]["workload"] is None
    assert plain["workloads"] == {
        "pair": {"label": "Pair", "clusters": "prompts"},
        "traffic": {"label": "Traffic", "clusters": "sessions"},
    }
    assert (plain["study"]["kind"], plain["report"]["production"], plain["report"]["controlled"]) == (
        "known_answer",
        "traffic",
        ["pair"],
    )
    assert isinstance(parse_config(plain), Archive)
    both = archive_of([folder / "records", folder / "nightly.log"])
    assert list(both["workloads"]) == ["pair", "traffic", "traffic-of-files"]
    assert [one["workload"] for one in both["sources"]] == [None, "traffic-of-files"]
    assert both["report"]["production"] == "traffic-of-files"
    (folder / "records/production/boot-1/boot.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"not a boot\.json"):
        archive_of([folder / "records"])


def rewrite(record: Path, **values: Any) -> None:
    content = json.loads(record.read_text())
    record.write_text(json.dumps({**content, **values}))


def test_what_only_stands_beside_a_study_is_in_no_row_of_the_report(folder: Path) -> None:
    run = folder / "records/production/boot-1/attempt-1"
    known = json.loads((run / "pair/record.json").read_text())["model"] | {"source": "known_answer"}
    for name, values in (("pair", {"model": known}), ("traffic", {})):
        rewrite(run / name / "record.json", study_kind="served_model", **values)
    plain = archive_of([folder / "records"])
    assert list(plain["workloads"]) == ["pair", "traffic"]
    assert (plain["report"]["production"], plain["report"]["controlled"]) == ("traffic", [])
    rewrite(run / "pair/record.json", model=known | {"source": "folder"}, speculative=None)
    assert archive_of([folder / "records"])["report"]["controlled"] == []
    rewrite(run / "traffic/record.json", speculative=None)
    with pytest.raises(ConfigError, match="no record of a server that makes drafts; without one there is nothing to report"):
        archive_of([folder / "records"])


def test_a_served_model_may_have_exact_figures_beside_it(folder: Path) -> None:
    (folder / "exact.json").write_text("{}")
    for kind in ("known_answer", "served_model"):
        config = archive(source("records", None), known_answer="exact.json", study={**SHIPPED["study"], "kind": kind})
        assert config.study.kind == kind and find_stored(config, folder).known_answer == folder / "exact.json"


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_raw_files_of_a_record_may_be_compressed(ending: str, folder: Path) -> None:
    run = folder / "records/production/boot-1/attempt-1/pair"
    rows, log = read_requests(run), read_raw(run, "server.log")
    for name in ("requests.jsonl", "server.log"):
        data = (run / name).read_bytes()
        (run / f"{name}.{ending}").write_bytes(gzip.compress(data) if ending == "gz" else zstandard.compress(data))
        (run / name).unlink()
    assert (read_requests(run), read_raw(run, "server.log")) == (rows, log)
    with (run / f"server.log.{ending}").open("r+b") as file:
        file.truncate(30)
    with pytest.raises(RecordError, match=rf"server\.log\.{ending}: cannot be decompressed"):
        read_raw(run, "server.log")
    (run / f"server.log.{ending}").unlink()
    with pytest.raises(RecordError, match=r"server\.log: not found, neither plain nor as \.gz or \.zst"):
        read_raw(run, "server.log")


def test_a_malformed_row_of_a_compressed_file_names_its_line(folder: Path) -> None:
    run = folder / "records/production/boot-1/attempt-1/pair"
    lines = (run / "requests.jsonl").read_text().splitlines()
    (run / "requests.jsonl").unlink()
    (run / "requests.jsonl.gz").write_bytes(gzip.compress("\n".join([*lines[:2], json.dumps({"seed": 1})]).encode()))
    with pytest.raises(RecordError, match=r"requests\.jsonl, line 3: not a request row"):
        read_requests(run)
