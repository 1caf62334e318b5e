"""States: where a job is, and resuming there."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import COUNT


@pytest.mark.parametrize(
    "carry", [lambda s: s, lambda s: json.loads(json.dumps(s)), lambda s: pickle.loads(pickle.dumps(s))]
)
def test_a_state_resumes_where_it_was_taken(make: Any, carry: Any) -> None:
    first = make(epochs=2)
    seen = []
    for batch in first:
        seen.extend(int(i) for i in batch.ids)
        if batch.step == 6:
            state = carry(first.state_dict())
            break
    second = make(epochs=2)
    second.load_state_dict(state)
    rest = [int(i) for batch in second for i in batch.ids]
    assert len(seen) == 28 and sorted(seen + rest[: COUNT - 28]) == list(range(COUNT))
    assert sorted(rest[COUNT - 28 :]) == list(range(COUNT)) and second.steps == 20


def test_torch_saves_states(make: Any, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    feeder = make()
    feeder.next().release()
    torch.save({"data": feeder.state_dict()}, tmp_path / "checkpoint.pt")
    make().load_state_dict(torch.load(tmp_path / "checkpoint.pt")["data"])


def test_a_saved_file_resumes(make: Any, tmp_path: Path) -> None:
    file = tmp_path / "feed.state"
    first = make()
    for batch in first:
        if batch.step == 4:
            break
    first.save(file)
    first.finish_saves()
    assert sum(1 for _ in make(resume=file)) == COUNT // 4 - 5
    assert make().restore_if_present(file) and not make().restore_if_present(tmp_path / "none")


def test_what_is_no_state_is_refused(make: Any) -> None:
    for wrong in ({}, {"format": "other"}, "text"):
        with pytest.raises(ValueError, match="state_dict"):
            make().load_state_dict(wrong)
    state = make().state_dict()
    with pytest.raises(ValueError, match="version 99"):
        make().load_state_dict({**state, "version": 99})
    with pytest.raises(ValueError, match="seed"):
        make(seed=99).load_state_dict(state)
    used = make()
    used.next().release()
    with pytest.raises(forebay.Error, match="before the first"):
        used.load_state_dict(state)
