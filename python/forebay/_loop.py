"""One loop over a loader of forebay.torch whose batches Forebay makes."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Any

from torch.utils import data

from .errors import ConfigError
from .feeder import Feeder


class Served(Sized):
    """The dataset of a loader that Forebay reads itself: its number of samples and their classes."""

    size = 1
    classes: Sequence[str] = ()

    def __init__(self, source: Any) -> None:
        self.source = source

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<{self.size} samples of {self.source!r}>"

    def __getitem__(self, index: int) -> Any:
        raise TypeError(
            "Forebay makes whole batches of these samples: another loader that takes them one by one, such as that of "
            "accelerate's prepare(), needs a dataset of PyTorch's; with Forebay's loader give comm= for the ranks"
        )


class Way(str):
    """The argument `native`, with the options attached: frameworks that re-create a loader pass `native` on, but do not
    know the options."""

    options: Mapping[str, Any] = {}

    @classmethod
    def of(cls, native: str, options: Mapping[str, Any]) -> Way:
        way = cls(native)
        way.options = {**getattr(native, "options", {}), **options}
        return way


class Loop:
    """One loop over a loader: an epoch, or the rest of one."""

    def __init__(self, loader: Any, feeder: Feeder, orders: Any) -> None:
        self._loader = loader
        self.feeder = feeder
        self.orders = orders  # a GivenOrder, if the loader's sampler has still to be asked
        self._batches: Iterator[Any] | None = None
        self._fresh = 0
        self.is_over = False

    def __iter__(self) -> Loop:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        batch = None if self.is_over else self._next()
        if batch is None:
            self._end()
            raise StopIteration
        self._fresh += batch.is_fresh
        if self.feeder is self._loader._feeder:
            # This many batches are a whole epoch, even if nobody has asked for another one.
            self._loader._is_left = not self._loader._is_once or self._fresh < self._loader._length
            self._loader._is_drawn &= self._loader._is_left
            self._ask_on()
        return self._loader._handed_over(self.feeder, batch)

    def give_order(self) -> None:
        """Passes on the sampler's order for the epoch that begins, unless that has been done."""
        orders, self.orders = self.orders, None
        if orders is None:
            return
        is_current = self.feeder is self._loader._feeder
        if is_current and self._loader._is_drawn:
            return
        self._loader._is_drawn |= is_current
        epoch = self.feeder.epochs_completed
        epoch += orders.has(epoch)  # that epoch was served, but nobody asked for its end
        orders.give(epoch, self._loader._asked.order(self.feeder.dataset_size))
        if is_current:
            self._ask_on()

    def _ask_on(self) -> None:
        """Asks the sampler for what PyTorch's loader, which may fetch batches ahead, has asked it for: to its end with
        the last batch at the latest, so that a state taken then is that of the end."""
        of = self._loader
        if of._asked is not None:
            batches = self._fresh + of.num_workers * (of.prefetch_factor or 0)
            is_last = self._fresh >= of._length
            of._asked.ask(of._places + 1 if is_last else batches * of.batch_sampler.batch_size)

    def _next(self) -> Any:
        # A loop that was left after its last batch leaves nothing of its epoch: the next epoch then begins.
        is_new = False
        while True:
            if self._batches is None:
                self.give_order()
                if not self.feeder.next_epoch():
                    if not (is_new or self._fresh or self.feeder.was_stopped):
                        self.feeder._warn_of_empty_loop()
                    return None
                self._batches, is_new = self.feeder._batches(None), True
            batch = next(self._batches, None)
            if batch is not None or self._fresh or not is_new:
                return batch
            self._batches = None

    def _end(self) -> None:
        self.is_over = True
        if self.feeder is not self._loader._feeder:
            self.feeder.close()
        else:
            self._loader._is_left = self._loader._is_drawn = False
            if self._loader._asked is not None:
                self._loader._asked.ask(self._loader._places + 1)


DIVIDED = (
    "not shuffled, and divided among ranks: some batches are served twice, so that all ranks make as many steps; "
    "run_eval=True counts each sample once"
)
LEFT = (
    "the last loop was left before its epoch ended, and the rest of that epoch is dropped. With a policy that reuses, "
    "an epoch has more than len(loader) steps: for a trainer that stops after those say restart=False, so that the "
    "next loop continues, or use forebay.lightning.DataModule"
)
_Theirs = data.DataLoader  # a program may put Forebay's in its place


class Workers:
    """The batches that PyTorch's workers make for a loader."""

    def __init__(self, loader: Any) -> None:
        self._loader = weakref.ref(loader)
        self.sampler, self.generator = loader.sampler, loader.generator

    def _alive(self) -> Any:
        loader = self._loader()
        if loader is None:
            raise ConfigError("the loader of these batches is gone: keep it for as long as its feeder")
        return loader

    def __iter__(self) -> Any:
        return _Theirs.__iter__(self._alive())

    def __len__(self) -> int:
        return _Theirs.__len__(self._alive())
