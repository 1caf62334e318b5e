"""PyTorch: the loader with DataLoader's arguments, and the ranks of torch.distributed."""

from __future__ import annotations

import ast
import itertools
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forebay
import pytest
from conftest import COUNT, pairs, run_command, torchrun

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
    assert {int(label) for _, labels in load(pictures, 4) for label in labels} == {7, 8}


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
    with pytest.raises(forebay.Error, match="max_leases"):
        list(load(None, 4))


def test_a_policy_that_reuses_is_one_word(load: Any) -> None:
    loader = load(None, 4, policy={"name": "interval", "interval": 2})
    assert len(loader) == COUNT // 4 < len(list(greys(loader))) // 4


def test_options_overrule_by_key_whatever_they_are_called(load: Any) -> None:
    text = load(None, 4, policy={"watchdog_s": 600}).feeder.to_toml()
    assert 'name = "block"' in text and "watchdog_s = 600" in text
    text = load(None, 4, policy_name="adaptive", run_epochs=3).feeder.to_toml()
    assert 'name = "adaptive"' in text and "epochs = 3 " in text


def test_a_dataset_of_its_own_is_asked_although_it_has_samples(load: Any, folder: Path) -> None:
    class Reversed(forebay.Dataset):
        def __init__(self) -> None:
            self.samples = Pictures(folder).samples

        def __len__(self) -> int:
            return len(self.samples)

        def __getitem__(self, index: int) -> bytes:
            return Path(self.samples[-1 - index][0]).read_bytes()

    assert greys(load(Reversed(), 4)) == list(reversed(range(COUNT)))


def test_each_loop_over_held_out_data_is_all_of_them(load: Any) -> None:
    loader = load(None, 16, eval=True)
    assert [greys(loader) for _ in range(3)] == 3 * [list(range(COUNT))]


def test_one_warning_for_what_means_nothing_here(load: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(None, 4, num_workers=8, pin_memory=True, persistent_workers=True, prefetch_factor=4)
        load(None, 4)
    assert len(caught) == 1 and "num_workers=8, pin_memory=True, prefetch_factor=4" in str(caught[0].message)
    assert Path(caught[0].filename) == Path(__file__)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"collate_fn": list}, "collate_fn has no counterpart"),
        ({"batch_sampler": []}, "batch_sampler has no counterpart"),
        ({"sampler": [1, 2]}, "sampler: list has no counterpart"),
        ({"sampler": [1, 2], "shuffle": True}, "mutually exclusive"),
        ({"batch_size": 0}, "batch_size"),
        ({"dataset": torch.utils.data.Subset(range(3), [1])}, "does not list files"),
        ({"dataset": SimpleNamespace(transform=print)}, "does not list its files"),
        ({"dataset": SimpleNamespace(samples=[("a", 0)], loader=print)}, "function of its own .*print"),
    ],
)
def test_what_has_no_counterpart_is_refused(load: Any, options: dict[str, Any], message: str) -> None:
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
    program.write_text(HEAD + body)
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


def test_no_process_group_is_an_error_that_says_so(folder: Path) -> None:
    with pytest.raises(ValueError, match="init_process_group"):
        forebay.Feeder(dataset=folder, comm="torch", **PLAIN)


def test_what_a_class_overrides_is_refused(folder: Path) -> None:
    datasets = pytest.importorskip("torchvision.datasets")

    class Renumbered(datasets.ImageFolder):  # type: ignore[misc, name-defined]
        def __getitem__(self, index: int) -> Any:
            image, label = super().__getitem__(index)
            return image, 2 - label

    class Half(torch.utils.data.Subset[Any]):
        def __getitem__(self, index: int) -> Any:
            return self.dataset[self.indices[index]]

    class Backwards(torch.utils.data.SequentialSampler):
        def __iter__(self) -> Any:
            return reversed(range(len(self.data_source)))

    plain = datasets.ImageFolder(str(folder))
    own = Renumbered(str(folder))
    for dataset in (own, torch.utils.data.Subset(own, [0, 1]), Half(plain, [0, 1])):
        with pytest.raises(forebay.ConfigError, match="of its own, which Forebay does not call"):
            forebay.torch.DataLoader(dataset, batch_size=2)
    with pytest.raises(forebay.ConfigError, match=r"Backwards has a __iter__\(\) of its own"):
        forebay.torch.DataLoader(plain, batch_size=2, sampler=Backwards(plain))
