"""PyTorch's loader by Forebay: the same meaning, whichever way the batches are made."""
# ruff: noqa: F811

from __future__ import annotations

import copy
import gc
import itertools
import json
import random
import weakref
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import COUNT, pairs

torch = pytest.importorskip("torch")
from test_torch import Pictures, greys, load  # noqa: E402, F401


def greys_of(batches: Any) -> list[list[int]]:
    return [[int(value) // 5 for value in images[:, 0, 0, 0]] for images, _ in batches]


@pytest.fixture
def pictures(folder: Path) -> Any:
    """An ImageFolder of torchvision, and of a class of the same transforms."""
    datasets = pytest.importorskip("torchvision.datasets")
    transforms = pytest.importorskip("torchvision.transforms")
    chain = transforms.Compose([transforms.Resize((8, 8)), transforms.PILToTensor()])
    return lambda kind=datasets.ImageFolder: kind(str(folder), chain)


def test_what_a_class_overrides_is_called(pictures: Any, caplog: pytest.LogCaptureFixture) -> None:
    datasets = pytest.importorskip("torchvision.datasets")
    data = torch.utils.data

    class Renumbered(datasets.ImageFolder):  # type: ignore[misc, name-defined]
        def __getitem__(self, index: int) -> Any:
            image, label = super().__getitem__(index)
            return 255 - image, 2 - label

    class Half(data.Subset[Any]):
        def __getitem__(self, index: int) -> Any:
            return self.dataset[39 - index]

        def __getitems__(self, indices: Any) -> Any:  # which PyTorch asks for beside it
            return [self[index] for index in indices]

    class Backwards(data.SequentialSampler):
        def __iter__(self) -> Any:
            return reversed(range(len(self.data_source)))

    plain, own = pictures(), pictures(Renumbered)
    for dataset, sampler in (
        *((each, None) for each in (own, data.Subset(own, [3, 1, 2]), Half(plain, [0, 1, 2]))),
        *((plain, each) for each in (Backwards(plain), [4, 7])),
    ):
        with pytest.raises(forebay.ConfigError, match="of its own|is not known"):
            forebay.torch.DataLoader(dataset, 2, sampler=sampler, native="require")
        ours = forebay.torch.DataLoader(dataset, 2, sampler=sampler)
        theirs = data.DataLoader(dataset, 2, sampler=sampler)
        assert not ours.is_native and len(ours) == len(theirs)
        for (images, labels), (their_images, their_labels) in pairs(ours, theirs):
            assert torch.equal(images, their_images) and torch.equal(labels, their_labels)
    assert "PyTorch's own workers make the batches: Renumbered has a __getitem__() of its own" in caplog.text


def test_it_is_a_loader_of_pytorch(pictures: Any) -> None:
    import pickle

    data = torch.utils.data
    loader = forebay.torch.DataLoader(pictures(), 4, True, collate_fn=data.default_collate, num_workers=2)
    assert loader.is_native and isinstance(loader, data.DataLoader) and loader.num_workers == 2
    assert isinstance(loader.batch_sampler, data.BatchSampler) and isinstance(loader.sampler, data.RandomSampler)
    assert len(iter(loader)) == len(loader) == COUNT // 4 and len(loader.dataset) == COUNT
    assert isinstance(next(iter(loader)), list) and forebay.torch.DataLoader[int] is not None
    with pytest.raises(ValueError, match="batch_size"):
        loader.batch_size = 8
    for same in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader)):
        assert sorted(greys(same)) == list(range(COUNT)) and same.is_native
        same.close()
    again = forebay.torch.DataLoader(pictures(), batch_sampler=data.BatchSampler(range(COUNT), 4, True))
    assert not again.is_native and greys(again) == list(range(COUNT))
    given = data.BatchSampler(data.SequentialSampler(pictures()), 16, True)
    again = forebay.torch.DataLoader(pictures(), batch_sampler=given)
    assert again.is_native and greys_of(again) == [list(range(16)), list(range(16, 32))]
    again.close()
    loader.close()


