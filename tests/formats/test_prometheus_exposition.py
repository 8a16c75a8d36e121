"""Reading /metrics texts of any server: engines, models, spellings, damages; what is missing is said, nothing raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.formats.counters import Counters, EngineKey
from draftmeter.formats.families import relevant_lines
from draftmeter.formats.metrics import MetricsError, read_metrics, read_strict
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


def test_two_models_of_one_k_are_two_rows_and_no_sum() -> None:
    found = read_metrics(ONE + exposition(ServerState([1, 1, 1, 1])).replace("made-up", "other"))
    assert [(row.key.model, row.key.engine, row.counters.drafts) for row in found.rows()] == [
        ("made-up", "all", 100),
        ("other", "all", 4),
    ]
    with pytest.raises(MetricsError, match="found the models made-up, other; expected one"):
        read_strict(ONE + exposition(ServerState([1, 1, 1, 1])).replace("made-up", "other"))


@pytest.mark.parametrize(
    ("family", "label", "name"),
    [("spec_decode_num_accepted_tokens", "position", "accepted"), ("generation_tokens", "finished_reason", "generation_tokens")],
)
def test_a_label_that_a_counter_must_not_have_is_refused_and_nothing_added_up(family: str, label: str, name: str) -> None:
    line = next(line for line in ONE.splitlines(keepends=True) if line.startswith(f"vllm:{family}_total"))
    split = "".join(line.replace("{", f'{{{label}="{value}",') for value in range(3))
    found = read_metrics(ONE.replace(line, split))
    counters = found.rows()[0].counters
    assert getattr(counters, name) is None
    assert (counters.drafts, counters.k) == (100, None if name == "generation_tokens" and counters.k is None else 3)
    assert f"vllm:{family}_total: found the label {label}, which it must not have: not used" in found.problems
    with pytest.raises(MetricsError, match=f"found the label {label}"):
        read_strict(ONE.replace(line, split))


def test_a_page_that_is_cut_in_its_last_line_is_read_up_to_it() -> None:
    found = read_metrics(
        "vllm:spec_decode_num_drafts_total 4\nvllm:spec_decode_num_draft_tokens_total 8\nvllm:spec_decode_num_accepted_tokens_tot"
    )
    assert found.rows()[0].counters == Counters(drafts=4, draft_tokens=8)
    assert found.problems == (
        "the text ends without a line feed: it was cut short, and its last line is not used",
        "vllm:spec_decode_num_accepted_tokens_total, vllm:spec_decode_num_accepted_tokens_per_pos_total, "
        "vllm:generation_tokens_total, vllm:prompt_tokens_total, vllm:request_success_total: "
        "unknown, because the text was cut short",
    )
    # What is left of a page does not tell whether its server speculates.
    left = read_metrics("vllm:generation_tokens_total 5\nvllm:spec_dec")
    assert not any("speculation is off" in problem for problem in left.problems)


def test_dates_between_lines_and_times_with_a_fraction_change_nothing() -> None:
    lines = [f"{line} 1796000000.123\n" for line in ONE.splitlines() if not line.startswith("#")]
    dated = "Tue Dec  1 02:29:00 UTC 2026\n" + "# taken by hand\n".join(lines)
    assert read_metrics(dated) == read_metrics(ONE)


def test_created_is_the_earliest_of_all_counters() -> None:
    engine = '{engine="0",model_name="m"}'
    text = f"vllm:prompt_tokens_total{engine} 5\nvllm:prompt_tokens_created{engine} 1796000002.5\n"
    (reading,) = read_metrics(text).engines
    assert (reading.created, reading.began) == (1796000002.5, 1796000002.5)
    for reason, at in (("stop", 1796000001.5), ("length", 1796000090.5)):
        text += f'vllm:request_success_created{{engine="0",finished_reason="{reason}",model_name="m"}} {at}\n'
    (reading,) = read_metrics(text + "vllm:spec_decode_num_emitted_tokens_created 3.0\n").engines
    assert reading.created == 1796000001.5
    assert reading.created_by_counter == {"prompt_tokens": 1796000002.5, "requests_finished": 1796000001.5}


def test_a_sum_shows_the_creation_of_engines_that_began_together() -> None:
    def text(apart: float) -> str:
        return "".join(
            f'vllm:prompt_tokens_total{{engine="{n}",model_name="m"}} 5\n'
            f'vllm:prompt_tokens_created{{engine="{n}",model_name="m"}} {1796000002.5 + n * apart}\n'
            for n in range(2)
        )

    assert read_metrics(text(0.25)).rows()[0].began == 1796000002.5
    assert read_metrics(text(40)).rows()[0].began is None


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
