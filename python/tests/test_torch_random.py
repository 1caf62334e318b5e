"""PyTorch's loader by Forebay: its random numbers, and what the program changes between loops."""
# ruff: noqa: F811

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import COUNT

torch = pytest.importorskip("torch")
from test_torch import greys, load  # noqa: E402, F401
from test_torch_ways import load_and_return, pictures  # noqa: E402, F401


def test_each_loader_augments_anew(pictures: Any) -> None:
    """As PyTorch's: two views of one dataset differ, and the same manual_seed() gives the same ones."""
    transforms = pytest.importorskip("torchvision.transforms")
    dataset, distributed = pictures(), torch.utils.data.DistributedSampler
    dataset.transform = transforms.Compose([transforms.RandomResizedCrop(8), transforms.PILToTensor()])
    dataset.samples = dataset.samples[:16]

    def seeds(manual_seed: int, count: int = 1, **options: Any) -> list[Any]:
        torch.manual_seed(manual_seed)
        if options.pop("is_distributed", False):
            options["sampler"] = distributed(dataset, 1, 0)
        made = [forebay.torch.DataLoader(dataset, 4, native="require", **options) for _ in range(count)]
        found = []
        for loader in made:
            state = loader.state_dict()
            list(loader)
            assert loader.state_dict()["seed"] == state["seed"]
            found.append(state["seed"])
            loader.close()
        return found

    for options in ({}, {"shuffle": True}, {"is_distributed": True}, {"dataset_shuffle": True}):
        one, other = seeds(1, 2, **options)
        assert one != other and seeds(1, **options) == [one] != seeds(2, **options)
        assert seeds(1, 2, **options, seed=5) == [5, 5]

    def is_made_once(draws: int) -> bool:
        loader: Any = forebay.torch.DataLoader(dataset, 4, shuffle=True, native="require")
        feeder = loader.feeder
        torch.rand(draws)
        list(loader)
        loader.close()
        return loader.feeder is feeder

    assert is_made_once(0) and not is_made_once(1)
    dataset.transform = transforms.Compose([transforms.Resize((8, 8)), transforms.PILToTensor()])
    assert is_made_once(1)  # nothing is random but the order


def test_a_loop_leaves_pytorchs_random_states(pictures: Any) -> None:
    """Batches, and what the program draws afterwards, whether the workers persist and whether a loop is left."""
    data, plain = torch.utils.data, pictures()

    def made(is_own: bool, drawn: Any, **options: Any) -> tuple[Any, Any]:
        torch.manual_seed(3)
        own = torch.Generator().manual_seed(4) if is_own else None
        sampler = data.RandomSampler(plain, generator=own, **drawn)
        return own, forebay.torch.DataLoader(plain, 8, sampler=sampler, generator=own, **options)

    workers = [{}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}]
    parts = [{}, {"replacement": True, "num_samples": 100}]
    for is_own, left, options, drawn in itertools.product((False, True), (1, 3, 5, None), workers, parts):
        found: list[Any] = [[], []]
        for each, native in zip(found, ("off", "require")):
            own, loader = made(is_own, drawn, native=native, **options)
            for _ in range(3):
                each += [greys(itertools.islice(loader, left)), torch.rand(2).tolist()]
                each += [] if own is None else [torch.rand(1, generator=own).item()]
            loader.close()
        if left != 5 or not is_own or options:  # there PyTorch does not know that nothing is left
            assert found[0] == found[1], (is_own, left, options, drawn)
    subset = data.SubsetRandomSampler(range(20))
    persisting = [forebay.torch.DataLoader(plain, 8, sampler=subset, **workers[2], native="require") for _ in range(2)]
    greys(persisting[0])
    state, random_state = persisting[0].state_dict(), torch.get_rng_state()
    rest = [greys(persisting[0]) for _ in range(3)]
    torch.set_rng_state(random_state)
    assert [greys(load_and_return(persisting[1], state)), greys(persisting[1]), greys(persisting[1])] == rest
    for loader in persisting:
        loader.close()