def test_the_dataset_of_a_path_has_a_length(load: Any, folder: Path) -> None:
    loader = load(folder, 16, True)
    assert len(loader.dataset) == COUNT and loader.dataset.classes == ["cat", "dog"] and len(loader) == 3


def test_arguments_of_a_feeder_are_those_of_the_loader(load: Any, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "some.state"
    loader = load(folder, 4, shuffle=True, resume=file, restart=False, seed=3)
    seen = greys(itertools.islice(loader, 3))
    loader.feeder.save(file)
    loader.close()
    assert sorted(seen + greys(load(folder, 4, shuffle=True, resume=file, seed=3))) == list(range(COUNT))
    with pytest.raises(forebay.ConfigError, match="processes: for images that Forebay decodes itself"):
        forebay.torch.DataLoader([1, 2], processes=2)


def test_a_framework_makes_it_anew(load: Any, folder: Path) -> None:
    """As Lightning does for ranks: with those attributes that are arguments, and a sampler of its own."""
    first = load(folder, 4, shuffle=True, copy=True)
    names = ("dataset", "batch_size", "drop_last", "num_workers", "native", "comm", "copy", "restart")
    sampler = torch.utils.data.DistributedSampler(first.dataset, num_replicas=1, rank=0, shuffle=True)
    again = forebay.torch.DataLoader(**{name: getattr(first, name) for name in names}, sampler=sampler)
    assert sorted(greys(again)) == list(range(COUNT)) and next(iter(again))[0].shape == (4, 3, 8, 8)
    again.close()
    with pytest.raises(TypeError, match="one by one"):
        next(iter(torch.utils.data.DataLoader(first.dataset)))


def test_a_loop_that_was_left_begins_anew(load: Any) -> None:
    held_out = load(None, 4)
    for _ in range(3):
        assert greys(itertools.islice(held_out, 3)) == list(range(12))
    assert greys(held_out) == list(range(COUNT)) and greys(held_out) == list(range(COUNT))
    training = load(None, 4, shuffle=True)
    next(iter(training))
    assert sorted(greys(training)) == list(range(COUNT))
    first, second = (greys(itertools.islice(training, 3)) for _ in range(2))
    assert first != second
    continued = load(None, 4, shuffle=True, restart=False)
    assert sorted(greys(itertools.islice(continued, 3)) + greys(continued)) == list(range(COUNT))


def test_the_order_is_that_of_manual_seed(load: Any) -> None:
    def order(seed: int, count: int = 1) -> list[list[int]]:
        torch.manual_seed(seed)
        return [greys(each) for each in [load(None, 4, shuffle=True) for _ in range(count)]]

    assert order(1) == order(1) != order(2)
    one, other = order(3, 2)
    assert one != other and sorted(one) == sorted(other)


def test_fields_are_served(load: Any, folder: Path) -> None:
    np = pytest.importorskip("numpy")
    paths = [path for path, _ in Pictures(folder).samples[:8]]
    fields: Any = {"mask": {"kind": "mask", "values": [np.full((8, 8), i, np.uint8) for i in range(8)]}}
    fields["text"] = {"kind": "bytes", "values": [b"a\0" * i for i in range(8)]}
    files = forebay.Files(paths, [0] * 8, fields=fields, boxes=[[[0, 0, 4, 4 + i / 8]] * (i % 3) for i in range(8)])
    for batch, rows in pairs(load(files, 4), (range(4), range(4, 8))):
        assert " ".join(batch) == "image label boxes boxes.class mask text boxes.counts text.counts"
        assert batch["mask"][:, 0, 0].tolist() == list(rows) and batch["image"].shape[0] == 4
        assert [*zip(batch["boxes.counts"], batch["text.counts"])] == [(i % 3, 2 * i) for i in rows]


def test_a_state_rewinds_and_brings_its_seed(load: Any) -> None:
    torch.manual_seed(1)
    loader = load(None, 4, shuffle=True)
    seen = greys(itertools.islice(loader, 3))
    state = loader.state_dict()
    rest = greys(load_and_return(loader, state))
    assert sorted(seen + rest) == list(range(COUNT)) and greys(load_and_return(loader, state)) == rest
    torch.manual_seed(2)
    assert greys(load_and_return(load(None, 4, shuffle=True), state)) == rest


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("served", [0, 1, 5, 9, 10])
def test_states_are_those_of_a_stateful_loader(load: Any, shuffle: bool, begun: bool, served: int) -> None:
    """As torchdata's tests ask: at any batch, as JSON, loaded twice, and in the epoch that follows too."""

    def made(seed: int) -> Any:
        return load(None, 4, shuffle=shuffle, generator=torch.Generator().manual_seed(seed) if shuffle else None)

    first, second = made(1), made(2)
    batches = iter(first) if begun or served else first
    seen = greys(itertools.islice(batches, served))
    state = json.loads(json.dumps(first.state_dict()))
    rest = greys(batches) if served < 10 else greys(first)  # after the last batch the next epoch begins
    assert served in (0, 10) or sorted(seen + rest) == list(range(COUNT))
    for _ in range(2):
        assert greys(load_and_return(second, state)) == rest
    assert greys(first) == greys(second)


def test_a_state_is_of_one_kind_of_order(load: Any) -> None:
    states = [load(None, 4, seed=1, **{key: True}).state_dict() for key in ("shuffle", "dataset_shuffle")]
    with pytest.raises(forebay.ConfigError, match="the sampler said the order, and here the library does"):
        load(None, 4, dataset_shuffle=True, seed=1).load_state_dict(states[0])
    with pytest.raises(forebay.ConfigError, match="the library said the order, and here the sampler does"):
        load(None, 4, shuffle=True, seed=1).load_state_dict(states[1])


def load_and_return(loader: Any, state: Any) -> Any:
    loader.load_state_dict(state)
    return loader


def test_a_sample_that_cannot_be_read_ends_an_evaluation(load: Any, folder: Path) -> None:
    missing = Pictures(folder)
    missing.samples[3] = ("/nowhere/of.png", 0)
    with pytest.raises(forebay.SampleError, match=r"^/nowhere/of.png: (?!/nowhere)"):
        list(load(missing, 4))
    assert len(greys(load(missing, 4, shuffle=True, max_bad=5))) == COUNT
    some = torch.utils.data.SubsetRandomSampler(range(10))  # held-out samples do not replace it
    held = load(missing, 4, sampler=some, max_bad=5)
    for _ in range(3):
        served = greys(held)
        assert len(served) == 10 and set(served) <= set(range(10)) - {3}


def test_images_in_memory_and_folders_behind_each_other(pictures: Any) -> None:
    datasets = pytest.importorskip("torchvision.datasets")
    transforms = pytest.importorskip("torchvision.transforms")
    np = pytest.importorskip("numpy")
    data = torch.utils.data
    rng = np.random.default_rng(5)
    chain = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.25,))])
    digits, photos = datasets.MNIST.__new__(datasets.MNIST), datasets.CIFAR10.__new__(datasets.CIFAR10)
    digits.data = torch.from_numpy(rng.integers(0, 256, (20, 28, 28), np.uint8))
    photos.data = rng.integers(0, 256, (20, 32, 32, 3), np.uint8)
    for each in (digits, photos):
        each.targets, each.classes, each.target_transform = torch.arange(20) % 10, [str(i) for i in range(10)], None
        each.transform = chain
    photos.targets = photos.targets.tolist()
    both = data.ConcatDataset([pictures()] * 2)
    both.datasets[1].transform = both.datasets[0].transform
    for dataset in (digits, data.Subset(photos, [5, -1, 5, 0]), photos, both, data.Subset(both, [50, 3])):
        ours = forebay.torch.DataLoader(dataset, 3, native="require", workers_io=1, workers_decode=1)
        for (images, labels), (their_images, their_labels) in pairs(ours, data.DataLoader(dataset, 3)):
            assert images.dtype == their_images.dtype and images.shape == their_images.shape
            assert torch.allclose(images.float(), their_images.float(), atol=1e-5) and torch.equal(labels, their_labels)
        ours.close()
    for targets in ([label + 0.5 for label in photos.targets], [7 * label for label in photos.targets]):
        photos.targets = targets
        general = forebay.torch.DataLoader(photos, 20)
        assert not general.is_native and next(iter(general))[1].tolist() == targets
    photos.targets = digits.targets.tolist()
    reflected = transforms.RandomCrop(32, padding=4, padding_mode="reflect")
    photos.transform = transforms.Compose([reflected, chain])
    assert not forebay.torch.DataLoader(photos, 3).is_native


