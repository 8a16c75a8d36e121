"""A workload that several servers ran: facts, rows and comparisons are of each of them, and nothing is pooled."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_served_study import facts_of, known_of, tables_of

from draftmeter.analyse.comparison import read_published
from draftmeter.analyse.estimates import Estimates, estimate
from draftmeter.analyse.facts import AnalysisError
from draftmeter.analyse.streams import _shared_requests
from draftmeter.analyse.tables import Measured
from draftmeter.study.schema import Study
from made_up_served import MIXED, make_up_served, served_study
from made_up_study import MadeUp, make_up, small_study
from rendered_paper import note_of_analysis

PUBLISHED = read_published(Path(__file__).parents[2] / "config" / "published.yaml")


def with_a_second_server(study: Study, **changes: Any) -> Study:
    """The study with one more server that speculates: all that `controlled` is, but for `changes`."""
    second = study.servers["controlled"].model_copy(update=changes)
    return study.model_copy(update={"servers": {**study.servers, "second": second}})


@pytest.fixture(scope="module")
def study() -> Study:
    return with_a_second_server(served_study(), precision="another")


@pytest.fixture(scope="module")
def made_up(study: Study) -> MadeUp:
    return make_up_served(study, MIXED)


@pytest.fixture(scope="module")
def found(study: Study, made_up: MadeUp, tmp_path_factory: pytest.TempPathFactory) -> Estimates:
    return estimate(study, tables_of(made_up), known_of(made_up, tmp_path_factory.mktemp("known")), PUBLISHED)


def test_every_server_has_facts_of_its_own_and_none_has_those_of_both(made_up: MadeUp, found: Estimates) -> None:
    facts = facts_of(found)
    counters = made_up.counters[made_up.counters["workload"] == "synthetic"]
    for server in ("controlled", "second"):
        drafts = counters.loc[counters["server"] == server, "drafts"].sum()
        assert facts[f"synthetic.on_{server}.drafts"].value == drafts > 0
        assert f"synthetic.on_{server}.streams_8.accepted_over_drafted" in facts
    assert not [key for key in facts if key.startswith("synthetic.") and ".on_" not in key]
    assert facts["traffic.drafts"].value is not None


def test_the_rows_of_table_1_name_their_server(found: Estimates) -> None:
    rows = {row["workload"]: row for row in found.table1}
    assert next(iter(rows)) == "traffic"
    assert {"synthetic.on_controlled", "synthetic.on_second"} <= set(rows) and "synthetic" not in rows
    labels = found.facts["labels"]
    assert labels["synthetic.on_second"] == rows["synthetic.on_second"]["label"]
    assert labels["synthetic.on_second"].endswith(" (second)") and labels["synthetic.on_controlled"].endswith(" (controlled)")
    note = note_of_analysis(found.facts)
    assert labels["synthetic.on_second"] in note and labels["synthetic.on_controlled"] in note


def test_each_server_is_compared_with_the_baseline_unless_more_than_speculation_differs(found: Estimates) -> None:
    facts = facts_of(found)
    subject = next(key for key in facts if key.endswith(".on_controlled.streams_8.speedup")).rpartition(".")[0]
    assert facts[f"{subject}.speedup"].value is not None
    other = facts[f"{subject.replace('.on_controlled', '.on_second')}.speedup"]
    assert other.value is None
    assert other.unknown is not None and other.unknown.startswith("not comparable: the precision is another with speculation")


@pytest.mark.parametrize(
    ("column", "change", "says"),
    [
        ("server_arguments", ["--dtype", "bfloat16"], "the server's argument dtype is bfloat16 with speculation and not given"),
        ("server_arguments", ["--enforce-eager"], "the server's argument enforce-eager is set with speculation and not given"),
        ("server_environment", {"OMP_NUM_THREADS": "1"}, "the server's variable OMP_NUM_THREADS is 1 with speculation"),
        ("corrections", ["one"], "the active corrections is"),
        ("tokenizer_revision", "other", "the tokenizer is other with speculation"),
    ],
)
def test_a_baseline_that_differs_in_anything_else_is_refused(column: str, change: Any, says: str, tmp_path: Path) -> None:
    study = served_study()
    made_up = make_up_served(study, MIXED)
    runs = made_up.runs.copy()
    drafting = runs["server"] == "controlled"

    def changed(text: str) -> str:
        if isinstance(change, str):
            return change
        given = json.loads(text)
        return json.dumps([*given, *change] if isinstance(change, list) else {**given, **change})

    runs.loc[drafting, column] = runs.loc[drafting, column].map(changed)
    found = facts_of(estimate(study, tables_of(replace(made_up, runs=runs)), known_of(made_up, tmp_path), PUBLISHED))
    speedups = {key: fact for key, fact in found.items() if key.endswith(".speedup")}
    assert speedups
    for fact in speedups.values():
        assert fact.value is None and fact.unknown is not None and says in fact.unknown


def test_what_differs_with_speculation_itself_is_no_difference(tmp_path: Path) -> None:
    study = served_study()
    made_up = make_up_served(study, MIXED)
    runs = made_up.runs.copy()
    for server, own in (("controlled", ["--port", "1", "--speculative-config", "{}"]), ("baseline", ["--port", "2"])):
        runs.loc[runs["server"] == server, "server_arguments"] = json.dumps(["--dtype", "float32", *own])
        runs.loc[runs["server"] == server, "server_environment"] = json.dumps({"TMPDIR": f"/tmp/{server}"})
    found = facts_of(estimate(study, tables_of(replace(made_up, runs=runs)), known_of(made_up, tmp_path), PUBLISHED))
    assert all(fact.value is not None for key, fact in found.items() if key.endswith(".speedup"))


def test_the_note_says_in_what_two_servers_differ(found: Estimates) -> None:
    rows = [tuple(row.values()) for row in found.facts["differences"]]
    assert ("controlled", "second", "the precision", "float32", "another") in rows
    (only,) = [row for row in rows if row[:2] == ("baseline", "controlled")]
    assert only[2:4] == ("speculation", "none") and only[4].startswith('{"method":"mtp"')
    assert "| the precision | controlled, second | float32 | another |" in note_of_analysis(found.facts)


def test_production_of_two_servers_is_refused(tmp_path: Path) -> None:
    study = served_study()
    second = study.servers["production"]
    both = study.model_copy(update={"servers": {**study.servers, "twin": second}})
    made_up = make_up_served(both, MIXED)
    with pytest.raises(AnalysisError, match=r"report\.production: the records of 'traffic' are of the servers production, twin"):
        estimate(both, tables_of(made_up), known_of(made_up, tmp_path), PUBLISHED)


def test_stored_files_of_one_workload_stay_one() -> None:
    """They are servers by name alone: no record says that they were told apart."""
    made_up = make_up(small_study())
    tables = tables_of(made_up)
    assert tables.measured("synthetic") == [Measured("synthetic")]
    nameless = replace(tables, runs=tables.runs.assign(study_kind=None))
    two = replace(nameless, counters=nameless.counters.assign(server=[f"file-{n}" for n in range(len(nameless.counters))]))
    assert two.measured("synthetic") == [Measured("synthetic")]


def test_numbers_of_streams_are_compared_on_the_requests_that_they_share() -> None:
    """One pass at one stream and two at eight: the second pass, where all differs, is left out."""
    run = {"server": "s", "boot": "boot-1", "attempt": 1}
    rows = pd.DataFrame([{**run, "run": "w-1", "streams": 1}, {**run, "run": "w-8", "streams": 8}])
    sent = [("w-1", "w-1-0", 5), ("w-1", "w-1-1", 7), ("w-8", "w-1-0", 6), ("w-8", "w-1-1", 8), ("w-8", "w-2-0", 0)]
    requests = pd.DataFrame(
        [{**run, "run": name, "request_id": request, "accepted_tokens": n, "draft_tokens": 10} for name, request, n in sent]
    )
    shared = _shared_requests(rows, requests)
    assert shared is not None
    assert [column.tolist() for column in shared] == [[1, 8], [12, 14], [20, 20]]
    assert _shared_requests(rows, requests.assign(request_id=[f"{n}" for n in range(5)])) is None
