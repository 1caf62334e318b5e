"""PyTorch: the loader with DataLoader's arguments, and the ranks of torch.distributed."""

from __future__ import annotations

import ast
import contextlib
import itertools
import warnings
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import COUNT, Made, pairs, run_command, torchrun

torch = pytest.importorskip("torch")

SETTINGS: dict[str, Any] = {"workers_io": 1, "workers_decode": 1, "capacity": 4}
PLAIN: dict[str, Any] = {**SETTINGS, "size": (8, 8), "crop": "none", "mirror": 0, "dtype": "uint8"}


class Pictures(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
    """What ImageFolder shows of itself."""

    transform = None
    target_transform = None
    classes = ["cat", "dog"]

    def __init__(self, folder: Path) -> None:
        paths = sorted(folder.glob("*/*.png"), key=lambda path: path.name)
        self.samples = [(str(path), int(path.parent.name == "dog")) for path in paths]

    def __len__(self) -> int:
        return len(self.samples)


@pytest.fixture
def load(folder: Path) -> Any:
    made = []

    def one(dataset: Any = None, *arguments: Any, **options: Any) -> Any:
        loader = forebay.torch.DataLoader(dataset or Pictures(folder), *arguments, **{**PLAIN, **options})
        made.append(loader)
        return loader

    yield one
    for loader in made:
        loader.close()


def greys(loader: Any) -> list[int]:
    return [int(value) // 5 for images, _ in loader for value in images[:, 0, 0, 0]]


@pytest.mark.parametrize("way", ["mixup", "cutmix"])
def test_mixed_batches_are_handed_over_with_the_weights_of_their_labels(load: Any, way: str) -> None:
    one_hot, mixed = torch.nn.functional.one_hot, 0
    for batch in load(None, 16, shuffle=True, **{way: {"probability": 1.0, "alpha": 5.0}}):
        assert list(batch) == ["image", "label", "label_weights"]
        weights, own, other = batch["label_weights"], batch["label"], batch["label"].flip(0)
        assert weights.shape == (len(own), 2) and weights.dtype == torch.float32
        for row in (own != other).nonzero()[:1, 0]:
            share = weights[row, other[row]]
            assert torch.equal(weights, one_hot(own, 2) * (1 - share) + one_hot(other, 2) * share)
            mixed += 0 < share < 1
    assert mixed > 0


def test_the_targets_of_mixed_batches_are_their_weights_unless_others_are_named(folder: Path) -> None:
    options = {"batch_size": 8, "mixup": {"probability": 1.0}, "device": "host"}
    with forebay.Feeder(dataset=str(folder), **PLAIN, **options) as feeder:
        batch = next(iter(feeder))
        for taken in (batch, batch.copy()):
            assert torch.equal(taken.torch()[1], taken.torch("label_weights"))
            assert taken.torch("image", "label")[1].dtype == torch.int64
            assert (taken.numpy()[1] == taken.numpy("label_weights")).all()


def test_epochs_as_pytorch_has_them(load: Any) -> None:
    in_order = load(None, 16)
    assert len(in_order) == 3 and [greys(in_order) for _ in range(3)] == [list(range(COUNT))] * 3
    sizes = [len(images) for images, _ in load(None, 16, drop_last=True)]
    assert sizes == [16, 16] and len(load(None, 16, drop_last=True)) == 2
    shuffled = load(None, 4, shuffle=True)
    one, two = greys(shuffled), greys(shuffled)
    assert sorted(one) == sorted(two) == list(range(COUNT)) and one != two and one != list(range(COUNT))
    for images, labels in load(None, 8):
        assert images.dtype == torch.uint8 and labels.dtype == torch.int64
        assert labels.tolist() == [int(value >= 5 * COUNT // 2) for value in images[:, 0, 0, 0]]


def test_an_image_folder_gives_the_tensors_that_torchvision_gives(folder: Path) -> None:
    datasets = pytest.importorskip("torchvision.datasets")
    transforms = pytest.importorskip("torchvision.transforms")
    chain = transforms.Compose(
        [
            transforms.Resize(8),
            transforms.CenterCrop(8),
            transforms.ToTensor(),
            transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
        ]
    )
    files = datasets.ImageFolder(str(folder), chain)
    theirs = torch.utils.data.DataLoader(files, batch_size=8)
    ours = forebay.torch.DataLoader(files, batch_size=8, **SETTINGS)
    assert len(ours) == len(theirs)
    for (images, labels), (their_images, their_labels) in pairs(ours, theirs):
        assert torch.allclose(images, their_images, atol=1e-5) and torch.equal(labels, their_labels)
    ours.close()


def test_a_loop_that_was_left_after_the_last_batch_leaves_nothing_to_the_next(load: Any) -> None:
    loader = load(None, 4)
    for _ in range(3):
        assert greys(itertools.islice(loader, len(loader))) == list(range(COUNT))


def test_subsets_and_targets(load: Any, folder: Path) -> None:
    pictures = Pictures(folder)
    inner = torch.utils.data.Subset(torch.utils.data.Subset(pictures, range(10, 30)), [5, 3, 4])
    assert greys(load(inner, 2)) == [15, 13, 14]
    pictures.target_transform = lambda label: 7 + label
    with pytest.raises(forebay.ConfigError, match="size.*PyTorch's workers make the batches: target_transform is"):
        load(pictures, 4)


def test_samplers_and_generators(load: Any, folder: Path) -> None:
    data, pictures = torch.utils.data, Pictures(folder)
    assert greys(load(None, 4, sampler=data.SequentialSampler(pictures))) == list(range(COUNT))
    assert sorted(greys(load(None, 4, sampler=data.RandomSampler(pictures)))) == list(range(COUNT))
    sampler = data.distributed.DistributedSampler(pictures, num_replicas=1, rank=0, seed=3)
    loader = load(None, 4, sampler=sampler)
    loader.sampler.set_epoch(1)
    assert sorted(greys(loader)) == list(range(COUNT)) and "seed = 3 " in loader.feeder.to_toml()
    seeds = [load(None, 4, shuffle=True, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)]
    one, same, other = (greys(loader) for loader in seeds)
    assert one == same != other


def test_a_state_resumes(load: Any) -> None:
    first = load(None, 4, shuffle=True)
    seen = []
    for images, _ in first:
        seen.extend(int(value) // 5 for value in images[:, 0, 0, 0])
        if len(seen) == 12:
            break
    second = load(None, 4, shuffle=True)
    second.load_state_dict(first.state_dict())
    assert sorted(seen + greys(second)) == list(range(COUNT))


def test_batches_may_be_kept_as_copies(load: Any) -> None:
    kept = list(load(None, 4, copy=True))
    assert [int(value) // 5 for images, _ in kept for value in images[:, 0, 0, 0]] == list(range(COUNT))
    loader = load(None, 4)
    assert [int(value) // 5 for images, _ in list(loader) for value in images[:, 0, 0, 0]] == list(range(COUNT))
    first = next(iter(loader))
    assert len([None for _ in loader]) == len(loader) and first[0][0, 0, 0, 0] == 0
    pairs_of = [(int(one[0, 0, 0, 0]), int(two[0, 0, 0, 0])) for (one, _), (two, _) in zip(loader, loader)]
    assert pairs_of == [(20 * i, 20 * i) for i in range(COUNT // 4)]


def test_a_policy_that_reuses_is_one_word(load: Any) -> None:
    loader = load(None, 4, policy={"name": "interval", "interval": 2})
    assert len(loader) == COUNT // 4 < len(list(greys(loader))) // 4


def test_options_overrule_by_key_whatever_they_are_called(load: Any) -> None:
    text = load(None, 4, policy={"watchdog_s": 600}).feeder.to_toml()
    assert 'name = "block"' in text and "watchdog_s = 600" in text
    text = load(None, 4, policy_name="adaptive", run_epochs=3).feeder.to_toml()
    assert 'name = "adaptive"' in text and "epochs = 3 " in text


def test_a_dataset_of_its_own_is_asked_although_it_has_samples(load: Any, folder: Path) -> None:
    samples = Pictures(folder).samples
    data = Made(COUNT, lambda index: Path(samples[-1 - index][0]).read_bytes(), samples=samples)
    assert greys(load(data, 4)) == list(reversed(range(COUNT)))


def test_each_loop_over_held_out_data_is_all_of_them(load: Any) -> None:
    loader = load(None, 16, eval=True)
    assert [greys(loader) for _ in range(3)] == 3 * [list(range(COUNT))]


def test_one_line_for_what_means_nothing_here(load: Any, caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(None, 4, num_workers=8, persistent_workers=True, prefetch_factor=4)
        load(None, 4)
    assert [record.getMessage() for record in caplog.records if "meaning" in record.getMessage()] == [
        "DataLoader: Forebay's own threads make the batches; num_workers=8, prefetch_factor=4, "
        "persistent_workers=True: no meaning there"
    ]


def test_pin_memory_without_forebays_gpu(load: Any, caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    caplog.set_level("INFO")
    load(None, 4, pin_memory=True)
    assert "pin_memory=True: no meaning there" in caplog.text  # PyTorch has no GPU here, and ignores it too
    caplog.clear()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    current, pinned = [], []
    monkeypatch.setattr(forebay.torch, "_current", lambda gpu: current.append(gpu) or contextlib.nullcontext())
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pinned.append(tensor) or tensor.clone())
    loader = load(None, 4, pin_memory=True, device="host")
    kept = list(loader)
    assert [int(value) // 5 for images, _ in kept for value in images[:, 0, 0, 0]] == list(range(COUNT))
    assert len(pinned) == 2 * len(kept) and current == [1]
    assert 'device = "auto"' in load(None, 4, pin_memory=True, pin_memory_device="cuda:2").feeder.to_toml()
    assert current == [1, 2] and "pin_memory" not in caplog.text


class Sized:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"collate_fn": list}, "size, .*PyTorch's workers make the batches: collate_fn is yours"),
        ({"batch_sampler": [[1]]}, "batch_sampler is yours"),
        ({"sampler": [1, 2]}, "the order of a list is not known"),
        ({"sampler": [1, 2], "shuffle": True}, "mutually exclusive"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": None}, "batch_size=None"),
        ({"num_workers": -1}, "num_workers"),
        ({"dataset": torch.utils.data.Subset(range(3), [1])}, "range does not list its files"),
        ({"dataset": Sized(samples=[("a", 0)], loader=print)}, "function of its own, 'print'"),
        ({"dataset": Sized(samples=[("a", 0, 1)], classes=["a"])}, "samples of Sized are no files with class numbers"),
        ({"num_worker": 2}, "did you mean num_workers?"),
        ({"pinmemory": True}, "did you mean pin_memory?"),
        ({"native": "yes"}, 'is "auto", "require" or "off"'),
    ],
)
def test_what_has_no_counterpart_is_refused_beside_options(load: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(**options)


HEAD = """
import json, os, sys, warnings
from pathlib import Path
import torch, forebay
from test_torch import PLAIN, Pictures
torch.distributed.init_process_group("gloo")
world = torch.distributed
folder = Path(sys.argv[1])
def say(what):
    everything = [None] * world.get_world_size()
    world.all_gather_object(everything, what)
    if world.get_rank() == 0: print(everything, flush=True)
"""


def ranks(body: str, tmp_path: Path, *arguments: str) -> Any:
    """What rank 0 of two printed last under torchrun, read as a value."""
    program = tmp_path / "program.py"
    # Without this gloo's threads end some processes in std::terminate().
    program.write_text(HEAD + body + "\nworld.destroy_process_group()\n")
    return ast.literal_eval(run_command(*torchrun(2), str(program), *arguments).strip().splitlines()[-1])


@pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch was built without torch.distributed")
def test_the_ranks_of_torchrun(folder: Path, tmp_path: Path) -> None:
    body = """
found = {}
try:
    forebay.Feeder(dataset=folder, **PLAIN)
except forebay.ConfigError as error:
    found["forgotten"] = str(error)
options = {**PLAIN, "policy": "block", "device": "host", "batch_size": 2}
for name, comm in (("torch", "torch"), ("group", world.new_group([0, 1]))):
    with forebay.Feeder(dataset=folder, comm=comm, epochs=2, **options) as feeder:
        found[name] = [[int(i) for batch in epoch if batch.is_fresh for i in batch.ids] for epoch in feeder.epochs()]
with forebay.Feeder(dataset=folder, comm=forebay.SOLO, **options) as feeder:
    found["solo"] = sum(batch.size for batch in feeder)
sampler = torch.utils.data.distributed.DistributedSampler(Pictures(folder))
with warnings.catch_warnings():
    warnings.simplefilter("error")
    loader = forebay.torch.DataLoader(Pictures(folder), 2, sampler=sampler, **PLAIN)
found["loader"] = [[int(v) // 5 for images, _ in loader for v in images[:, 0, 0, 0]] for _ in range(2)]
found["len"] = len(loader)
loader.close()
try:
    forebay.Feeder(dataset=folder, comm="torch", **{**options, "seed": world.get_rank()})
except forebay.ConfigError as error:
    found["differ"] = str(error)
say(found)
"""
    found = ranks(body, tmp_path, str(folder))
    for rank in found:
        assert "one of 2 of torch.distributed" in rank["forgotten"] and "seed" in rank["differ"]
        assert rank["solo"] == COUNT and rank["len"] == COUNT // 4
    for name in ("torch", "group", "loader"):
        for epoch in range(2):
            assert sorted(i for rank in found for i in rank[name][epoch]) == list(range(COUNT)), name


@pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch was built without torch.distributed")
def test_evaluations_on_ranks_are_those_of_pytorch(folder: Path, tmp_path: Path) -> None:
    body = """
data, found = torch.utils.data, []
class Greys(data.Dataset):
    def __getitem__(self, i): return torch.full((3, 8, 8), 5 * i, dtype=torch.uint8), 0
    def __len__(self): return 39
pictures = data.Subset(Pictures(folder), range(39))
for batch, of_sampler, of_loader in ((16, False, False), (16, True, False), (16, False, True), (8, True, True)):
    seen = []
    for kind, dataset, options in ((forebay.torch.DataLoader, pictures, PLAIN), (data.DataLoader, Greys(), {})):
        sampler = data.DistributedSampler(dataset, shuffle=False, drop_last=of_sampler)
        loader = kind(dataset, batch, sampler=sampler, drop_last=of_loader, **options)
        seen.append((len(loader), [images[:, 0, 0, 0].tolist() for images, _ in loader]))
    found.append(seen)
own = data.DistributedSampler(pictures, shuffle=False)
whole = forebay.torch.DataLoader(pictures, 30, sampler=own, eval=True, **PLAIN)
assert whole.is_native and [len(labels) for _, labels in whole] == [20]
for epoch in range(2):
    seen = []
    for kind, dataset, options in ((forebay.torch.DataLoader, pictures, PLAIN), (data.DataLoader, Greys(), {})):
        sampler = data.DistributedSampler(dataset, seed=3)
        sampler.set_epoch(epoch)
        seen.append([images[:, 0, 0, 0].tolist() for images, _ in kind(dataset, 7, sampler=sampler, **options)])
    found.append(seen)
own = data.DistributedSampler(Greys())
loader = forebay.torch.DataLoader(Greys(), 4, sampler=own)
found.append([loader.is_native, sorted(int(v) for images, _ in loader for v in images[:, 0, 0, 0])])
say(found)
"""
    for rank in ranks(body, tmp_path, str(folder)):
        assert all(ours == theirs for ours, theirs in rank[:-1])
        assert rank[-1][0] is False and len(rank[-1][1]) == 20


def test_no_process_group_is_an_error_that_says_so(folder: Path) -> None:
    with pytest.raises(ValueError, match="init_process_group"):
        forebay.Feeder(dataset=folder, comm="torch", **PLAIN)


def test_a_loop_after_the_run_says_that_it_is_empty(load: Any, caplog: pytest.LogCaptureFixture) -> None:
    loader = load(None, 4, epochs=1)
    assert greys(loader) == list(range(COUNT)) and "this loop has no batches" not in caplog.text
    assert greys(loader) == [] and "this loop has no batches" in caplog.text


def test_a_dataset_without_a_length_stands_behind_a_policy() -> None:
    class Numbers(torch.utils.data.IterableDataset):  # type: ignore[misc,name-defined]
        def __iter__(self) -> Any:
            return iter(torch.arange(8.0))

    loader = forebay.torch.DataLoader(Numbers(), 4, policy="block")
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]] and "policy" in repr(loader)
    loader.close()
