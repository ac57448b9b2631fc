"""The transformer encoder of the usual teaching example, made causal for next-token prediction.

Post-norm and residual dropout as in Vaswani et al. 2017 (arXiv 1706.03762, sections 3.1 and 5.4); learned positions
and GELU as in GPT. Written out so that every part has a name in reports.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


def build(
    *,
    vocabulary: int = 32,
    context: int = 64,
    width: int = 128,
    depth: int = 2,
    heads: int = 4,
    dropout: float = 0.0,
) -> nn.Module:
    """Return a transformer with fresh weights: tokens (N, T) int64 to logits (N, T, vocabulary).

    Args:
        vocabulary: number of different tokens.
        context: longest T.
        width: features of a token.
        depth: number of blocks.
        heads: attention heads, each of width / heads features.
        dropout: rate on the embeddings and on each branch before it joins the residual; attention weights have none.

    Raises:
        ValueError: a size is not positive, or width is not divisible by heads.
    """
    sizes = {"vocabulary": vocabulary, "context": context, "width": width, "depth": depth, "heads": heads}
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} is {size}; allowed: 1 or more")
    if width % heads:
        raise ValueError(f"width {width} is not divisible by heads {heads}")
    return Transformer(vocabulary, context, width, depth, heads, dropout)


class Transformer(nn.Module):
    def __init__(self, vocabulary: int, context: int, width: int, depth: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.context = context
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(depth))
        self.final_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)
        self.apply(initialise)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        if length > self.context:
            raise ValueError(f"sequences of {length} tokens do not fit a context of {self.context}")
        positions = torch.arange(length, device=tokens.device)
        x = self.dropout(self.token_embedding(tokens) + self.position_embedding(positions))
        for block in self.blocks:
            x = block(x)
        return self.head(self.final_norm(x))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.attention_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention_norm(x + self.dropout(self.attention(x)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class Attention(nn.Module):
    """Multi-head attention in which a token sees itself and those before it, so no row is ever fully masked."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (self.split(part(x)) for part in (self.query, self.key, self.value))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def split(self, x: Tensor) -> Tensor:
        """Return (N, T, width) as (N, heads, T, width / heads)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(functional.gelu(self.expand(x)))


def initialise(module: nn.Module) -> None:
    """Draw weights from N(0, 0.02^2), as GPT-2 does; biases start at zero."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
