"""The decoder and its multi-token-prediction head in plain PyTorch, computing what vLLM's Glm4MoeForCausalLM computes.

The hidden state that the decoder hands to the head is the one after the last norm. Application 1 of the head at position
i joins the embedding of token i+1 with hidden state i and predicts token i+2; application k moves one position on and
takes the head's own output (before its norm) for the hidden state. Its keys and values of application 1 are the history;
a later application attends to that history up to the start of its chain and to the chain's own keys.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from draftmeter_training.layout import Layout

DEPTH = 3
"""Times that the head is applied: drafted tokens a step."""


@dataclass(frozen=True)
class Past:
    """Keys and values of one attention layer for a batch of growing sequences, shape (rows, kv heads, positions, head_dim).

    A position is written again when its token turns out to be another; what lies behind a query's position is never read.
    """

    keys: Tensor
    values: Tensor

    def write(self, keys: Tensor, values: Tensor, positions: Tensor) -> None:
        """Store `keys` and `values` (rows, kv heads, n, head_dim) at `positions` (rows, n)."""
        where = positions[:, None, :, None].expand_as(keys)
        self.keys.scatter_(2, where, keys)
        self.values.scatter_(2, where, values)


class Attention(nn.Module):
    """Grouped-query attention with normed queries and keys and rotation of the first half of each head."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.layout = layout
        inner, narrow = layout.heads * layout.head_dim, layout.kv_heads * layout.head_dim
        self.q_proj = nn.Linear(layout.hidden, inner, bias=False)
        self.k_proj = nn.Linear(layout.hidden, narrow, bias=False)
        self.v_proj = nn.Linear(layout.hidden, narrow, bias=False)
        self.o_proj = nn.Linear(inner, layout.hidden, bias=False)
        self.q_norm = nn.RMSNorm(layout.head_dim, eps=layout.norm_epsilon)
        self.k_norm = nn.RMSNorm(layout.head_dim, eps=layout.norm_epsilon)

    def queries(self, x: Tensor, positions: Tensor) -> Tensor:
        """Shape (rows, heads, n, head_dim) for `x` (rows, n, hidden) at `positions` (rows or 1, n)."""
        q = self.q_proj(x).unflatten(-1, (self.layout.heads, self.layout.head_dim)).transpose(1, 2)
        return rotate(self.q_norm(q), positions, self.layout)

    def keys_values(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, each of shape (rows, kv heads, n, head_dim)."""
        shape = (self.layout.kv_heads, self.layout.head_dim)
        k = self.k_proj(x).unflatten(-1, shape).transpose(1, 2)
        v = self.v_proj(x).unflatten(-1, shape).transpose(1, 2)
        return rotate(self.k_norm(k), positions, self.layout), v

    def forward(self, x: Tensor, positions: Tensor, past: Past | None) -> Tensor:
        """Causal attention within `x`, or over `past` (which then takes the keys and values of `x`)."""
        q = self.queries(x, positions)
        keys, values = self.keys_values(x, positions)
        visible = None
        if past is not None:
            past.write(keys, values, positions)
            keys, values = past.keys, past.values
            visible = (torch.arange(keys.shape[2]) <= positions[:, :, None])[:, None]
        mixed = functional.scaled_dot_product_attention(
            q, self.shared(keys), self.shared(values), attn_mask=visible, is_causal=past is None
        )
        return self.output(mixed)

    def shared(self, x: Tensor) -> Tensor:
        """Keys or values repeated for the query heads that share them."""
        return x.repeat_interleave(self.layout.heads // self.layout.kv_heads, dim=1)

    def output(self, mixed: Tensor) -> Tensor:
        """The projection back, from (rows, heads, n, head_dim) to (rows, n, hidden)."""
        projected: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return projected


def rotate(x: Tensor, positions: Tensor, layout: Layout) -> Tensor:
    """Rotary position embedding of the first `rotary_dim` dimensions, in halves (not interleaved)."""
    half = layout.rotary_dim // 2
    frequency = layout.rope_theta ** (-torch.arange(half, dtype=torch.float32) / half)
    angle = (positions.float()[..., None] * frequency)[:, None]
    cos, sin = angle.cos(), angle.sin()
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), dim=-1)


class Dense(nn.Module):
    """Feed-forward with a gate: down(silu(gate x) * up x)."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(hidden, 2 * intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Any shape (..., hidden)."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        down: Tensor = self.down_proj(functional.silu(gate) * up)
        return down


class Experts(nn.Module):
    """Routed experts and one shared one. An expert is chosen by score plus bias and weighted by its share of the scores."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.active, self.number = layout.active_experts, layout.experts
        self.gate = nn.Linear(layout.hidden, layout.experts, bias=False)
        self.gate_up = nn.Parameter(torch.empty(layout.experts, 2 * layout.expert_intermediate, layout.hidden))
        self.down = nn.Parameter(torch.empty(layout.experts, layout.hidden, layout.expert_intermediate))
        self.shared_experts = Dense(layout.hidden, layout.expert_intermediate)
        self.register_buffer("bias", torch.zeros(layout.experts))
        self.bias: Tensor
        self.loads: list[Tensor] = []
        """Tokens that each expert took, an entry a pass since the bias was last balanced."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape (..., hidden)."""
        flat = x.reshape(-1, x.shape[-1])
        scores = self.gate(flat).sigmoid()
        chosen = (scores + self.bias).topk(self.active, dim=-1).indices
        weights = scores.gather(1, chosen)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=self.number)
        if self.training:
            self.loads.append(counts)
        rows = order // self.active
        pieces = torch.split(flat[rows], counts.tolist())
        outputs = []
        for piece, gate_up, down in zip(pieces, self.gate_up.unbind(), self.down.unbind(), strict=True):
            gate, up = functional.linear(piece, gate_up).chunk(2, dim=-1)
            outputs.append(functional.linear(functional.silu(gate) * up, down))
        weighted = torch.cat(outputs) * weights.flatten()[order, None]
        routed = torch.zeros_like(flat).index_add(0, rows, weighted)
        mixed: Tensor = (routed + self.shared_experts(flat)).view_as(x)
        return mixed

    def balance(self, rate: float) -> None:
        """Move the bias of each expert by `rate` towards an equal load, and start counting anew."""
        load = torch.stack(self.loads).sum(dim=0).float()
        self.bias += rate * torch.sign(load.mean() - load)
        self.loads.clear()


