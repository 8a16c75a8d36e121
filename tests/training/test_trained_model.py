"""Tokenizer, rows, training that resumes, export and card of the small model, on tiny sizes."""

from dataclasses import replace

import jinja2
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from draftmeter_training import training as loop  # noqa: E402
from draftmeter_training.conversations import MIXTURE, Conversation  # noqa: E402
from draftmeter_training.corpus import read_corpus  # noqa: E402
from draftmeter_training.decoder import Decoder, Experts  # noqa: E402
from draftmeter_training.export import named_weights, read_model, write_model  # noqa: E402
from draftmeter_training.layout import Layout, config_json, layout_of  # noqa: E402
from draftmeter_training.losses import watch  # noqa: E402
from draftmeter_training.optimiser import initialise, orthogonal  # noqa: E402
from draftmeter_training.rows import held_out_rows, training_rows  # noqa: E402
from draftmeter_training.tokens import CHAT_TEMPLATE, END_ID, THINK_END_ID, THINK_ID, conversation_ids, prompt_ids  # noqa: E402
from draftmeter_training.training import Settings, head_rate_factor, rate_factor, tokenizer_of, train  # noqa: E402

TINY = Layout(
    vocabulary=400,
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
SETTINGS = Settings(steps=8, head_steps=4, rows=2, length=65, watch_every=4, layout=TINY)


@pytest.fixture(scope="module")
def corpora():
    return read_corpus()


@pytest.fixture(scope="module")
def tokenizer(corpora):
    return tokenizer_of(corpora[0], SETTINGS, documents=200)


def rendered(messages, **arguments):
    return jinja2.Template(CHAT_TEMPLATE).render(messages=messages, add_generation_prompt=True, **arguments)


@pytest.mark.parametrize("reasoning", [False, True])
def test_the_chat_template_makes_the_tokens_that_training_saw(tokenizer, reasoning):
    text = rendered([{"role": "user", "content": "What is 3 + 4?"}], enable_thinking=reasoning)
    assert tokenizer.encode(text).ids == prompt_ids(tokenizer, "What is 3 + 4?", reasoning)
    assert text.endswith("<|assistant|>" if reasoning else "<think></think>")


def test_the_chat_template_drops_past_thinking_and_defaults_to_none(tokenizer):
    past = {"role": "assistant", "content": "<think>\nsteps\n</think>\nSeven."}
    text = rendered([{"role": "user", "content": "a"}, past, {"role": "user", "content": "b"}])
    assert text == "<|user|>a<|end|><|assistant|><think></think>Seven.<|end|><|user|>b<|end|><|assistant|><think></think>"


def test_a_conversation_learns_its_reply_and_only_then_its_prompt(tokenizer):
    ids, learnt = conversation_ids(tokenizer, Conversation("ask", "tell", "think", learn_prompt=False))
    prompt = prompt_ids(tokenizer, "ask", reasoning=True)
    assert ids[: len(prompt)] == prompt and ids[len(prompt)] == THINK_ID and ids[-1] == END_ID
    assert len(ids) == len(learnt) and all(learnt[len(prompt) :]) and not any(learnt[: len(prompt)])
    assert tokenizer.decode(ids[len(prompt) :], skip_special_tokens=False).endswith("</think>\ntell<|end|>")


def test_an_empty_thinking_part_is_never_learnt(tokenizer):
    ids, learnt = conversation_ids(tokenizer, Conversation("ask", "tell"))
    assert THINK_END_ID in ids and not learnt[ids.index(THINK_ID)] and not learnt[ids.index(THINK_END_ID)]
    assert sum(learnt) == len(ids) - 2


def test_a_server_keeps_the_thinking_part_in_its_text(tokenizer):
    assert tokenizer.decode([THINK_ID, THINK_END_ID, END_ID], skip_special_tokens=True) == "<think></think>"


def test_rows_are_the_same_for_the_same_step_and_hold_every_kind_in_its_share(corpora, tokenizer):
    first, again, other = (training_rows(corpora[0], tokenizer, 1, step, (4, 300)) for step in (0, 0, 1))
    assert torch.equal(first.tokens, again.tokens) and not torch.equal(first.tokens, other.tokens)
    assert first.tokens.shape == first.learnt.shape == (4, 300)
    assert [part.tokens.shape for part in first.split(2)] == [(2, 300)] * 2
    for kind in MIXTURE:
        rows = held_out_rows(corpora[1], tokenizer, 1, kind, (3, 500))
        assert rows.learnt.any(dim=1).all() and not rows.learnt[:, 0].any()


@pytest.fixture(scope="module")
def whole(corpora, tokenizer, tmp_path_factory):
    return train(SETTINGS, *corpora, tokenizer, tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("at", [5, 8, 10])
def test_an_interrupted_training_goes_on_to_the_same_weights(at, whole, corpora, tokenizer, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(loop, "CHECKPOINT_EVERY_S", -1.0)

    def stop(corpus, tokens, seed, step, shape):
        if step == at:
            raise KeyboardInterrupt
        return training_rows(corpus, tokens, seed, step, shape)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(loop, "training_rows", stop)
        train(SETTINGS, *corpora, tokenizer, tmp_path / "parts")
    resumed = train(SETTINGS, *corpora, tokenizer, tmp_path / "parts")
    assert f"goes on at step {at}" in capsys.readouterr().out
    for (name, tensor), other in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(tensor, other), name
    with pytest.raises(ValueError, match="remove it to start anew"):
        train(Settings(seed=6, layout=TINY), *corpora, tokenizer, tmp_path / "parts")


def test_the_rate_falls_with_steps_or_time_whichever_is_ahead():
    settings = Settings(steps=1000, budget_s=100.0, head_steps=100, head_budget_s=10.0)
    assert rate_factor(settings, loop.Progress(0, 0.0)) < 0.1
    assert rate_factor(settings, loop.Progress(200, 0.0)) == 1
    assert rate_factor(settings, loop.Progress(200, 62.5)) == pytest.approx(0.5)
    assert rate_factor(settings, loop.Progress(625, 1.0)) == pytest.approx(0.5)
    assert rate_factor(settings, loop.Progress(1000, 1.0)) == rate_factor(settings, loop.Progress(10, 100.0)) == 0
    assert head_rate_factor(settings, loop.Progress(1000, 100.0, 50, 1.0)) == pytest.approx(0.25)
    assert head_rate_factor(settings, loop.Progress(1000, 100.0, 41, 7.5)) == pytest.approx(0.125)
    assert head_rate_factor(settings, loop.Progress(1000, 100.0, 100, 1.0)) == 0


def test_the_head_alone_leaves_the_decoder_as_it_is(corpora, tokenizer, tmp_path):
    before = train(replace(SETTINGS, head_steps=0), *corpora, tokenizer, tmp_path / "before").state_dict()
    after = train(SETTINGS, *corpora, tokenizer, tmp_path / "after").state_dict()
    changed = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"head"}


def test_momentum_becomes_orthogonal():
    generator = torch.Generator().manual_seed(1)
    for shape in ((8, 20), (20, 8), (3, 8, 20)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape, generator=generator)))
        assert float(values.min()) > 0.6 and float(values.max()) < 1.3


