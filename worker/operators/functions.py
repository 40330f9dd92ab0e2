"""The operators of configs/operators.yaml as PyTorch computes them: name → function of its inputs, in order.

The same functions on inputs in fp64 are the references, except for attention.
"""

import functools
import math
from collections.abc import Callable
from typing import Final

import torch
from torch.nn import functional, grad

Function = Callable[..., torch.Tensor]

_GROUPS: Final = 8


def _batch_norm(images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(images, None, None, weight, bias, training=True)


def _input_gradient(output: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = grad.conv2d_input(output.shape, weight, output, padding=1)  # type: ignore[no-untyped-call]  # torch does not annotate it
    return found


def _weight_gradient(images: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    size = (output.shape[1], images.shape[1], 3, 3)
    found: torch.Tensor = grad.conv2d_weight(images, size, output, padding=1)  # type: ignore[no-untyped-call]  # torch does not annotate it
    return found


def _by_heads(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """Compute attention head by head, because the scores of all heads at once would take too much memory in fp64."""
    heads = zip(*(tensor.flatten(0, 1) for tensor in (query, key, value)), strict=True)
    return torch.stack([_head(*head, causal=causal) for head in heads]).view(query.shape)


def _head(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, causal: bool) -> torch.Tensor:
    scores = query @ key.t() / math.sqrt(query.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(-1) @ value


FUNCTIONS: Final[dict[str, Function]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "maximum": torch.maximum,
    "addcmul": torch.addcmul,
    "clamp": lambda x: torch.clamp(x, -1.0, 1.0),
    "abs": torch.abs,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "relu": functional.relu,
    "leaky_relu": functional.leaky_relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "softplus": functional.softplus,
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "amax": lambda x: x.amax(-1),
    "variance": lambda x: x.var(-1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x, weight, bias: functional.layer_norm(x, weight.shape, weight, bias),
    "rms_norm": lambda x, weight: functional.rms_norm(x, weight.shape, weight, 1e-6),
    "batch_norm": _batch_norm,
    "group_norm": lambda x, weight, bias: functional.group_norm(x, _GROUPS, weight, bias),
    "matmul_square": torch.mm,
    "matmul_batched": torch.bmm,
    "matmul_skinny": torch.mm,
    "matmul_vector": torch.mv,
    "linear": functional.linear,
    "attention": functional.scaled_dot_product_attention,
    "attention_causal": lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    "conv1d": lambda x, weight: functional.conv1d(x, weight, padding=1),
    "conv2d": lambda x, weight: functional.conv2d(x, weight, padding=weight.shape[-1] // 2),
    "conv2d_1x1": functional.conv2d,
    "conv2d_depthwise": lambda x, weight: functional.conv2d(x, weight, padding=1, groups=weight.shape[0]),
    "conv_transpose2d": lambda x, weight: functional.conv_transpose2d(x, weight, padding=1),
    "conv2d_input_gradient": _input_gradient,
    "conv2d_weight_gradient": _weight_gradient,
    "copy": torch.clone,
    "transpose": lambda x: x.t().contiguous(),
    "reshape": lambda x: x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1),
    "concatenate": lambda x, y: torch.cat((x, y), dim=-1),
    "pad": lambda x: functional.pad(x, (1, 1)),
    "flip": lambda x: x.flip(-1),
    "embedding": lambda table, rows: functional.embedding(rows, table),
    "index_select": lambda table, rows: table.index_select(0, rows),
    "gather": lambda x, places: x.gather(-1, places),
    "scatter_add": lambda x, places, y: x.scatter_add(-1, places, y),
    "where": lambda choice, x, y: torch.where(choice > 0, x, y),
}

REFERENCES: Final[dict[str, Function]] = FUNCTIONS | {
    "attention": functools.partial(_by_heads, causal=False),
    "attention_causal": functools.partial(_by_heads, causal=True),
}