def test_a_process_of_several_is_told_so(pictures: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    for native in ("require", "off"):
        with pytest.raises(forebay.ConfigError, match="one of 2 of a job"):
            forebay.torch.DataLoader(pictures(), 4, native=native)
        forebay.torch.DataLoader(pictures(), 4, native=native, comm=forebay.SOLO).close()


def test_ranks_that_serve_for_themselves_share_no_files(
    pictures: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in ("_native", "_order", "torch"):
        monkeypatch.setattr(f"forebay.{module}.group_size", lambda: 2)
    for native in ("require", "off"):
        for options in ({"telemetry_dir": tmp_path}, {"telemetry": {"dir": tmp_path}}, {"prometheus": tmp_path / "p"}):
            with pytest.raises(forebay.ConfigError, match="all would write the same files"):
                forebay.torch.DataLoader(pictures(), 4, native=native, **options)
        forebay.torch.DataLoader(pictures(), 4, native=native, comm=forebay.SOLO, telemetry_dir=tmp_path).close()


def sampling(rng: random.Random, dataset: Any) -> Any:
    """What makes one of PyTorch's samplers, or asks the loader for one."""
    data, seed = torch.utils.data, rng.randrange(1000)
    count, replicas, is_drawn = rng.randrange(1, 60), rng.randrange(1, 4), rng.random() < 0.5
    rank, is_shuffled, drop_last = rng.randrange(replicas), rng.random() < 0.5, rng.random() < 0.5
    some = rng.choices(range(len(dataset)), k=count)
    weights = [rng.random() for _ in dataset.indices] if hasattr(dataset, "indices") else [1.0] * len(dataset)

    def generator() -> Any:
        return torch.Generator().manual_seed(seed) if is_drawn else None

    return rng.choice(
        [
            lambda: {"shuffle": False},
            lambda: {"shuffle": True, "generator": generator()},
            lambda: {"sampler": data.SequentialSampler(dataset)},
            lambda: {"sampler": data.RandomSampler(dataset, generator=generator())},
            lambda: {"sampler": data.RandomSampler(dataset, True, count, generator=generator())},
            lambda: {"sampler": data.SubsetRandomSampler(some, generator())},
            lambda: {"sampler": data.WeightedRandomSampler(weights, count, generator=generator())},
            lambda: {"sampler": data.DistributedSampler(dataset, replicas, rank, is_shuffled, seed, drop_last)},
        ]
    )


def test_both_ways_serve_the_same(pictures: Any) -> None:
    """Samples, labels, batches and order, epoch after epoch, and beside another loader."""
    data, plain = torch.utils.data, pictures()
    transforms = pytest.importorskip("torchvision.transforms")
    geometry = [
        [transforms.Resize((8, 8))],
        [transforms.Resize((10, 9)), transforms.CenterCrop(8)],
        [transforms.Resize(9), transforms.CenterCrop((8, 7))],
    ]
    for seed in range(30):
        rng = random.Random(seed)
        plain.transform = transforms.Compose([*rng.choice(geometry), transforms.PILToTensor()])
        dataset: Any = plain
        for _ in range(rng.randrange(3)):
            dataset = data.Subset(dataset, rng.choices(range(len(dataset)), k=rng.randrange(1, 40)))
        options: dict[str, Any] = {"batch_size": rng.randrange(1, 12), "drop_last": rng.random() < 0.3}
        made, workers = sampling(rng, dataset), rng.choice([0, 0, 0, 1]) if seed < 8 else 0
        found = []
        for native in ("off", "auto"):
            torch.manual_seed(seed)
            loader = forebay.torch.DataLoader(dataset, native=native, num_workers=workers, **options, **made())
            beside = forebay.torch.DataLoader(plain, 40, shuffle=True, native=native, num_workers=workers)
            assert loader.is_native == (native == "auto" and len(loader) > 0), f"seed {seed}"
            found.append([])
            for epoch in range(3):
                if hasattr(loader.sampler, "set_epoch"):
                    loader.sampler.set_epoch(epoch)
                batches = [(greys_of([(images, labels)])[0], labels.tolist()) for images, labels in loader]
                assert len(batches) == len(loader), f"seed {seed}"
                found[-1] += [batches, [greys_of([one]) + greys_of([other]) for one, other in zip(beside, beside)]]
            loader.close()
            beside.close()
        assert found[0] == found[1], f"seed {seed}"


def test_labels_keep_their_type(pictures: Any) -> None:
    for label in (1.0, True):
        dataset = pictures()
        dataset.samples = [(path, label) for path, _ in dataset.samples]
        loader = forebay.torch.DataLoader(dataset, 4)
        assert not loader.is_native and next(iter(loader))[1].tolist() == [label] * 4


@pytest.mark.parametrize("workers", [0, 1])
def test_a_policy_stands_behind_pytorchs_workers(workers: int) -> None:
    numbers = torch.utils.data.TensorDataset(torch.arange(20.0))
    loader = forebay.torch.DataLoader(
        numbers, 4, num_workers=workers, policy={"name": "interval", "interval": 2}, capacity=3, watchdog_s=100
    )
    assert len(loader) == 5 and not loader.is_native and loader.feeder is None
    for _ in range(2):
        first = [int(batch[0]) for (batch,) in loader]
        assert sorted(set(first)) == [0, 4, 8, 12, 16] and len(first) >= 9
    next(iter(loader))
    assert next(iter(loader))[0].tolist() == [0, 1, 2, 3] or workers  # a reuse may come first
    assert loader.feeder.summary()["fresh"] >= 1 and "interval" in repr(loader)
    loader.close()
    assert [batch.tolist() for batch in forebay.torch.DataLoader({0: 5, 1: 6}, 2)] == [[5, 6]]
    plain = forebay.torch.DataLoader(numbers, 4, num_workers=workers)
    assert not hasattr(plain, "state_dict") and [len(batch) for (batch,) in plain] == [4] * 5
    with pytest.raises(AttributeError, match="has no state: give a policy"):
        plain.state_dict()


def test_a_program_may_put_it_in_the_place_of_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.utils.data, "DataLoader", forebay.torch.DataLoader)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(20.0)), 4, policy="block")
    assert len(loader) == len(list(loader)) == 5
    loader.close()


