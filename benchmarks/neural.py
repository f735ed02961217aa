"""Neural networks: what do a transformer block, a convolutional block and softmax cost, forward and backward?

The blocks are written once, for numpy and for jax.numpy alike: numpy's is the answer, in double precision. A gradient
is checked as the slope along itself.
"""

from __future__ import annotations

import abc
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, differences, random_numbers, slope

PASSES: tuple[str, ...] = ("forward", "gradient")
HEADS = 4
WIDTH = by_size(smoke=(64,), full=(1024,))[0]
CHANNELS = by_size(smoke=(16,), full=(128,))[0]


class Softmax(Timed):
    """jax.nn.softmax of the rows of a square (jax 0.4.31 to 0.4.33 and 0.7.2 to 0.8.3: four times slower on CPU)."""

    version = "1"
    group = "neural"
    param_names = ("edge",)
    params = (by_size(smoke=(512,), full=(8192,)),)

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """Normal numbers."""
        return (random_numbers().standard_normal((edge, edge), dtype=np.float32),)

    def function(self, scores: Any) -> Any:
        """Each row's shares."""
        return jax.nn.softmax(scores)

    def reference(self, scores: Any) -> Any:
        """Each row's shares."""
        return softmax(scores)


class Block(Timed):
    """A block and the mean of the squares of what comes out; `pass` is forward, or the gradients by all inputs."""

    group = "neural"
    tolerance = 5e-3

    @abc.abstractmethod
    def block(self, *args: Any, **kwargs: Any) -> Any:
        """What comes out; its first argument is jax.numpy or numpy."""

    def inputs(self, *params: Any) -> tuple[Any, ...]:
        """What comes in, and the weights, from the parameters but the last, which is the pass."""
        self.backward = params[-1] == "gradient"
        return self.weights(random_numbers(), *params[:-1])

    @abc.abstractmethod
    def weights(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """What comes in, and the weights."""

    def loss(self, xp: Any, *inputs: Any) -> Any:
        """One number of all that comes out."""
        return (self.block(xp, *inputs) ** 2).mean()

    def function(self, *inputs: Any) -> Any:
        """What comes out, or the gradients of the loss."""
        if not self.backward:
            return self.block(jnp, *inputs)
        return jax.grad(lambda *all_of_them: self.loss(jnp, *all_of_them), tuple(range(len(inputs))))(*inputs)

    def reference(self, *inputs: Any) -> Any:
        """What comes out, or where the gradients are taken."""
        return inputs if self.backward else self.block(np, *inputs)

    def check(self, result: Any) -> str | None:
        """What numpy has, or a gradient that is the slope along itself."""
        if not self.backward:
            return super().check(result)
        pairs = slope(lambda *inputs: self.loss(np, *inputs), tuple(self.expected), result)
        return differences(pairs, self.tolerance)


class Transformer(Block):
    """One block of a transformer: attention of 4 heads and a network of two layers, each behind a layer norm."""

    version = "1"
    param_names = ("length", "pass")
    params = (by_size(smoke=(128,), full=(2048,)), PASSES)

    def weights(self, random: Any, length: int) -> tuple[Any, ...]:
        """`length` tokens, and the weights of attention and of the two layers."""
        shapes = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
        tokens = random.standard_normal((length, WIDTH), dtype=np.float32)
        return tokens, *(
            random.standard_normal(shape, dtype=np.float32) / np.float32(math.sqrt(shape[0]))
            for shape in shapes
        )

    def block(self, xp: Any, tokens: Any, *weights: Any) -> Any:
        """The tokens after attention and after the two layers, each added to what it came from."""
        return transformer(xp, tokens, *weights)


class Convolutional(Block):
    """Two 3 x 3 convolutions, each behind a ReLU, added to what came in: a block of a residual network."""

    version = "1"
    param_names = ("edge", "pass")
    params = (by_size(smoke=(24,), full=(128,)), PASSES)

    def weights(self, random: Any, edge: int) -> tuple[Any, ...]:
        """Four images, and two kernels."""
        images = random.standard_normal((4, edge, edge, CHANNELS), dtype=np.float32)
        kernels = random.standard_normal((2, 3, 3, CHANNELS, CHANNELS), dtype=np.float32)
        return images, *(kernels / np.float32(math.sqrt(9 * CHANNELS)))

    def block(self, xp: Any, images: Any, first: Any, second: Any) -> Any:
        """The images with what the two convolutions find in them."""
        inside = convolve(xp, xp.maximum(images, 0), first)
        return images + convolve(xp, xp.maximum(inside, 0), second)


def transformer(xp: Any, tokens: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
    """One block of a transformer, pre-norm; tokens are (length, width), weights (from, to)."""
    width = tokens.shape[1]
    heads = (normalize(tokens) @ qkv).reshape(-1, 3, HEADS, width // HEADS)
    queries, keys, values = (heads[:, part].swapaxes(0, 1) for part in range(3))
    scores = queries @ keys.swapaxes(1, 2) / math.sqrt(width // HEADS)
    shares = jax.nn.softmax(scores) if xp is jnp else softmax(scores)
    tokens = tokens + (shares @ values).swapaxes(0, 1).reshape(tokens.shape) @ out
    inside = normalize(tokens) @ up
    # The tanh form of GELU, as jax.nn.gelu has it.
    inside = inside * (1 + xp.tanh(math.sqrt(2 / math.pi) * (inside + 0.044715 * inside**3))) / 2
    return tokens + inside @ down


def normalize(tokens: Any) -> Any:
    """Each token with mean 0 and variance 1."""
    centred = tokens - tokens.mean(axis=-1, keepdims=True)
    return centred / ((centred**2).mean(axis=-1, keepdims=True) + 1e-5) ** 0.5


def softmax(scores: Any) -> Any:
    """Each row's shares, by numpy."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def convolve(xp: Any, images: Any, kernel: Any) -> Any:
    """A 3 x 3 convolution with zeros around; images are (batch, height, width, channel)."""
    if xp is jnp:
        return jax.lax.conv_general_dilated(
            images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
    _, height, width, _ = images.shape
    padded = np.pad(images, [(0, 0), (1, 1), (1, 1), (0, 0)])
    return sum(
        padded[:, row : row + height, column : column + width] @ kernel[row, column]
        for row in range(3)
        for column in range(3)
    )
