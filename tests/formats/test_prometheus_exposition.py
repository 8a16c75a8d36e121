"""Reading /metrics texts of any server: engines, models, spellings, damages; what is missing is said, nothing raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.formats.counters import Counters, EngineKey
from draftmeter.formats.families import relevant_lines
from draftmeter.formats.metrics import read_metrics, read_strict
from made_up_server import ServerState, exposition

SPECULATION_FAMILIES = [
    "vllm:spec_decode_num_drafts",
    "vllm:spec_decode_num_draft_tokens",
    "vllm:spec_decode_num_accepted_tokens",
    "vllm:spec_decode_num_accepted_tokens_per_pos",
]
ONE = exposition(ServerState([10, 20, 30, 40], generation_tokens=300, prompt_tokens=70, running=2, waiting=1))
AT_POSITION_2 = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="made-up",position="2"}'
OPEN_METRICS = """\
# TYPE vllm:spec_decode_num_drafts counter
# UNIT vllm:spec_decode_num_drafts drafts
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 10.0 # {trace_id="a}b"} 1.0 1796000000.5
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7960000005e+09
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0",model_name="m"} 25.0 1796000000.5
vllm:generation_tokens_created{engine="0",model_name="m"} 1.7960000005e+09
# EOF"""


def ray(replica: str, *, total: str = "_total", prefix: str = "ray_vllm_") -> str:
    """What Ray shows of one replica that drafted 8 times with K = 3 and never accepted a third token."""
    labels = f'ReplicaId="{replica}",WorkerId="w-{replica}",engine="0",model_name="m"'
    name = f"{prefix}spec_decode_num_"
    return "".join(
        f"{line}\n"
        for line in (
            f"{name}drafts{total}{{{labels}}} 8.0",
            f"{name}draft_tokens{total}{{{labels}}} 24.0",
            f"{name}accepted_tokens{total}{{{labels}}} 9.0",
            f'{name}accepted_tokens_per_pos{total}{{{labels},position="0"}} 6.0',
            f'{name}accepted_tokens_per_pos{total}{{{labels},position="1"}} 3.0',
            f"{prefix}generation_tokens{total}{{{labels}}} 17.0",
        )
    )


def test_every_engine_is_kept_and_all_are_summed() -> None:
    first, second = ServerState([1, 2, 3, 4], generation_tokens=30), ServerState([0, 0, 5, 5], generation_tokens=31, running=3)
    found = read_metrics(exposition(first, second))
    everything, *engines = found.rows()
    assert [row.key for row in engines] == [EngineKey("made-up", "0", ""), EngineKey("made-up", "1", "")]
    assert engines[0].counters.accepted_per_position == (9, 7, 4)
    assert engines[1].counters.accepted_per_position == (10, 10, 5)
    assert everything.counters.accepted_per_position == (19, 17, 9)
    assert everything.counters.drafts == 20
    assert everything.counters.shares == (0.95, 0.85, 0.45)
    assert (everything.counters.generation_tokens, everything.running, everything.key.engine) == (61, 3, "all")
    assert everything.start_time == 1796000000.25
    assert (found.problems, found.cut, found.k, found.models) == ((), False, 3, ("made-up",))


@given(st.lists(st.lists(st.integers(0, 10**10), min_size=4, max_size=4), min_size=1, max_size=12))
def test_it_agrees_with_the_strict_reading(histograms: list[list[int]]) -> None:
    text = exposition(*(ServerState(histogram, generation_tokens=sum(histogram)) for histogram in histograms))
    strict, found = (read(text).rows()[0].counters for read in (read_strict, read_metrics))
    for name in ("drafts", "draft_tokens", "accepted", "accepted_per_position", "generation_tokens", "requests_finished"):
        assert getattr(found, name) == getattr(strict, name)


def test_engines_are_in_the_order_of_their_numbers() -> None:
    found = read_metrics(exposition(*(ServerState([0, n]) for n in range(12))))
    assert [reading.key.engine for reading in found.engines] == [str(n) for n in range(12)]


def test_several_models_are_never_summed() -> None:
    text = ONE + exposition(ServerState([5, 5])).replace("made-up", "other")
    found = read_metrics(text)
    assert found.models == ("made-up", "other")
    assert [(row.key.model, row.key.engine, row.counters.k) for row in found.rows()] == [
        ("made-up", "all", 3),
        ("other", "all", 1),
    ]
    assert found.k is None


