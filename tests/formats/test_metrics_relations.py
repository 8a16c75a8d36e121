"""What two readings of counters since a start are to each other, and what was counted between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.formats.counters import Counters, EngineKey
from draftmeter.formats.metrics import MetricsError, Relation, difference, read_metrics, relation
from made_up_server import ServerState, exposition

EARLY = exposition(ServerState([10, 20, 30, 40], generation_tokens=300), start_time=None)
ENGINE_0 = EngineKey("made-up", "0", "")


def without_created(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if "_created" not in line)


def engine(n: int, *, number: int = 0, start: float | None = None, created: dict[str, float] | None = None) -> str:
    """A server's text after `n` requests; `created` gives the creation of counters by their family."""
    labels = f'{{engine="{number}",model_name="m"}}'
    counts = {"generation_tokens": 50 * n, "prompt_tokens": 9 * n, "request_success": n, "spec_decode_num_drafts": 20 * n}
    lines = [f"vllm:{name}_total{labels} {count}" for name, count in counts.items()]
    lines += [f"vllm:{name}_created{labels} {at}" for name, at in (created or {}).items()]
    if start is not None:
        lines.append(f"process_start_time_seconds {start}")
    return "".join(f"{line}\n" for line in lines)


def related(a: str, b: str) -> tuple[Relation, str]:
    found = relation(read_metrics(a), read_metrics(b))
    return found.relation, "; ".join(found.sentences)


def test_one_server_read_twice_is_told_in_either_order() -> None:
    earlier, later = engine(3, start=1796000000.25), engine(5, start=1796000000.25)
    what, sentence = related(earlier, later)
    assert what == Relation.A_THEN_B
    assert sentence.startswith("engine 0 counted on: drafts, generation_tokens, ")
    assert sentence.endswith("are higher in the second text")
    assert related(later, earlier)[0] == Relation.B_THEN_A
    # No start is shown: nothing speaks against one server.
    assert related(engine(3), engine(5, start=1796000000.25))[0] == Relation.A_THEN_B


def test_one_reading_given_twice() -> None:
    assert related(engine(3), engine(3)) == (Relation.SAME_READING, "engine 0 has the same counts in both texts")


def test_one_counter_that_rose_is_enough() -> None:
    later = engine(3).replace(
        'generation_tokens_total{engine="0",model_name="m"} 150', 'generation_tokens_total{engine="0",model_name="m"} 151'
    )
    what, sentence = related(engine(3), later)
    assert (what, sentence) == (Relation.A_THEN_B, "engine 0 counted on: generation_tokens is higher in the second text")


@pytest.mark.parametrize("changed", [("model_name", "other"), ("engine", "7"), ("pod", "b")])
def test_other_labels_are_other_servers(changed: tuple[str, str]) -> None:
    name, value = changed
    a = engine(3).replace('{engine="0"', '{pod="a",engine="0"')
    old = {"model_name": "m", "engine": "0", "pod": "a"}[name]
    what, sentences = related(a, a.replace(f'{name}="{old}"', f'{name}="{value}"'))
    assert what == Relation.OTHER_SERVERS
    assert "is only in the first text" in sentences and "is only in the second text" in sentences


def test_a_later_start_of_the_process_is_a_restart_even_if_every_count_rose() -> None:
    what, sentence = related(engine(3, start=1796000000.25), engine(5, start=1796000900.25))
    assert what == Relation.RESTART_OR_TWO_SERVERS
    assert sentence == (
        "engine 0: process_start_time_seconds is 900 s later in the second text "
        "(1796000000 in the first, 1796000900 in the second)"
    )
    assert related(engine(3, start=1796000000.25), engine(5, start=1796000000.75))[0] == Relation.A_THEN_B


@pytest.mark.parametrize("family", ["spec_decode_num_drafts", "generation_tokens", "request_success", "prompt_tokens"])
def test_a_later_creation_of_any_counter_is_a_restart(family: str) -> None:
    families = {"spec_decode_num_drafts": 1796000000.5, "generation_tokens": 1796000000.5, family: 1796000000.5}
    a, b = engine(3, created=families), engine(5, created={**families, family: 1796000700.5})
    what, sentence = related(a, b)
    assert what == Relation.RESTART_OR_TWO_SERVERS
    assert sentence.startswith(f"engine 0: vllm:{family}_created is 700 s later in the second text")
    assert related(a, engine(5, created=families))[0] == Relation.A_THEN_B


