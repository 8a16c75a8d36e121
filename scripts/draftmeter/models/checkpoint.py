"""Write a known-answer model as a checkpoint that vLLM serves: weights, tokenizer, chat template.

The layout is MiMo's (Qwen2 names plus one multi-token-prediction layer). Attention and feed-forward outputs are zero, so
the hidden state is the one-hot embedding of the current token; RMSNorm scales it to sqrt(hidden size), and the head's
rows hold temperature * log P / sqrt(hidden size): the logits are the chain's log probabilities. The prediction head's
input projection passes the token embedding alone, so that it drafts the most probable next token of the same chain.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from draftmeter.models.known_answer import END, FIRST_OF_GROUP, PAD, build_chain
from draftmeter.strict import write_json
from draftmeter.study.schema import KnownAnswerModel

HIDDEN = 512
HEAD_DIM = 64
INTERMEDIATE = 64
CONTEXT = 8192
BYTES = 256
# Finite stand-in for log 0: far below every probability of a chain, small enough to be exact in float32 arithmetic.
LOG_ZERO = -80.0
# The mean square of a one-hot vector is 1/HIDDEN; an ordinary epsilon of 1e-6 would already bend the logits.
RMS_NORM_EPS = 1e-12

END_TEXT, PAD_TEXT = "<|end|>", "<|pad|>"
# Without a group (as in the server's own warm-up) a prompt ends in a byte, and its reply ends at once.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if group is defined %}{{ '<|' + group + '|>' }}{% endif %}"
)

Float32 = NDArray[np.float32]


def group_tokens(model: KnownAnswerModel, name: str) -> tuple[int, list[int]]:
    """Token ids of group `name`: the start token that a prompt ends with, and one id a state of its chain."""
    own = build_chain(model, name).matrix.shape[0] - FIRST_OF_GROUP
    start = BYTES + FIRST_OF_GROUP + sorted(model.groups).index(name) * (own + 1)
    return start, [BYTES + END, BYTES + PAD, *range(start + 1, start + 1 + own)]


def write_checkpoint(model: KnownAnswerModel, folder: Path) -> None:
    """Write the checkpoint into `folder` (created); the same model gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    log_p, names = _log_probabilities(model)
    save_file(_weights(log_p, model.temperature), folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", _config(len(names)))
    write_json(folder / "generation_config.json", {"eos_token_id": BYTES + END, "pad_token_id": BYTES + PAD})
    write_json(folder / "tokenizer.json", _tokenizer(names))
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "eos_token": END_TEXT,
            "pad_token": PAD_TEXT,
            "model_max_length": CONTEXT,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    )


def _log_probabilities(model: KnownAnswerModel) -> tuple[NDArray[np.float64], list[str]]:
    """The matrix over the whole vocabulary, shape (V, V), and the text of each token above the bytes."""
    names = [END_TEXT, PAD_TEXT]
    groups = {name: group_tokens(model, name) for name in sorted(model.groups)}
    size = max(max(ids) for _, ids in groups.values()) + 1
    probabilities = np.zeros((size, size))
    # No prompt ends in a byte; if one ever does, its reply ends at once instead of wandering into a group.
    probabilities[:, BYTES + END] = 1.0
    for name, (start, ids) in groups.items():
        chain = build_chain(model, name)
        rows = np.array([start, *ids])
        probabilities[rows] = 0.0
        probabilities[np.ix_(ids, ids)] = chain.matrix
        probabilities[start, ids] = chain.start
        names += [f"<|{name}|>", *(f"{name}{number:02d} " for number in range(len(ids) - FIRST_OF_GROUP))]
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(probabilities), LOG_ZERO), names


def _weights(log_p: NDArray[np.float64], temperature: float) -> dict[str, Float32]:
    size = len(log_p)
    if size > HIDDEN:
        raise ValueError(f"models: the groups need {size} tokens, more than the hidden size of {HIDDEN}; use fewer groups")
    embedding = np.zeros((size, HIDDEN), dtype=np.float32)
    embedding[np.arange(size), np.arange(size)] = 1.0
    head = np.zeros((size, HIDDEN), dtype=np.float32)
    head[:, :size] = (temperature * log_p.T / np.sqrt(HIDDEN)).astype(np.float32)
    project = np.zeros((HIDDEN, 2 * HIDDEN), dtype=np.float32)
    # The projection reads (hidden state, token embedding): pass the second half only.
    project[:, HIDDEN:] = np.eye(HIDDEN, dtype=np.float32)
    ones = np.ones(HIDDEN, dtype=np.float32)
    weights = {"model.embed_tokens.weight": embedding, "lm_head.weight": head, "model.norm.weight": ones}
    weights |= _layer("model.layers.0.") | _layer("model.mtp_layers.0.")
    for norm in ("token_layernorm", "hidden_layernorm", "final_layernorm"):
        weights[f"model.mtp_layers.0.{norm}.weight"] = ones
    weights["model.mtp_layers.0.input_proj.weight"] = project
    return weights


def _layer(prefix: str) -> dict[str, Float32]:
    """A transformer layer that adds nothing to the residual stream."""

    def zeros(*shape: int) -> Float32:
        return np.zeros(shape, dtype=np.float32)

    ones = np.ones(HIDDEN, dtype=np.float32)
    layer = {"input_layernorm.weight": ones, "post_attention_layernorm.weight": ones}
    layer |= {"self_attn.q_proj.weight": zeros(HIDDEN, HIDDEN), "self_attn.q_proj.bias": zeros(HIDDEN)}
    for name in ("k_proj", "v_proj"):
        layer |= {f"self_attn.{name}.weight": zeros(HEAD_DIM, HIDDEN), f"self_attn.{name}.bias": zeros(HEAD_DIM)}
    layer["self_attn.o_proj.weight"] = zeros(HIDDEN, HIDDEN)
    layer |= {f"mlp.{name}.weight": zeros(INTERMEDIATE, HIDDEN) for name in ("gate_proj", "up_proj")}
    layer["mlp.down_proj.weight"] = zeros(HIDDEN, INTERMEDIATE)
    return {prefix + name: weight for name, weight in layer.items()}


def _config(above_bytes: int) -> dict[str, Any]:
    return {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": 1,
        "num_nextn_predict_layers": 1,
        "num_attention_heads": HIDDEN // HEAD_DIM,
        "num_key_value_heads": 1,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "rms_norm_eps": RMS_NORM_EPS,
        "max_position_embeddings": CONTEXT,
        "rope_theta": 10000.0,
        "vocab_size": BYTES + above_bytes,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "use_sliding_window": False,
        "eos_token_id": BYTES + END,
        "pad_token_id": BYTES + PAD,
        "torch_dtype": "float32",
    }


def _tokenizer(names: list[str]) -> dict[str, Any]:
    """A byte-level BPE tokenizer without merges: one token a byte, and the model's own tokens as added tokens."""
    vocabulary = {character: number for number, character in enumerate(_byte_characters())}
    added = [
        {
            "id": BYTES + number,
            "content": name,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": name in (END_TEXT, PAD_TEXT),
        }
        for number, name in enumerate(names)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }


def _byte_characters() -> list[str]:
    """The printable character that byte-level BPE uses for each byte (the mapping of GPT-2's tokenizer)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    spare = iter(range(BYTES, 2 * BYTES))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(BYTES)]