class Layer(nn.Module):
    """One transformer layer: attention, then feed-forward or experts, each on a normed residual stream."""

    def __init__(self, layout: Layout, dense: bool) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(layout.hidden, eps=layout.norm_epsilon)
        self.self_attn = Attention(layout)
        self.post_attention_layernorm = nn.RMSNorm(layout.hidden, eps=layout.norm_epsilon)
        self.mlp = Dense(layout.hidden, layout.dense_intermediate) if dense else Experts(layout)

    def forward(self, x: Tensor, positions: Tensor, past: Past | None = None) -> Tensor:
        """Shape (rows, n, hidden) in and out."""
        return self.finish(x, self.self_attn(self.input_layernorm(x), positions, past))

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """The layer's output from its input and what attention added."""
        x = x + attended
        done: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return done


class Head(nn.Module):
    """The multi-token-prediction layer, applied several times."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.enorm = nn.RMSNorm(layout.hidden, eps=layout.norm_epsilon)
        self.hnorm = nn.RMSNorm(layout.hidden, eps=layout.norm_epsilon)
        self.eh_proj = nn.Linear(2 * layout.hidden, layout.hidden, bias=False)
        self.block = Layer(layout, dense=False)
        self.norm = nn.RMSNorm(layout.hidden, eps=layout.norm_epsilon)

    def joined(self, embedded: Tensor, hidden: Tensor, positions: Tensor) -> Tensor:
        """The layer's input. The embedding is zero at position 0, as the server has it."""
        embedded = torch.where(positions[..., None] == 0, 0.0, embedded)
        joined: Tensor = self.eh_proj(torch.cat((self.enorm(embedded), self.hnorm(hidden)), dim=-1))
        return joined

    def apply_once(self, embedded: Tensor, hidden: Tensor, positions: Tensor, past: Past) -> Tensor:
        """One application over `past`, as a server makes it: shapes (rows, n, hidden), positions (rows, n)."""
        done: Tensor = self.block(self.joined(embedded, hidden, positions), positions, past)
        return done

    def chains(self, embedded: Tensor, hidden: Tensor, starts: Tensor) -> list[Tensor]:
        """The outputs of DEPTH applications for the chains that start at `starts`, each (rows, len(starts), hidden).

        `embedded` (rows, tokens, hidden) holds the embedding of every token of the text, `hidden` (rows, positions,
        hidden) the decoder's states; chain s needs token s + DEPTH. Drafts are taken to be the text's own tokens: where
        a draft differs, its chain is over.
        """
        attention = self.block.self_attn
        positions = torch.arange(hidden.shape[1])[None]
        x = self.joined(embedded[:, 1 : 1 + hidden.shape[1]], hidden, positions)
        history, values = attention.keys_values(self.block.input_layernorm(x), positions)
        history, values = attention.shared(history), attention.shared(values)
        hide = torch.zeros(len(starts), hidden.shape[1]).masked_fill_(positions > starts[:, None], float("-inf"))
        x = x[:, starts]
        own_keys: list[Tensor] = []
        own_values: list[Tensor] = []
        outputs: list[Tensor] = []
        for depth in range(DEPTH):
            place = (starts + depth)[None]
            if depth:
                x = self.joined(embedded[:, starts + depth + 1], outputs[-1], place)
            normed = self.block.input_layernorm(x)
            q = attention.queries(normed, place) * attention.layout.head_dim**-0.5
            scores = [q @ history.transpose(-1, -2) + hide]
            if depth:
                key, value = attention.keys_values(normed, place)
                own_keys.append(attention.shared(key))
                own_values.append(attention.shared(value))
                scores += [(q * key).sum(-1, keepdim=True) for key in own_keys]
            share = torch.cat(scores, dim=-1).softmax(dim=-1)
            mixed = share[..., : history.shape[2]] @ values
            for number, value in enumerate(own_values):
                mixed = mixed + share[..., history.shape[2] + number, None] * value
            outputs.append(self.block.finish(x, attention.output(mixed)))
        return outputs


