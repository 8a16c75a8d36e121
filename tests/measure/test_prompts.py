"""Prompts and sessions: reproducible, within their bounds, and bad prompt files refused."""

import hashlib
import json
import tracemalloc
from pathlib import Path

import pytest

from draftmeter.measure import prompts
from draftmeter.measure.prompts import Prompt, PromptError, PromptsHash, check_prompts, first_prompts, fixed_turns, sessions
from draftmeter.strict import canonical_json
from draftmeter.study.config import read_study
from draftmeter.study.plan import RunPlan, plan_boot
from draftmeter.study.schema import PromptFile, RandomWords

CONFIGS = Path(__file__).parents[2] / "config"
STUDY = read_study(CONFIGS / "calibration.yaml")
RUNS = {run.run: run for server in STUDY.servers for run in plan_boot(STUDY, server, "boot-1").runs}


def test_the_same_plan_gives_the_same_requests() -> None:
    run = RUNS["evaluation"]
    assert fixed_turns(run) == fixed_turns(run)
    assert len({turn.seed for turn in fixed_turns(run)}) == run.requests
    assert list(sessions(RUNS["traffic"])) == list(sessions(RUNS["traffic"]))


def test_the_pair_has_the_same_texts_in_the_same_order() -> None:
    on, off = (first_prompts(RUNS[name].prompts, 40) for name in ("pair-on", "pair-off"))
    assert on == off
    assert len(set(on)) == 40


def test_more_streams_add_prompts_and_change_none() -> None:
    few, many = (first_prompts(RUNS["reasoning-8"].prompts, count) for count in (8, 64))
    assert many[:8] == few


def test_every_number_of_streams_and_every_server_sends_the_same_requests() -> None:
    few, many = (fixed_turns(RUNS[name]) for name in ("reasoning-1", "reasoning-64"))
    assert many[: len(few)] == few
    assert len(many) == 16 * len(few) == 256
    assert len({turn.seed for turn in many}) == len({turn.request_id for turn in many}) == 256
    assert len({turn.text for turn in many}) == 16
    server = STUDY.servers["controlled"]
    assert server.speculative is not None
    longer = server.model_copy(update={"speculative": server.speculative.model_copy(update={"num_speculative_tokens": 5})})
    other = STUDY.model_copy(update={"servers": {**STUDY.servers, "longer": longer}})
    assert {run.run: fixed_turns(run) for run in plan_boot(other, "longer", "boot-1").runs if run.passes} == {
        run: fixed_turns(RUNS[run]) for run in server.runs
    }


def test_another_boot_sends_the_same_prompts_with_other_seeds() -> None:
    servers = {name: server.model_copy(update={"boots": 2}) for name, server in STUDY.servers.items()}
    twice = STUDY.model_copy(update={"servers": servers})
    first, second = (fixed_turns(plan_boot(twice, "controlled", boot).runs[0]) for boot in ("boot-1", "boot-2"))
    assert [turn.text for turn in first] == [turn.text for turn in second]
    assert not {turn.seed for turn in first} & {turn.seed for turn in second}


def test_sessions_keep_to_their_settings() -> None:
    run = RUNS["traffic"]
    settings = run.workload.sessions
    assert settings is not None and run.duration_s is not None
    schedule = list(sessions(run))
    assert len({turn.category for session in schedule for turn in session.turns}) >= 4
    for session in schedule:
        assert 0 <= session.due_s < run.duration_s
        assert session.due_s % (settings.pause_every_s + settings.pause_s) < settings.pause_every_s
        assert settings.turns[0] <= len(session.turns) <= settings.turns[1]
        assert len({turn.category for turn in session.turns}) == 1
        assert all(settings.think_time_s[0] <= turn.think_time_s <= settings.think_time_s[1] for turn in session.turns[1:])


def test_the_sessions_of_a_long_run_are_made_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    real = prompts._random_text
    monkeypatch.setattr(prompts, "_random_text", lambda *arguments: made.append(text := real(*arguments)) or text)
    long = next(run for run in plan_boot(read_study(CONFIGS / "h200.yaml"), "production", "boot-1").runs if run.duration_s)
    assert long.duration_s is not None and long.duration_s > 28 * 3600
    coming = sessions(long)
    first = next(coming)
    assert [turn.text for turn in first.turns] == made
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    made.clear()
    for _ in range(3):
        next(coming)
        made.clear()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # A session has at most 24 turns of some 60,000 characters.
    assert grown < 4 * 2**20


