"""Trains a small CNN in JAX, fed by Forebay.

    python -m forebay make-dataset data --layout folder --size 64x64 --split 0.2
    python jax_loop.py data/train data/val
"""

from __future__ import annotations

import argparse
from typing import Any

import forebay
import jax
import jax.numpy as jnp

WIDTHS = (16, 32, 64)
Weights = dict[str, Any]


def weights_of(key: Any, classes: int) -> Weights:
    made: Weights = {}
    channels = 3
    for number, width in enumerate(WIDTHS):
        key, part = jax.random.split(key)
        made[f"filter{number}"] = jax.random.normal(part, (3, 3, channels, width)) * (2 / (9 * channels)) ** 0.5
        channels = width
    made["linear"] = jnp.zeros((4 * channels, classes))
    made["bias"] = jnp.zeros(classes)
    return made


def normalised(values: Any) -> Any:
    """Each of four groups of channels by itself."""
    groups = values.reshape(*values.shape[:3], 4, -1)
    centred = groups - groups.mean((1, 2, 4), keepdims=True)
    return (centred / jnp.sqrt((centred**2).mean((1, 2, 4), keepdims=True) + 1e-5)).reshape(values.shape)


def scores(weights: Weights, images: Any) -> Any:
    values = images  # [N, H, W, 3]
    for number in range(len(WIDTHS)):
        values = jax.lax.conv_general_dilated(
            values, weights[f"filter{number}"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        values = jax.nn.relu(normalised(values))
        values = jax.lax.reduce_window(values, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    count, height, width, channels = values.shape
    quarters = values.reshape(count, 2, height // 2, 2, width // 2, channels).mean((2, 4))
    return quarters.reshape(count, -1) @ weights["linear"] + weights["bias"]


def loss_of(weights: Weights, images: Any, labels: Any) -> Any:
    likelihoods = jax.nn.log_softmax(scores(weights, images))
    return -jnp.take_along_axis(likelihoods, labels[:, None], axis=1).mean()


def train_step(weights: Weights, momenta: Weights, images: Any, labels: Any, rate: float) -> tuple[Any, Any, Any]:
    loss, gradients = jax.value_and_grad(loss_of)(weights, images, labels)
    momenta = jax.tree_util.tree_map(lambda momentum, slope: 0.9 * momentum + slope, momenta, gradients)
    weights = jax.tree_util.tree_map(lambda weight, momentum: weight - rate * momentum, weights, momenta)
    return weights, momenta, loss


def count_right(weights: Weights, images: Any, labels: Any) -> Any:
    return (scores(weights, images).argmax(1) == labels).sum()


compiled_train_step = jax.jit(train_step)
compiled_count_right = jax.jit(count_right)


def accuracy(weights: Weights, options: dict[str, Any]) -> float:
    right, count = 0, 0
    with forebay.Feeder(eval=True, crop="center", mirror=0, **options) as feeder:
        for batch in feeder:
            right += int(compiled_count_right(weights, *batch.jax()))
            count += len(batch)
    return right / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", help="training data")
    parser.add_argument("val", help="held-out data, evaluated after each epoch")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--policy", default="adaptive", help="what to do while storage is behind")
    parser.add_argument("--size", type=int, default=32, help="side of an image in pixels, a multiple of 16")
    arguments = parser.parse_args()

    options = {"batch_size": arguments.batch_size, "size": (arguments.size, arguments.size), "layout": "NHWC"}
    options["device"] = "auto" if jax.default_backend() == "gpu" else "host"  # where JAX computes
    training = {"scale": (0.5, 1.0), "epochs": arguments.epochs, "policy": arguments.policy}
    feeder = forebay.Feeder(dataset=arguments.train, **options, **training)
    options["dataset"] = {"path": arguments.val, "classes": feeder.classes}  # the same numbers for the same names

    weights = weights_of(jax.random.PRNGKey(17), len(feeder.classes))
    momenta = jax.tree_util.tree_map(jnp.zeros_like, weights)
    for epoch in feeder.epochs():
        rate = 0.02 * (1 - epoch.number / arguments.epochs)
        for batch in epoch:
            images, labels = batch.jax()  # on the host the queue's memory, without a copy
            weights, momenta, loss = compiled_train_step(weights, momenta, images, labels, rate)
        share = accuracy(weights, options)
        print(f"epoch {epoch.number + 1}: loss {float(loss):.3f}, held-out accuracy {share:.3f}", flush=True)

    feeder.close()
    print("{steps} steps in {wall_s:.1f} s, {fresh_fraction:.1%} of them on new data".format(**feeder.summary()))


if __name__ == "__main__":
    main()
