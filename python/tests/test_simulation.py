"""Policies in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import forebay
import pytest


def test_a_table_of_policies() -> None:
    table = forebay.simulate(policies=["block", "greedy"], ratios=[1.5, 3], source="constant", steps=500, capacity=4)
    assert len(table) == 4 and {row["policy"] for row in table} == {"block", "greedy"}
    assert {row["R"] for row in table} == {1.5, 3}
    assert len({row["policy"] for row in forebay.simulate(steps=100, ratios=2)}) > 3


def test_what_cannot_be_simulated_is_a_value_error(tmp_path: Path) -> None:
    for wrong in ({"policies": "gredy"}, {"source": "none"}, {"ratios": -1}, {"trace": tmp_path / "nowhere"}):
        with pytest.raises(ValueError, match="policy.name|source|ratio|nowhere"):
            forebay.simulate(**wrong)


def test_what_would_have_suited_a_run(make: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with make(telemetry_dir=run, policy={"name": "interval", "interval": 2}, epochs=4) as feeder:
        for _ in feeder:
            pass
    found = forebay.recommend(run, policy="block", capacity=4)
    assert set(found.options) == {"queue", "policy"} and found.options["queue"]["capacity"] >= 1
    assert [row["of"] for row in found.table][:3] == ["recorded", "configured", "recommended"]
    assert all(0 <= row["fresh_percent"] <= 100 for row in found.table) and "[queue]" in str(found)
    make(**{"policy": found.options["policy"], "capacity": found.options["queue"]["capacity"]}).close()