def test_the_hash_of_the_prompts_is_that_of_their_list() -> None:
    found = PromptsHash()
    assert found.hexdigest() == hashlib.sha256(b"[]").hexdigest()
    for text in (texts := ["one", 'two "quoted"', "drei\nüber", ""]):
        found.add(text)
    assert found.hexdigest() == hashlib.sha256(canonical_json(texts).encode()).hexdigest()


def prompt_file(tmp_path: Path, text: str) -> PromptFile:
    path = tmp_path / "prompts.jsonl"
    path.write_text(text)
    return PromptFile(kind="file", path=str(path), sha256=hashlib.sha256(text.encode()).hexdigest())


def test_a_prompt_file_is_read(tmp_path: Path) -> None:
    rows = [{"prompt": "one", "category": "code"}, {"prompt": "two", "reply": "2"}, {"prompt": "three"}]
    found = first_prompts(prompt_file(tmp_path, "\n".join(map(json.dumps, rows))), 2)
    assert found == [Prompt("one", "code"), Prompt("two", reply="2")]


@pytest.mark.parametrize(
    ("text", "count", "says"),
    [
        ('{"prompt": "one"}\n', 2, "has 1 prompts; a pass needs 2"),
        ('{"promt": "one"}\n', 1, "line 1: needs a JSON object with the key prompt"),
        ("one\n", 1, "line 1: needs a JSON object"),
        ("[1]\n", 1, "line 1: needs a JSON object"),
    ],
)
def test_a_bad_prompt_file_is_refused(tmp_path: Path, text: str, count: int, says: str) -> None:
    with pytest.raises(PromptError, match=says):
        first_prompts(prompt_file(tmp_path, text), count)


def test_a_prompt_file_with_other_contents_or_none_is_refused(tmp_path: Path) -> None:
    prompts = prompt_file(tmp_path, '{"prompt": "one"}\n')
    Path(prompts.path).write_text('{"prompt": "two"}\n')
    with pytest.raises(PromptError, match=r"sha256 is .*; the config says"):
        first_prompts(prompts, 1)
    Path(prompts.path).unlink()
    with pytest.raises(PromptError, match="cannot be read: No such file"):
        first_prompts(prompts, 1)
    with pytest.raises(PromptError, match="sha256 is unresolved"):
        first_prompts(prompts.model_copy(update={"sha256": "unresolved"}), 1)


def session_run(tmp_path: Path, rows: list[dict[str, str]]) -> RunPlan:
    return RUNS["traffic"].model_copy(update={"prompts": prompt_file(tmp_path, "\n".join(map(json.dumps, rows)))})


def test_sessions_take_prompts_of_their_category_from_a_file(tmp_path: Path) -> None:
    rows = [{"prompt": f"{category}{number}", "category": category} for category in "ABCDEF" for number in range(5)]
    run = session_run(tmp_path, rows)
    turns = [turn for session in sessions(run) for turn in session.turns]
    assert all(turn.text[0] == turn.category for turn in turns)
    assert {turn.text for turn in turns} == {row["prompt"] for row in rows}
    assert list(sessions(run)) == list(sessions(run))


def test_a_category_without_prompts_is_refused_before_a_server_starts(tmp_path: Path) -> None:
    run = session_run(tmp_path, [{"prompt": "a", "category": "A"}])
    with pytest.raises(PromptError, match="has no prompt of category 'B', which run traffic sends"):
        check_prompts(run)
    check_prompts(session_run(tmp_path, [{"prompt": "for all"}]))


def test_random_words_have_their_length() -> None:
    prompts = RandomWords(kind="random_words", words=[3, 5], instruction="Stop.")
    for prompt in first_prompts(prompts, 50):
        assert 3 <= len(prompt.text.split()) - 1 <= 5
        assert prompt.text.endswith("Stop.")