class Decoder(nn.Module):
    """The whole model: embedding, layers, last norm, output rows (not tied to the embedding), and the head."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.layout = layout
        self.embed_tokens = nn.Embedding(layout.vocabulary, layout.hidden)
        self.layers = nn.ModuleList(Layer(layout, dense=number == 0) for number in range(layout.layers))
        self.norm = nn.RMSNorm(layout.hidden, eps=layout.norm_epsilon)
        self.lm_head = nn.Linear(layout.hidden, layout.vocabulary, bias=False)
        self.head = Head(layout)

    def forward(self, tokens: Tensor, positions: Tensor | None = None, pasts: list[Past] | None = None) -> Tensor:
        """Hidden states after the last norm, (rows, n, hidden), for `tokens` (rows, n)."""
        if positions is None:
            positions = torch.arange(tokens.shape[1])[None]
        x = self.embed_tokens(tokens)
        for number, layer in enumerate(self.layers):
            x = layer(x, positions, None if pasts is None else pasts[number])
        normed: Tensor = self.norm(x)
        return normed

    def new_past(self, rows: int, positions: int) -> list[Past]:
        """Empty keys and values of all layers; the last one is the head's."""
        shape = (rows, self.layout.kv_heads, positions, self.layout.head_dim)
        return [Past(torch.zeros(shape), torch.zeros(shape)) for _ in range(self.layout.layers + 1)]