@pytest.mark.parametrize("prefix", ["ray_vllm_", "ray_vllm:", "vllm_", "vllm:"])
@pytest.mark.parametrize("total", ["_total", ""])
def test_other_spellings_and_replicas(prefix: str, total: str) -> None:
    text = ray("a", prefix=prefix, total=total) + ray("b", prefix=prefix, total=total)
    found = read_metrics(text)
    everything, first, second = found.rows()
    assert first.key.label == "0 ReplicaId=a,WorkerId=w-a"
    assert first.counters == second.counters
    # The third position has accepted nothing yet, so Ray does not show it.
    assert everything.counters.accepted_per_position == (12, 6, 0)
    assert everything.counters.drafts == 16


def test_the_spelling_without_total_counts_only_alone() -> None:
    assert read_metrics(ray("a") + ray("a", total="")).rows()[0].counters.drafts == 8


def test_what_ray_does_not_show_yet_for_one_replica_has_counted_nothing() -> None:
    fresh = 'ray_vllm_spec_decode_num_drafts_total{ReplicaId="b",engine="0",model_name="m"} 2.0\n'
    fresh += 'ray_vllm_spec_decode_num_draft_tokens_total{ReplicaId="b",engine="0",model_name="m"} 6.0\n'
    everything, _, second = read_metrics(ray("a") + fresh).rows()
    assert second.counters.accepted_per_position == (0, 0, 0)
    assert everything.counters.accepted_per_position == (6, 3, 0)
    assert everything.counters.generation_tokens == 17


def test_open_metrics_with_exemplars_and_no_final_line_feed() -> None:
    found = read_metrics(OPEN_METRICS)
    (reading,) = found.engines
    assert (reading.counters.drafts, reading.counters.generation_tokens) == (10, 25)
    assert (reading.created, reading.began, reading.start_time) == (1796000000.5, 1796000000.5, None)
    assert not found.cut


@pytest.mark.parametrize(
    ("number", "count"),
    [("1.378852e+06", 1378852), ("0", 0), ("12", 12), ("12.0 1796000000123", 12), ("\t7.0", 7), ("1E3", 1000)],
)
def test_numbers(number: str, count: int) -> None:
    text = f'vllm:generation_tokens_total{{engine="0",model_name="a }} \\" b"}} {number}\r\n'
    found = read_metrics(text)
    assert found.engines[0].counters.generation_tokens == count
    assert found.models == ('a } " b',)


@pytest.mark.parametrize("number", ["NaN", "+Inf", "-1.0", "1.5"])
def test_what_is_no_count_is_null_and_said(number: str) -> None:
    found = read_metrics(
        ONE.replace(
            'vllm:generation_tokens_total{engine="0",model_name="made-up"} 300.0', f"vllm:generation_tokens_total {number}"
        )
    )
    assert found.rows()[0].counters.generation_tokens is None
    assert any("expected a whole number of 0 or more" in problem for problem in found.problems)


@pytest.mark.parametrize(
    "line",
    [
        "vllm:generation_tokens_total{engine=0} 5",
        'vllm:generation_tokens_total{engine="0" 5',
        "vllm:generation_tokens_total x",
        "vllm:generation_tokens_total ",
    ],
)
def test_a_bad_line_is_said_and_the_others_are_used(line: str) -> None:
    found = read_metrics(f"{line}\n{ONE}")
    assert [problem for problem in found.problems if "found the line" in problem and line.strip() in problem]
    assert found.rows()[0].counters.drafts == 100


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (exposition(ServerState([1, 2]), without=SPECULATION_FAMILIES), "speculation is off"),
        (exposition(ServerState([1, 2]), without=SPECULATION_FAMILIES[3:]), "this server predates per-position counters"),
        (exposition(ServerState([1, 2]), without=SPECULATION_FAMILIES[:1]), "there is no vllm:spec_decode_num_drafts_total"),
        (exposition(ServerState([1, 2]), without=["vllm:generation_tokens"]), "there is no vllm:generation_tokens_total"),
        (exposition(ServerState([1, 2]), also=["vllm:spec_decode_efficiency"]), "V0 engine"),
        (exposition(ServerState([1, 2]), also=["vllm:spec_decode_draft_acceptance_rate"]), "V0 engine"),
        ("vllm:diffusion_num_denoising_steps_total 5.0\n", "by diffusion"),
        ("", "no metric of vLLM"),
        ("<html><body>404</body></html>\n", "no metric of vLLM"),
        ("vllm:e2e_request_latency_seconds_sum 5.0\n", "no metric of vLLM"),
        (ONE.replace('position="0"', 'position="7"'), "expected 0, 1, ... K-1"),
        (ONE.replace('position="0"', 'position="first"'), "expected 0, 1, ... K-1"),
        (relevant_lines(ONE).partition(AT_POSITION_2)[0], "other counts are missing: not used"),
        (ONE.replace(' 90.0\n', ' 91.0\n'), "while the server counted"),
    ],
)  # fmt: skip
def test_what_is_missing_or_wrong_is_a_sentence(text: str, sentence: str) -> None:
    assert [problem for problem in read_metrics(text).problems if sentence in problem]


