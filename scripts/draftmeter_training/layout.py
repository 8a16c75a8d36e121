"""The shape of the trained model and its config.json: GLM-4-MoE with one multi-token-prediction layer."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Layout:
    """Sizes of the decoder. One layer with a dense feed-forward comes first, all others route to experts."""

    vocabulary: int = 1024
    hidden: int = 192
    layers: int = 4
    heads: int = 3
    kv_heads: int = 1
    head_dim: int = 64
    dense_intermediate: int = 512
    experts: int = 8
    active_experts: int = 2
    expert_intermediate: int = 128
    context: int = 1024
    """Longest sequence in tokens that the model was trained on."""
    rope_theta: float = 10000.0
    norm_epsilon: float = 1e-5

    @property
    def rotary_dim(self) -> int:
        """Dimensions of a head that are rotated: the first half."""
        return self.head_dim // 2


def layout_from(values: dict[str, Any]) -> Layout:
    """The layout that `layout_values` wrote. Raises TypeError for unknown or missing keys."""
    return Layout(**values)


def layout_values(layout: Layout) -> dict[str, Any]:
    """The layout as plain values, for a checkpoint."""
    return asdict(layout)


def config_json(layout: Layout, end_token: int, pad_token: int) -> dict[str, Any]:
    """The config.json under which vLLM serves the model."""
    return {
        "architectures": ["Glm4MoeForCausalLM"],
        "model_type": "glm4_moe",
        "vocab_size": layout.vocabulary,
        "hidden_size": layout.hidden,
        "intermediate_size": layout.dense_intermediate,
        "moe_intermediate_size": layout.expert_intermediate,
        "num_hidden_layers": layout.layers,
        "num_nextn_predict_layers": 1,
        "num_attention_heads": layout.heads,
        "num_key_value_heads": layout.kv_heads,
        "head_dim": layout.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": layout.norm_epsilon,
        "max_position_embeddings": layout.context,
        "rope_parameters": {"rope_type": "default", "rope_theta": layout.rope_theta, "partial_rotary_factor": 0.5},
        "attention_bias": False,
        "use_qk_norm": True,
        "n_routed_experts": layout.experts,
        "n_shared_experts": 1,
        "num_experts_per_tok": layout.active_experts,
        "norm_topk_prob": True,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "routed_scaling_factor": 1.0,
        "tie_word_embeddings": False,
        "eos_token_id": end_token,
        "pad_token_id": pad_token,
        "torch_dtype": "bfloat16",
    }


def layout_of(config: dict[str, Any]) -> Layout:
    """The layout that a config.json describes."""
    return Layout(
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head_dim=config["head_dim"],
        dense_intermediate=config["intermediate_size"],
        experts=config["n_routed_experts"],
        active_experts=config["num_experts_per_tok"],
        expert_intermediate=config["moe_intermediate_size"],
        context=config["max_position_embeddings"],
        rope_theta=config["rope_parameters"]["rope_theta"],
        norm_epsilon=config["rms_norm_eps"],
    )