def test_counts_that_fell_while_others_rose_are_a_restart() -> None:
    a = engine(3) + 'vllm:num_preemptions_total{engine="0",model_name="m"} 0\n'
    b = engine(2) + 'vllm:num_preemptions_total{engine="0",model_name="m"} 4\n'
    what, sentence = related(a, b)
    assert what == Relation.RESTART_OR_TWO_SERVERS
    assert sentence.startswith("engine 0: drafts, generation_tokens, prompt_tokens, requests_finished fell")
    assert sentence.endswith("while preemptions rose")


def test_fallen_counts_are_told_beside_a_later_start() -> None:
    _, sentences = related(engine(3, start=1796000000.0), engine(1, start=1796000900.0))
    assert "process_start_time_seconds is 900 s later" in sentences and "drafts, generation_tokens" in sentences


def test_engines_that_disagree_are_no_one_server() -> None:
    a = engine(3) + engine(9, number=1)
    b = engine(5) + engine(2, number=1)
    found = relation(read_metrics(a), read_metrics(b))
    assert found.relation == Relation.RESTART_OR_TWO_SERVERS
    assert [(one.key.engine, one.relation) for one in found.engines] == [("0", Relation.A_THEN_B), ("1", Relation.B_THEN_A)]
    # An engine that stood still disagrees with nothing.
    assert related(a, engine(5) + engine(9, number=1))[0] == Relation.A_THEN_B
    # To add the two would count engine 0 twice, and a difference would leave engine 1 out.
    what, sentences = related(a, engine(5))
    assert what == Relation.RESTART_OR_TWO_SERVERS
    assert "engine 1 is only in the first text" in sentences


def test_texts_with_no_count_in_common_are_not_taken_for_one() -> None:
    a = 'vllm:prompt_tokens_total{engine="0",model_name="m"} 5\n'
    b = 'vllm:generation_tokens_total{engine="0",model_name="m"} 5\n'
    assert related(a, b) == (Relation.RESTART_OR_TWO_SERVERS, "engine 0: there is no count that both texts show")


def test_another_k_is_no_one_server() -> None:
    wider = exposition(ServerState([10, 20, 30, 40, 50], generation_tokens=400), start_time=None)
    what, sentences = related(without_created(EARLY), without_created(wider))
    assert what == Relation.RESTART_OR_TWO_SERVERS
    assert "engine 0: K is 3 in the first text and 4 in the second" in sentences


@given(st.lists(st.integers(0, 10**9), min_size=4, max_size=4), st.lists(st.integers(0, 10**9), min_size=4, max_size=4))
def test_the_difference_is_what_was_counted_between(first: list[int], added: list[int]) -> None:
    summed = [a + b for a, b in zip(first, added, strict=True)]
    texts = [without_created(exposition(ServerState(histogram, sum(histogram)))) for histogram in (first, summed)]
    a, b = map(read_metrics, texts)
    change = difference(a, b)[ENGINE_0]
    assert (change.drafts, change.generation_tokens) == (sum(added), sum(added))
    assert change.accepted_per_position == tuple(ServerState(added).accepted_at())
    expected = Relation.A_THEN_B if sum(added) else Relation.SAME_READING
    assert relation(a, b).relation == expected


def test_what_one_text_does_not_show_has_no_difference() -> None:
    cut = read_metrics(EARLY.partition("vllm:generation_tokens_total")[0])
    change = difference(cut, read_metrics(EARLY))[ENGINE_0]
    assert (change.drafts, change.generation_tokens, change.accepted_per_position) == (0, None, (0, 0, 0))


def test_differences_are_of_the_same_engines() -> None:
    with pytest.raises(MetricsError, match=r"engine 0 \(model m\) before, engine 1 \(model m\) after; they must be the same"):
        difference(read_metrics(engine(3)), read_metrics(engine(4, number=1)))
    both = difference(read_metrics(engine(3) + engine(1, number=1)), read_metrics(engine(4) + engine(3, number=1)))
    assert [one.drafts for one in both.values()] == [20, 40]
    assert isinstance(both[EngineKey("m", "1", "")], Counters)