def test_the_v0_engine_counts_everything_but_speculation() -> None:
    counters = (
        read_metrics(exposition(ServerState([1, 2], generation_tokens=9), also=["vllm:spec_decode_efficiency"]))
        .rows()[0]
        .counters
    )
    assert (counters.drafts, counters.draft_tokens, counters.accepted, counters.accepted_per_position) == (None, None, None, None)
    assert counters.generation_tokens == 9


def test_a_model_without_speculation_beside_one_with_it() -> None:
    text = ONE + exposition(ServerState([1, 2]), without=SPECULATION_FAMILIES).replace("made-up", "other")
    found = read_metrics(text)
    assert found.rows()[1].counters.drafts is None
    assert "speculation is off (model other): there is no vllm:spec_decode_num_drafts_total" in found.problems


def test_a_text_that_holds_several_scrapes_counts_the_last() -> None:
    later = exposition(ServerState([11, 20, 30, 40], generation_tokens=301))
    found = read_metrics(ONE + later)
    assert (found.rows()[0].counters.drafts, found.rows()[0].counters.generation_tokens) == (101, 301)
    assert any("more than once" in problem for problem in found.problems)


def test_kv_usage_has_two_names_and_the_new_one_wins() -> None:
    old = exposition(ServerState([1, 2]), also=["vllm:gpu_cache_usage_perc"])
    assert read_metrics(old).engines[0].kv_cache_usage == 0.5
    both = old + 'vllm:kv_cache_usage_perc{engine="0",model_name="made-up"} 0.25\n'
    assert read_metrics(both).engines[0].kv_cache_usage == 0.25


@given(st.integers(0, len(ONE)))
def test_a_cut_text_never_shows_another_number(at: int) -> None:
    whole, found = read_metrics(ONE).rows()[0].counters, read_metrics(ONE[:at])
    assert found.cut == (at > 0 and ONE[at - 1] != "\n")
    for row in found.rows():
        for name in ("drafts", "draft_tokens", "accepted", "accepted_per_position", "generation_tokens", "prompt_tokens"):
            assert getattr(row.counters, name) in (None, getattr(whole, name))


@given(st.text())
def test_no_text_raises(text: str) -> None:
    read_metrics(text)
    assert relevant_lines(relevant_lines(text)) == relevant_lines(text)


PIECES = ["vllm:generation_tokens_total", "{", "}", '"', "\\", " ", "\n", "#", "1e999", "position=", "_total"]
FRAGMENTS = st.lists(st.sampled_from([*ONE.splitlines(keepends=True), *PIECES]), max_size=40)


@given(FRAGMENTS.map("".join))
def test_no_mixture_of_fragments_raises(text: str) -> None:
    read_metrics(text)


def test_relevant_lines_are_unchanged_and_sufficient() -> None:
    noise = '# HELP x y\nvllm:e2e_request_latency_seconds_bucket{engine="0",le="1.0",model_name="m"} 5.0\nother_total 7.0\n'
    kept = relevant_lines(noise + ONE + 'vllm:generation_tokens_total{engine="0",model_name="made-up"} 30')
    assert read_metrics(kept) == read_metrics(ONE)
    assert "bucket" not in kept
    assert "#" not in kept
    assert set(kept.splitlines(keepends=True)) <= set(ONE.splitlines(keepends=True))


def test_counters_without_drafts_have_no_shares() -> None:
    assert Counters(drafts=0, accepted_per_position=(0, 0)).shares is None
    assert Counters(drafts=5).shares is None
