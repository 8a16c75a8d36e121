"""The offline reference against itself by other ways: no cache, no speculation, exact probabilities."""

import pytest
from scipy import stats

from chance import LUCK

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from draftmeter_training.decoder import DEPTH, Decoder  # noqa: E402
from draftmeter_training.layout import Layout  # noqa: E402
from draftmeter_training.reference import (  # noqa: E402
    Reply,
    SamplingRule,
    acceptance,
    probabilities,
    replay,
    same_steps,
    speculate,
)
from draftmeter_training.tokens import END_ID  # noqa: E402

LAYOUT = Layout(
    vocabulary=16,
    hidden=32,
    layers=2,
    heads=2,
    kv_heads=1,
    head_dim=16,
    dense_intermediate=32,
    experts=4,
    expert_intermediate=16,
    context=128,
)


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(3)
    made = Decoder(LAYOUT).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 1.0 if "embed" in name else 0.5 if "lm_head" in name else 0.2, generator=generator)
        # The head mostly looks at the last token, as the decoder does through its residual stream: it drafts with success.
        made.head.eh_proj.weight[:, : LAYOUT.hidden] += torch.eye(LAYOUT.hidden)
        made.lm_head.weight[END_ID] *= 0.2
    return made


@pytest.fixture(scope="module")
def prompts():
    generator = torch.Generator().manual_seed(4)
    sizes = torch.randint(2, 9, (12,), generator=generator).tolist()
    return [torch.randint(6, 16, (size,), generator=generator).tolist() for size in sizes]


def greedy(model, prompt, count):
    text = list(prompt)
    while len(text) < len(prompt) + count and END_ID not in text[len(prompt) :]:
        text.append(int(model.lm_head(model(torch.tensor([text])))[0, -1].argmax()))
    return text[len(prompt) :]


def test_temperature_zero_writes_what_the_decoder_writes_alone(model, prompts):
    replies = speculate(model, prompts, SamplingRule(temperature=0), 20, seed=1)
    assert [reply.tokens for reply in replies] == [greedy(model, prompt, 20) for prompt in prompts]


@pytest.mark.parametrize("rule", [SamplingRule(0.7), SamplingRule(1.0, top_p=0.9), SamplingRule(0.5, top_k=3), SamplingRule(0)])
def test_replay_of_whole_sequences_counts_what_the_steps_with_their_cache_counted(model, prompts, rule):
    replies = speculate(model, prompts, rule, 40, seed=2)
    assert sum(sum(reply.accepted) for reply in replies) > 10
    for prompt, reply in zip(prompts, replies, strict=True):
        assert same_steps(replay(model, prompt, reply.tokens).accepted, reply.accepted)


def test_a_damaged_head_does_not_replay(model, prompts):
    replies = speculate(model, prompts, SamplingRule(0.7), 40, seed=2)
    with torch.no_grad():
        kept = model.head.eh_proj.weight.clone()
        model.head.eh_proj.weight.copy_(kept.roll(LAYOUT.hidden, dims=1))
    try:
        agree = [
            same_steps(replay(model, prompt, reply.tokens).accepted, reply.accepted)
            for prompt, reply in zip(prompts, replies, strict=True)
        ]
    finally:
        with torch.no_grad():
            model.head.eh_proj.weight.copy_(kept)
    assert not all(agree)


def test_speculation_keeps_the_distribution_of_the_text(model):
    prompt, rows = [7, 9, 11], 3000
    rule = SamplingRule(0.8)
    replies = speculate(model, [prompt] * rows, rule, 3, seed=5)
    seen = torch.zeros(16, 16)
    for reply in replies:
        if len(reply.tokens) > 1:
            seen[reply.tokens[0], reply.tokens[1]] += 1
    texts = torch.tensor([[*prompt, token] for token in range(16)])
    with torch.no_grad():
        first = probabilities(model.lm_head(model(torch.tensor([prompt])))[0, -1], rule)
        second = probabilities(model.lm_head(model(texts))[:, -1], rule)
    expected = first[:, None] * second * rows
    expected[END_ID] = 0
    common = expected > 5
    chi2 = float(((seen - expected)[common].square() / expected[common]).sum())
    assert chi2 < stats.chi2.isf(LUCK, int(common.sum()))


def test_the_ceiling_at_temperature_zero_is_the_whole_draft(model, prompts):
    reply = greedy(model, prompts[0], 21)
    assert set(replay(model, prompts[0], reply).ceiling[:-1]) == {DEPTH}


def test_probabilities_cut_as_the_server_does():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.1]]))
    assert probabilities(logits, SamplingRule(1.0)).tolist()[0] == pytest.approx([0.5, 0.25, 0.15, 0.1])
    assert probabilities(logits, SamplingRule(1.0, top_k=2)).tolist()[0] == pytest.approx([2 / 3, 1 / 3, 0, 0])
    assert probabilities(logits, SamplingRule(1.0, top_p=0.8)).tolist()[0] == pytest.approx([5 / 9, 2.5 / 9, 1.5 / 9, 0])
    assert probabilities(logits, SamplingRule(0.0)).tolist()[0] == [1, 0, 0, 0]
    assert probabilities(logits, SamplingRule(0.5)).tolist()[0][0] == pytest.approx(0.25 / 0.345)


def test_acceptance_of_known_steps():
    found = acceptance([[3, 0], [1, 2]])
    assert (found.drafts, found.replies) == (4, 2)
    assert found.through == pytest.approx([0.75, 0.5, 0.25])
    assert found.accepted_over_drafted == pytest.approx(0.5)
    assert found.tokens_per_step == pytest.approx(2.5)
    # Ratio of sums: residuals of the first share are 1 - 1.5 and 2 - 1.5, over four drafts.
    assert found.standard_error[0] == pytest.approx(0.5**0.5 / 4)
    with pytest.raises(ValueError, match="no reply has a step"):
        acceptance([[], []])


def test_the_last_step_may_lie_past_the_text():
    assert same_steps([2, 1], [2, 3])
    assert not same_steps([1, 1], [2, 1])
    assert not same_steps([2], [2, 0])
    assert Reply([1], []).accepted == []