@pytest.mark.parametrize("served", [0, 3, 10, None])
@pytest.mark.parametrize("kind", ["RandomSampler", "SubsetRandomSampler"])
def test_a_program_that_restores_its_random_state_goes_on_as_before(load: Any, served: Any, kind: str) -> None:
    def made(seed: int) -> Any:
        torch.manual_seed(seed)
        return load(None, 4, sampler=getattr(torch.utils.data, kind)(range(COUNT)))

    first = made(1)
    greys(first)
    batches = iter(first)
    greys(itertools.islice(batches, served))
    state, random_state = first.state_dict(), torch.get_rng_state()
    if served == 10:
        assert next(batches, None) is None
    rest = [greys(first if served in (10, None) else batches), greys(first), greys(first)]
    second = made(2)
    second.load_state_dict(state)
    torch.set_rng_state(random_state)
    assert [greys(second) for _ in range(3)] == rest


def test_a_sampler_may_change_its_length(load: Any, folder: Path) -> None:
    sampler = torch.utils.data.SubsetRandomSampler(range(20))
    loader = load(None, 8, sampler=sampler)
    for count in (20, 30, 30, 10):
        sampler.indices = range(count)
        assert len(loader) == -(-count // 8) and sorted(greys(loader)) == list(range(count))
    sampler.indices = range(40)
    again = load(None, 8, sampler=sampler)
    sampler.indices = range(10)
    assert sorted(greys(load_and_return(again, loader.state_dict()))) == list(range(10))
    load_and_return(again, loader.state_dict())
    sampler.indices = range(20)
    with pytest.raises(forebay.ConfigError, match="has 20 places, and each epoch has 10"):
        greys(again)


def test_what_is_changed_later_is_not_ignored(pictures: Any) -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    data = torch.utils.data

    def no_flips(dataset: Any) -> None:
        dataset.transform.transforms[1].p = 0.0

    def more(dataset: Any) -> None:
        dataset.transform.transforms.append(transforms.Normalize(0.5, 0.5))

    def another(dataset: Any) -> None:
        dataset.transform = transforms.PILToTensor()

    def relabelled(dataset: Any) -> None:
        dataset.samples = [(path, 1 - label) for path, label in dataset.samples]

    def shorter(dataset: Any) -> None:
        dataset.samples.pop()

    for change in (no_flips, more, another, relabelled, shorter):
        for made in (lambda one: one, lambda one: data.Subset(one, [1, 2]), lambda one: data.ConcatDataset([one, one])):
            plain = pictures()
            steps = [transforms.Resize((8, 8)), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
            plain.transform = transforms.Compose(steps)
            loader = forebay.torch.DataLoader(made(plain), 20)
            assert loader.is_native and len(list(loader)) == len(list(loader)) == len(loader)
            change(plain)
            with pytest.raises(forebay.ConfigError, match="the dataset.* was changed .*make a new loader"):
                iter(loader)
            loader.close()
    loader = forebay.torch.DataLoader(pictures(), 2)
    loader.collate_fn = list
    with pytest.raises(forebay.ConfigError, match="collate_fn was changed"):
        iter(loader)
    loader.close()


@pytest.mark.parametrize("is_native", [False, True])
def test_a_policy_that_reuses_says_what_is_dropped(
    pictures: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_native: bool
) -> None:
    monkeypatch.setattr("forebay.torch._said", set())
    reusing: dict[str, Any] = {"policy": {"name": "interval", "interval": 2}}
    for options in ({}, {**reusing, "restart": False}, reusing):
        assert "the rest of that epoch is dropped" not in caplog.text
        loader = forebay.torch.DataLoader(pictures(), 4, native="auto" if is_native else "off", **options)
        for _ in range(2):
            list(itertools.islice(loader, len(loader) - 1))
        loader.close()
    assert caplog.text.count("the rest of that epoch is dropped") == 1 and "restart=False" in caplog.text