def test_experts_are_what_a_loop_over_tokens_computes():
    torch.manual_seed(2)
    experts = Experts(TINY)
    initialise(model := Decoder(TINY), 2)
    experts.load_state_dict(model.layers[1].mlp.state_dict())
    with torch.no_grad():
        experts.down.normal_()
        experts.bias.copy_(torch.tensor([0.3, -0.3, 0.0, 0.1]))
    x = torch.randn(7, TINY.hidden)
    scores = torch.sigmoid(x @ experts.gate.weight.T)
    for row, token in enumerate(x):
        chosen = (scores[row] + experts.bias).topk(2).indices
        expected = experts.shared_experts(token)
        for expert in chosen:
            gate, up = (experts.gate_up[expert] @ token).chunk(2)
            share = scores[row, expert] / scores[row, chosen].sum()
            expected = expected + share * (experts.down[expert] @ (torch.nn.functional.silu(gate) * up))
        assert torch.allclose(experts(x)[row], expected, atol=1e-5)
    experts.loads.clear()
    experts.loads.append(torch.tensor([10, 0, 5, 5]))
    experts.balance(0.1)
    assert experts.bias.tolist() == pytest.approx([0.2, -0.2, 0.0, 0.1])


def test_export_keeps_the_weights_in_bfloat16_under_the_servers_names(tokenizer, tmp_path):
    initialise(model := Decoder(TINY), 4)
    write_model(model.eval(), tokenizer, tmp_path)
    names = set(named_weights(model))
    assert {"model.embed_tokens.weight", "lm_head.weight", "model.layers.0.mlp.gate_proj.weight"} <= names
    assert {"model.layers.1.mlp.experts.3.up_proj.weight", "model.layers.2.eh_proj.weight"} <= names
    assert "model.layers.2.shared_head.norm.weight" in names and not any("bias" in n and "e_score" not in n for n in names)
    again = read_model(tmp_path)
    for tensor, other in zip(model.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(tensor.to(torch.bfloat16), other.to(torch.bfloat16))
    assert layout_of(config_json(TINY, 0, 1)) == TINY


def test_a_file_of_another_layout_is_refused(tokenizer, tmp_path):
    write_model(Decoder(TINY), tokenizer, tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"num_hidden_layers": 2', '"num_hidden_layers": 3'))
    assert config != (tmp_path / "config.json").read_text()
    with pytest.raises(ValueError, match="tensors differ"):
        read_model(tmp_path)


def test_the_watch_of_an_untrained_model_is_near_chance(corpora, tokenizer):
    initialise(model := Decoder(TINY), 4)
    found = watch(model, held_out_rows(corpora[1], tokenizer, 1, "code", (4, 65)))
    assert found.loss == pytest.approx(np.log(TINY.vocabulary), rel=0.1)
    assert found.drafts_match[0] < 0.1 and found.drafts_match == sorted(found.drafts_match, reverse=True)
