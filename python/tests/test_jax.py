"""JAX: arrays that share the queue's memory, and computations that are done later."""

from __future__ import annotations

from typing import Any

import forebay
import numpy as np
import pytest
from conftest import COUNT, SIDE

jax = pytest.importorskip("jax")
jnp = jax.numpy


def test_arrays_share_the_memory(make: Any) -> None:
    for batch in make(dtype="float32", mean=[0, 0, 0], std=[1, 1, 1]):
        images, labels = batch.jax()
        assert images.unsafe_buffer_pointer() == batch.images.ctypes.data
        assert images.shape == (4, 3, SIDE, SIDE) and images.dtype == jnp.float32
        assert (np.asarray(images)[:, 0, 0, 0] == 5 * batch.ids).all() and (labels == (batch.ids >= COUNT // 2)).all()
        assert batch.jax("image").unsafe_buffer_pointer() == batch.images.ctypes.data


@jax.jit
def slow_sums(images: Any) -> Any:
    """The sum of each image, after enough work for the program to get ahead."""
    one = jnp.ones((300, 300)) / 300
    some = jax.lax.fori_loop(0, 20, lambda _, matrix: matrix @ one, one * images[0, 0, 0, 0])
    return images.sum((1, 2, 3)) + 0 * some[0, 0]


@pytest.mark.parametrize("most", [2, 3])
def test_a_program_that_runs_ahead_of_its_computations_finds_the_right_pixels(make: Any, most: int) -> None:
    feeder = make(dtype="float32", mean=[0, 0, 0], std=[1, 1, 1], epochs=3, max_leases=most)
    found = []
    for batch in feeder:
        images, _ = batch.jax()
        found.append((slow_sums(images), batch.ids))
    for sums, ids in found:
        assert np.allclose(sums, 5.0 * ids * 3 * SIDE * SIDE)
    assert len(found) == 3 * COUNT // 4


def test_arrays_that_are_kept_are_refused_at_once(make: Any) -> None:
    kept = []
    with pytest.raises(forebay.Error, match=r"2 leases are held.*queue\.max_leases"):
        for batch in make(dtype="float32", watchdog_s=300):
            kept.append((slow_sums(batch.jax("image")), batch.jax("image")))
    assert len(kept) == 2


def test_what_others_hold_is_refused_at_once(make: Any) -> None:
    kept = []
    with pytest.raises(forebay.Error, match="2 leases are held"):
        for batch in make(dtype="float32", watchdog_s=300):
            batch.jax("image")
            kept.append(batch.images)
    assert len(kept) == 2


def test_what_was_donated_is_not_written_to(make: Any) -> None:
    change = jax.jit(lambda images: images + 1, donate_argnums=0)
    for batch in make(dtype="float32"):
        before = batch.images.copy()
        after = change(batch.jax("image"))
        assert (np.asarray(after) == before + 1).all() and (batch.images == before).all()
