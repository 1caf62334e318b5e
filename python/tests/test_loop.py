"""The loop, and what a batch is."""

from __future__ import annotations

import gc
import pickle
import resource
import socket
import sys
from pathlib import Path
from typing import Any

import forebay
import numpy as np
import pytest
from conftest import COUNT, SIDE, ids_of, png


def test_each_epoch_serves_every_sample_fresh_once(make: Any) -> None:
    feeder = make(epochs=3)
    numbers = []
    for epoch in feeder.epochs():
        numbers.append(epoch.number)
        assert sorted(int(i) for batch in epoch if batch.is_fresh for i in batch.ids) == list(range(COUNT))
    assert numbers == [0, 1, 2]
    assert feeder.epochs_completed == 3 and feeder.steps == 3 * feeder.batches_per_epoch


def test_reuse_leaves_every_sample_fresh_once(make: Any) -> None:
    feeder = make(epochs=2, policy="interval", interval=3)
    fresh = [0] * COUNT
    uses = 0
    for batch in feeder:
        uses += not batch.is_fresh
        for i in batch.ids if batch.is_fresh else []:
            fresh[i] += 1
    assert fresh == [2] * COUNT and uses > 0


def test_pixels_and_labels_are_those_of_the_ids(make: Any) -> None:
    for batch in make():
        assert batch.images.shape == (4, 3, SIDE, SIDE) and batch.images.dtype == np.uint8
        assert (batch.images == (5 * batch.ids).astype(np.uint8)[:, None, None, None]).all()
        assert (batch.labels == (batch.ids >= COUNT // 2)).all()
        assert batch["image"].ctypes.data == batch.image.ctypes.data == batch.images.ctypes.data
        assert len(batch) == batch.size == 4 and batch.keys() == ["image", "label"]


def test_views_are_read_only_and_share_the_memory(make: Any) -> None:
    batch = make().next()
    assert not batch.images.flags.writeable and not batch.images.flags.owndata
    with pytest.raises(ValueError):
        batch.images[0] = 0
    through_dlpack = np.from_dlpack(batch)
    assert through_dlpack.ctypes.data == batch.images.ctypes.data == batch.tensor().numpy().ctypes.data
    assert not through_dlpack.flags.writeable
    images, labels = batch.numpy()
    assert images.ctypes.data == through_dlpack.ctypes.data and (labels == batch.labels).all()


def test_views_keep_their_bytes_while_the_loop_continues(make: Any) -> None:
    feeder = make(max_leases=4)
    kept = []
    for batch in feeder:
        if batch.step < 2:
            kept.append((batch.images, batch.ids))
    feeder.close()
    del feeder, batch
    gc.collect()
    for images, ids in kept:
        assert (images == (5 * ids).astype(np.uint8)[:, None, None, None]).all()


def test_a_kept_batch_is_refused_with_what_to_do(make: Any) -> None:
    kept = list(make())
    assert len(kept) == COUNT // 4 and all(batch.is_released for batch in kept[:-1])
    assert [batch.step for batch in kept] == list(range(len(kept)))
    for use in (lambda: kept[0].images, lambda: kept[0].ids, lambda: kept[0].copy(), kept[0].numpy):
        with pytest.raises(forebay.Error, match=r"step 0 has been released.*batch\.copy\(\)"):
            use()


def test_too_many_views_are_refused_with_what_to_do(make: Any) -> None:
    kept = []
    with pytest.raises(forebay.Error, match=r"2 leases are held.*copy what you keep.*queue\.max_leases"):
        for batch in make():
            kept.append(batch.images)
    assert len(kept) == 2


def test_labels_and_ids_hold_nothing(make: Any) -> None:
    kept = [(batch.labels, batch.ids) for batch in make()]
    assert sorted(int(i) for _, ids in kept for i in ids) == list(range(COUNT))
    assert all((labels == (ids >= COUNT // 2)).all() for labels, ids in kept)


def test_copies_are_for_keeping_changing_and_pickling(make: Any) -> None:
    kept = [batch.copy() for batch in make()]
    assert sorted(int(i) for copy in kept for i in copy.ids) == list(range(COUNT))
    for copy in kept:
        again = pickle.loads(pickle.dumps(copy))
        assert (again.images == (5 * again.ids).astype(np.uint8)[:, None, None, None]).all()
        copy.images[:] = 0


def test_next_hands_the_batch_over(make: Any) -> None:
    feeder = make()
    one, two = feeder.next(), feeder.next()
    assert not one.is_released and (one.ids != two.ids).any()
    with one, two:
        assert one.images.any() or two.images.any()
    assert one.is_released and two.is_released
    one.release()
    assert feeder.next() is not None


def test_a_batch_that_nobody_refers_to_is_released(make: Any) -> None:
    feeder = make()
    count = 0
    while feeder.next() is not None:
        count += 1
    assert count == COUNT // 4


def test_a_break_resumes_in_the_same_epoch(make: Any) -> None:
    feeder = make()
    seen: list[int] = []
    for epoch in feeder.epochs():
        for batch in epoch:
            seen.extend(batch.ids)
            if batch.step == 2:
                break
    assert sorted(seen) == list(range(COUNT))


def test_stop_ends_the_loop(make: Any) -> None:
    feeder = make(epochs=1000)
    for batch in feeder:
        if batch.step == 5:
            feeder.request_stop()
        assert batch.step < 50
    assert feeder.was_stopped


def test_names_of_what_is_not_there(make: Any) -> None:
    batch = make().next()
    with pytest.raises(KeyError, match='"image", "label"'):
        batch["mask"]
    with pytest.raises(AttributeError, match="mask"):
        batch.mask  # noqa: B018


def test_summary_and_profile_are_dictionaries(make: Any) -> None:
    feeder = make()
    ids_of(feeder)
    summary, profile = feeder.summary(), feeder.profile()
    assert summary["steps"] == summary["fresh"] == COUNT // 4 and summary["epochs"] == 1
    assert profile["ranks"] == 1
    assert "<table" in feeder._repr_html_() and "batch_size = 4" in feeder.to_toml()
    assert feeder.classes == ["cat", "dog"] and feeder.dataset_size == COUNT
    assert [field.name for field in feeder.fields] == ["image", "label"]


def test_fields_have_names_types_and_counts(make: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number in range(8):
        (tmp_path / "a" / f"{number}.png").write_bytes(png(number))
        (tmp_path / "a" / f"{number}.txt").write_bytes(b"x" * number)
    fields = {"note": {"from": "{folder}/{stem}.txt", "kind": "bytes", "most": 8}}
    feeder = make(dataset={"path": tmp_path}, fields=fields)
    assert feeder.fields[2] == ("note", "bytes", "uint8", (8,), [])
    for batch in feeder:
        assert batch.note.shape == (4, 8) and batch["note"].ctypes.data == batch.numpy("note").ctypes.data
        assert (batch.counts("note") == batch.ids).all() and ((batch.note == ord("x")).sum(1) == batch.ids).all()
        copy = batch.copy()
        assert (copy["note"] == batch.note).all() and (copy.counts("note") == batch.ids).all()
        with pytest.raises(forebay.Error, match="counts"):
            batch.counts("image")


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def test_memory_stays_flat(make: Any) -> None:
    feeder = make(epochs=1 << 30, policy="interval", interval=50)
    sums = 0
    for steps, batch in enumerate(feeder):
        if steps % 100 == 0:
            sums += int(batch.images.sum()) + int(batch.copy().ids.sum()) + int(np.from_dlpack(batch).sum())
        if steps == 20_000:
            before = resident_bytes()
        if steps == 200_000:
            break
    assert sums and resident_bytes() < before + (8 << 20)


def test_views_tell_the_region(make: Any) -> None:
    view = make().next().views()[0]
    assert (view.left, view.top, view.right, view.bottom) == (0, 0, SIDE, SIDE) and not view.mirror


def test_no_pickling(make: Any) -> None:
    feeder = make()
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(feeder)
    with pytest.raises(TypeError, match=r"batch\.copy\(\)"):
        pickle.dumps(feeder.next())


def test_torch_shares_the_memory(make: Any) -> None:
    torch = pytest.importorskip("torch")
    feeder = make(dtype="float32")
    for epoch in feeder.epochs():
        for batch in epoch:
            images, labels = batch.torch(copy=False)
            assert images.data_ptr() == batch.images.ctypes.data
            assert images.shape == (4, 3, SIDE, SIDE) and labels.dtype == torch.int64
            weight = torch.zeros(1, requires_grad=True)
            ((images * weight).sum() + 0 * labels.sum()).backward()
            assert batch.torch("image", copy=False).data_ptr() == images.data_ptr()


def test_autograd_keeps_the_pixels(make: Any) -> None:
    torch = pytest.importorskip("torch")
    feeder = make(dtype="float32", max_leases=3)
    graphs = []
    for batch in feeder:
        if batch.step < 2:
            weight = torch.ones(1, requires_grad=True)
            graphs.append(((batch.torch("image", copy=False) * weight).sum(), weight, batch.images.copy()))
    for loss, weight, pixels in graphs:
        loss.backward()
        assert weight.grad.item() == pytest.approx(float(pixels.sum(dtype=np.float64)), rel=1e-4)


def change(images: Any, how: str) -> None:
    if how == "div_":
        images.div_(2)
    elif how == "minus":
        images -= 3
    elif how == "sample":
        images[1] = 0
    else:
        images[...] *= 2


REUSING: dict[str, Any] = {"dtype": "float32", "mean": [0, 0, 0], "std": [1, 1, 1], "epochs": 1}


@pytest.mark.parametrize("how", ["div_", "minus", "sample", "item"])
def test_tensors_of_torch_are_the_programs_own(make: Any, how: str) -> None:
    pytest.importorskip("torch")
    seen = 0
    for batch in make(policy={"name": "interval", "interval": 3}, **REUSING):
        images, labels = batch.torch()
        assert (images[:, 0, 0, 0].numpy() == 5 * batch.ids).all() and (labels.numpy() == batch.labels).all()
        change(images, how)
        labels += 1
        seen += batch.use_index
    assert seen > 0


@pytest.mark.parametrize("how", ["div_", "minus", "sample", "item"])
def test_writing_to_shared_tensors_ends_the_run(make: Any, how: str) -> None:
    pytest.importorskip("torch")
    feeder = make(policy={"name": "interval", "interval": 100}, **REUSING)
    with pytest.raises(forebay.Error, match=r"was changed by the program.*images.*clone\(\)"):
        for batch in feeder:
            change(batch.torch("image", copy=False), how)
            assert batch.step < 50


def test_writing_to_shared_labels_ends_the_run(make: Any) -> None:
    torch = pytest.importorskip("torch")
    feeder = make(policy={"name": "interval", "interval": 100}, **REUSING)
    with pytest.raises(forebay.Error, match="was changed by the program.*its labels"):
        for batch in feeder:
            torch.from_dlpack(batch.tensor("label")).add_(1)
            assert batch.step < 50


def test_what_is_served_once_is_not_copied(make: Any) -> None:
    pytest.importorskip("torch")
    for options in ({"policy": "block"}, {"eval": True}):
        for batch in make(dtype="float32", **options):
            images = batch.torch("image")
            assert images.data_ptr() == batch.images.ctypes.data
            images.div_(2)
            assert batch.torch("image", copy=True).data_ptr() != images.data_ptr()


def test_a_loop_over_a_run_that_has_ended_warns(make: Any, caplog: Any) -> None:
    feeder = make(epochs=2)
    assert len(list(feeder)) == 20 and not caplog.records
    for _ in range(2):
        assert list(feeder) == []
    assert [record.getMessage()[:27] for record in caplog.records] == ["this loop has no batches, b"] * 2


def test_the_last_error_of_a_notebook_holds_no_batch(make: Any, monkeypatch: Any) -> None:
    feeder = make(policy="block", max_leases=2)

    def step(images: Any) -> None:
        raise ValueError("in the step")

    for _ in range(3):
        try:
            for batch in feeder:
                step(batch.images)
        except ValueError as error:
            error.itself = error  # type: ignore[attr-defined]  # a cycle, as IPython makes
            monkeypatch.setattr(sys, "last_value", error, raising=False)
        del batch
    assert sum(1 for _ in feeder) == 7


def test_a_batch_is_no_pair(make: Any) -> None:
    with pytest.raises(TypeError, match=r"images, labels = batch\.torch\(\)"):
        images, labels = make().next()


def test_an_evaluation_passes_over_a_batch_without_samples_whatever_the_program_holds(tmp_path: Path) -> None:
    for number in [*range(4), *range(8, 12)]:
        (tmp_path / f"{number}.png").write_bytes(png(number))
    listed = tmp_path / "list.txt"
    listed.write_text("".join(f"{number}.png,0\n" for number in range(13)))
    options = {"batch_size": 4, "size": (SIDE, SIDE), "dtype": "uint8", "eval": True, "max_bad": 0.9, "device": "host"}
    with forebay.Feeder(dataset=listed, **options) as feeder:
        sizes = []
        for batch in feeder:
            images, _ = batch.numpy()  # held while the next batch is asked for
            sizes.append(len(images))
    assert sizes == [4, 4]


def test_epochs_that_nobody_loops_over_are_refused(make: Any) -> None:
    with pytest.raises(forebay.Error, match="loop over each epoch"):
        list(make().epochs())
    feeder = make(epochs=3)
    count = 0
    for _ in feeder.epochs():
        count += 1
        while feeder.next() is not None:
            pass
    assert count == 3


def test_bfloat16(make: Any) -> None:
    batch = make(dtype="bfloat16", mean=[0, 0, 0], std=[1, 1, 1]).next()
    assert isinstance(batch.images, forebay.Tensor) and batch.images.dtype == "bfloat16"
    copy = pickle.loads(pickle.dumps(batch.copy()))
    expected = 5 * batch.ids.astype(np.float32)
    bits = copy.images.view(np.uint16).astype(np.uint32) << 16
    assert np.allclose(bits.view(np.float32)[:, 0, 0, 0], expected, rtol=2**-7)
    try:
        import ml_dtypes
    except ImportError:
        assert copy.images.dtype == np.uint16
        with pytest.raises(forebay.Error, match="ml_dtypes"):
            batch.numpy("image")
    else:
        assert copy.images.dtype == batch.numpy("image").dtype == ml_dtypes.bfloat16
    torch = pytest.importorskip("torch")
    images = copy.torch("image")
    assert images.dtype == torch.bfloat16 and (images == batch.torch("image")).all()


def test_a_closed_feeder_leaves_its_port_to_another(make: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for _ in range(2):
        feeder = make(prometheus=str(port))
        next(iter(feeder))
        feeder.close()


@pytest.mark.parametrize(
    "odd",
    [{"copy": "yes"}, {"copy": 2}, {"max_version": ("one", 0)}, {"max_version": (1 << 80, 0)}, {"max_version": 1},
     {"max_version": ()}, {"dl_device": 1}, {"max_version": {}}],
)  # fmt: skip
def test_odd_arguments_of_dlpack_are_type_errors(make: Any, odd: dict[str, Any]) -> None:
    with next(iter(make())) as batch, pytest.raises((TypeError, IndexError, KeyError)) as caught:
        batch.tensor().__dlpack__(**odd)
    assert "bad_cast" not in str(caught.value)
