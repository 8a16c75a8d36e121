"""The trained model as a checkpoint that vLLM serves, in bfloat16, and back again."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from draftmeter.strict import write_json
from draftmeter_training.decoder import Decoder
from draftmeter_training.layout import config_json, layout_of
from draftmeter_training.tokens import END_ID, PAD_ID, tokenizer_config

# A router's bias decides ties between experts; GLM's own checkpoints keep it in float32.
FULL_PRECISION = "e_score_correction_bias"


def write_model(model: Decoder, tokenizer: Tokenizer, folder: Path) -> None:
    """Write weights, configs and tokenizer into `folder` (created)."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: (tensor if name.endswith(FULL_PRECISION) else tensor.to(torch.bfloat16)).contiguous().clone()
        for name, tensor in named_weights(model).items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    # The library writes for its owner only; a checkpoint in a repository is for everybody.
    (folder / "model.safetensors").chmod(0o644)
    write_json(folder / "config.json", config_json(model.layout, END_ID, PAD_ID))
    write_json(folder / "generation_config.json", {"eos_token_id": END_ID, "pad_token_id": PAD_ID})
    write_json(folder / "tokenizer_config.json", tokenizer_config(model.layout.context))
    tokenizer.save(str(folder / "tokenizer.json"))


def read_model(folder: Path) -> Decoder:
    """The model of a checkpoint, in float32 arithmetic on its bfloat16 weights, as the study's server computes it.

    Raises ValueError when the file holds other tensors than config.json asks for.
    """
    model = Decoder(layout_of(json.loads((folder / "config.json").read_text()))).eval()
    stored = load_file(folder / "model.safetensors")
    own = named_weights(model)
    if stored.keys() != own.keys():
        raise ValueError(f"{folder}/model.safetensors: its tensors differ in {sorted(stored.keys() ^ own.keys())[:5]}")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(stored[name])
    return model


def named_weights(model: Decoder) -> dict[str, Tensor]:
    """Views of all weights under the names of the checkpoint layout; the head is the layer after the last."""
    weights = {
        "model.embed_tokens.weight": model.embed_tokens.weight.data,
        "model.norm.weight": model.norm.weight.data,
        "lm_head.weight": model.lm_head.weight.data,
    }
    for number, layer in enumerate(model.layers):
        weights |= _layer(f"model.layers.{number}.", layer)
    prefix = f"model.layers.{len(model.layers)}."
    for name in ("enorm", "hnorm", "eh_proj"):
        weights[f"{prefix}{name}.weight"] = getattr(model.head, name).weight.data
    weights[f"{prefix}shared_head.norm.weight"] = model.head.norm.weight.data
    return weights | _layer(prefix, model.head.block)


def _layer(prefix: str, layer: torch.nn.Module) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for name, tensor in layer.state_dict().items():
        if name == "mlp.bias":
            weights[f"{prefix}mlp.gate.{FULL_PRECISION}"] = tensor
        elif name == "mlp.gate_up":
            for expert, both in enumerate(tensor):
                gate, up = both.chunk(2)
                weights[f"{prefix}mlp.experts.{expert}.gate_proj.weight"] = gate
                weights[f"{prefix}mlp.experts.{expert}.up_proj.weight"] = up
        elif name == "mlp.down":
            for expert, down in enumerate(tensor):
                weights[f"{prefix}mlp.experts.{expert}.down_proj.weight"] = down
        elif "gate_up_proj" in name:
            gate, up = tensor.chunk(2)
            weights[prefix + name.replace("gate_up_proj", "gate_proj")] = gate
            weights[prefix + name.replace("gate_up_proj", "up_proj")] = up
        else:
            weights[prefix + name] = tensor
    return weights