def test_the_generator_of_a_loader_is_part_of_its_state() -> None:
    numbers = torch.utils.data.TensorDataset(torch.arange(20.0))

    def loader(seed: int) -> Any:
        generator = torch.Generator().manual_seed(seed)
        return forebay.torch.DataLoader(numbers, 4, shuffle=True, generator=generator, policy="block", num_workers=1)

    first, second = loader(1), loader(2)
    seen = []
    for (batch,) in first:
        seen += batch.tolist()
        if len(seen) == 12:
            break
    second.load_state_dict(first.state_dict())
    seen += [value for (batch,) in second for value in batch.tolist()]
    assert sorted(seen) == list(range(20))
    first.close()
    second.close()
    drawn = forebay.torch.DataLoader(numbers, 4, shuffle=True, policy="block")
    next(iter(drawn))
    with pytest.raises(forebay.Error, match="give it a generator"):
        drawn.state_dict()
    drawn.close()


def test_threads_end_with_the_last_reference(pictures: Any) -> None:
    gc.collect()
    gc.disable()
    try:
        for options in ({}, {"collate_fn": list, "policy": "block"}):
            loader = forebay.torch.DataLoader(pictures(), 4, **options)
            assert len(list(loader)) == len(loader)
            feeder = weakref.ref(loader.feeder)
            del loader
            assert feeder() is None
    finally:
        gc.enable()
