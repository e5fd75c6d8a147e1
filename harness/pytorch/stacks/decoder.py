"""Decoder layers in plain PyTorch, eager: Llama-3-like, and with routed experts Mixtral-like.

Their parts are those that foreplan counts for the Hugging Face configuration that `hugging_face` writes
(models/rank/), with torch.nn's own norms and one kernel per function (`elementwise_kernels: modules`).
"""

import dataclasses
import json

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int  # of an expert where there are some
    vocabulary: int
    experts: int = 0  # 0 = one dense feed-forward block
    top_k: int = 0

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    def hugging_face(self) -> str:
        """config.json of this model."""
        config = {"model_type": "mixtral" if self.experts else "llama", "hidden_size": self.hidden,
                  "intermediate_size": self.ffn, "num_hidden_layers": self.layers,
                  "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads,
                  "vocab_size": self.vocabulary, "tie_word_embeddings": False}
        if self.experts:
            config |= {"num_local_experts": self.experts, "num_experts_per_tok": self.top_k,
                       "sliding_window": None}
        return json.dumps(config)


def rotary_tables(length: int, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines [length, head_dim] of Llama 3's angles (base 500000), each twice."""
    frequencies = 500000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The first half of a head against the second."""
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


class Attention(nn.Module):
    """Grouped-query causal attention."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.head_dim = config.head_dim
        self.q = nn.Linear(config.hidden, config.heads * config.head_dim, bias=False)
        self.k = nn.Linear(config.hidden, config.kv_heads * config.head_dim, bias=False)
        self.v = nn.Linear(config.hidden, config.kv_heads * config.head_dim, bias=False)
        self.output = nn.Linear(config.heads * config.head_dim, config.hidden, bias=False)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q, k = (rotate(self._heads(project(x)), cos, sin) for project in (self.q, self.k))
        context = F.scaled_dot_product_attention(q, k, self._heads(self.v(x)), is_causal=True, enable_gqa=True)
        return self.output(context.transpose(1, 2).flatten(2))


def gated(gate_and_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_and_up.chunk(2, -1)
    return F.silu(gate) * up


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.gate_and_up = nn.Linear(config.hidden, 2 * config.ffn, bias=False)
        self.down = nn.Linear(config.ffn, config.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(gated(self.gate_and_up(x)))


class Experts(nn.Module):
    """Routed SwiGLU experts. No token is dropped: the copies are sorted by expert, and one grouped product
    multiplies each expert's rows. The host never waits for what the router says."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.top_k = config.top_k
        self.router = nn.Linear(config.hidden, config.experts, bias=False)
        self.gate_and_up = nn.Parameter(torch.empty(config.experts, 2 * config.ffn, config.hidden))
        self.down = nn.Parameter(torch.empty(config.experts, config.hidden, config.ffn))
        for weight in (self.gate_and_up, self.down):
            nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)

    def route(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Of every copy, sorted by expert: its token and its weight; and where each expert's copies end."""
        weights, chosen = self.router(x).float().softmax(-1).topk(self.top_k)
        weights = weights / weights.sum(-1, keepdim=True)
        experts, order = chosen.flatten().sort(stable=True)
        numbers = torch.arange(self.router.out_features, device=x.device)
        ends = torch.searchsorted(experts, numbers, right=True).to(torch.int32)
        return order // self.top_k, weights.flatten()[order], ends

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, -2)
        token, weights, ends = self.route(tokens)
        inner = gated(F.grouped_mm(tokens[token], self.gate_and_up.transpose(-2, -1), offs=ends))
        outer = F.grouped_mm(inner, self.down.transpose(-2, -1), offs=ends)
        weighed = (outer.float() * weights[:, None]).to(x.dtype)
        places = token[:, None].expand_as(weighed)
        return torch.zeros_like(tokens).scatter_add(0, places, weighed).view_as(x)


class Layer(nn.Module):
    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.hidden, eps=1e-5)
        self.attention = Attention(config)
        self.ffn_norm = nn.RMSNorm(config.hidden, eps=1e-5)
        self.ffn = Experts(config) if config.experts else FeedForward(config)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.ffn(self.ffn_norm(x))


class Decoder(nn.Module):
    """Returns the loss of the next tokens."""

    def __init__(self, config: DecoderConfig, sequence_length: int):
        super().__init__()
        self.embedding = nn.Embedding(config.vocabulary, config.hidden)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.final_norm = nn.RMSNorm(config.hidden, eps=1e-5)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)
        cos, sin = rotary_tables(sequence_length, config.head_dim)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = self.head(self.final_norm(x)).flatten(0, 1).float()
        return F.cross_entropy(logits, targets.flatten())


def decoder_batch(config: DecoderConfig, batch: int, length: int, device: torch.device,
                  _dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Random tokens and targets."""
    tokens, targets = (torch.randint(0, config.vocabulary, (batch, length), device=device) for _ in range(2))
    return tokens, targets
