"""The operators of configs/operators.yaml in JAX: name → function of its inputs, in order."""

from collections.abc import Callable
from functools import partial
from typing import Final

import jax
from jax import lax, nn
from jax import numpy as jnp
from jax.scipy.special import logsumexp

Function = Callable[..., jax.Array]

_GROUPS: Final = 8
_EPSILON: Final = 1e-5
_LAYOUT: Final = {1: ("NCH", "OIH", "NCH"), 2: ("NCHW", "OIHW", "NCHW")}


def _convolution(images: jax.Array, weight: jax.Array, *, padding: int | None = None, groups: int = 1) -> jax.Array:
    """Convolve `images` with `weight`. padding: zeros on each side of the images. None: half of the kernel size."""
    spatial = weight.ndim - 2
    side = weight.shape[-1] // 2 if padding is None else padding
    return lax.conv_general_dilated(
        images,
        weight,
        (1,) * spatial,
        [(side, side)] * spatial,
        dimension_numbers=_LAYOUT[spatial],
        feature_group_count=groups,
    )


def _input_gradient(output: jax.Array, weight: jax.Array) -> jax.Array:
    like = jax.ShapeDtypeStruct((output.shape[0], weight.shape[1], *output.shape[2:]), output.dtype)
    (found,) = jax.linear_transpose(lambda images: _convolution(images, weight), like)(output)
    return jnp.asarray(found)


def _weight_gradient(images: jax.Array, output: jax.Array) -> jax.Array:
    like = jax.ShapeDtypeStruct((output.shape[1], images.shape[1], 3, 3), images.dtype)
    (found,) = jax.linear_transpose(lambda weight: _convolution(images, weight), like)(output)
    return jnp.asarray(found)


def _attention(query: jax.Array, key: jax.Array, value: jax.Array, *, causal: bool) -> jax.Array:
    """Return the attention output. Inputs and output: (batch, heads, tokens, size). JAX itself has tokens second."""
    moved = (jnp.swapaxes(one, 1, 2) for one in (query, key, value))
    return jnp.swapaxes(nn.dot_product_attention(*moved, is_causal=causal), 1, 2)


def _normalised(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Return `x` as fp32, normalised to mean 0 and variance 1 over `axes`. torch also accumulates in fp32."""
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(axes, keepdims=True)
    return centred * lax.rsqrt(jnp.square(centred).mean(axes, keepdims=True) + _EPSILON)


def _layer_norm(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    return (_normalised(x, (-1,)) * weight + bias).astype(x.dtype)


def _rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6) * weight).astype(x.dtype)


def _batch_norm(images: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    return (_normalised(images, (0, 2, 3)) * weight[:, None, None] + bias[:, None, None]).astype(images.dtype)


def _group_norm(images: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    grouped = images.reshape(images.shape[0], _GROUPS, -1)
    made = _normalised(grouped, (-1,)).reshape(images.shape)
    return (made * weight[:, None, None] + bias[:, None, None]).astype(images.dtype)


def _reshape(x: jax.Array) -> jax.Array:
    return jnp.swapaxes(x, 1, 2).reshape(x.shape[0], x.shape[2], -1)


def _scatter_add(x: jax.Array, places: jax.Array, y: jax.Array) -> jax.Array:
    return x.at[jnp.arange(x.shape[0])[:, None], places].add(y)


FUNCTIONS: Final[dict[str, Function]] = {
    "add": jnp.add,
    "subtract": jnp.subtract,
    "multiply": jnp.multiply,
    "divide": jnp.divide,
    "maximum": jnp.maximum,
    "addcmul": lambda x, y, z: x + y * z,
    "clamp": lambda x: jnp.clip(x, -1.0, 1.0),
    "abs": jnp.abs,
    "exp": jnp.exp,
    "log": jnp.log,
    "sqrt": jnp.sqrt,
    "relu": nn.relu,
    "leaky_relu": nn.leaky_relu,
    "sigmoid": nn.sigmoid,
    "tanh": jnp.tanh,
    "gelu": lambda x: nn.gelu(x, approximate=False),
    "silu": nn.silu,
    "softplus": nn.softplus,
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "amax": lambda x: x.max(-1),
    "variance": lambda x: x.var(-1, ddof=1),
    "norm": lambda x: jnp.linalg.norm(x, axis=-1),
    "logsumexp": lambda x: jnp.asarray(logsumexp(x, axis=-1)),
    "cumsum": lambda x: jnp.cumsum(x, -1),
    "softmax": nn.softmax,
    "log_softmax": nn.log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "matmul_square": jnp.matmul,
    "matmul_batched": jnp.matmul,
    "matmul_skinny": jnp.matmul,
    "matmul_vector": jnp.matmul,
    "linear": lambda x, weight, bias: x @ weight.T + bias,
    "attention": partial(_attention, causal=False),
    "attention_causal": partial(_attention, causal=True),
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv2d_1x1": _convolution,
    "conv2d_depthwise": lambda x, weight: _convolution(x, weight, groups=weight.shape[0]),
    "conv_transpose2d": _input_gradient,  # the same arithmetic, with the weight of the forward pass
    "conv2d_input_gradient": _input_gradient,
    "conv2d_weight_gradient": _weight_gradient,
    "copy": jnp.copy,
    "transpose": lambda x: x.T,
    "reshape": _reshape,
    "concatenate": lambda x, y: jnp.concatenate((x, y), -1),
    "pad": lambda x: jnp.pad(x, ((0, 0), (1, 1))),
    "flip": lambda x: jnp.flip(x, -1),
    "embedding": lambda table, rows: table[rows],
    "index_select": lambda table, rows: table[rows],
    "gather": lambda x, places: jnp.take_along_axis(x, places, -1),
    "scatter_add": _scatter_add,
    "where": lambda choice, x, y: jnp.where(choice > 0, x, y),
}
