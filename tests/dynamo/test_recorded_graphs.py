"""The graphs that a backend of torch.compile gets, against those that PyTorch made of the same programs (record_graphs.py)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(os.path.dirname(__file__))
from graph_programs import PROGRAMS, record

RECORDED = json.loads(Path(__file__).with_name("graphs_recorded.json").read_text())

#: Programs whose graphs differ, and why. What they give, and how many graphs there are, doesn't.
DEPARTURES = {
    "functional": "dropout that does nothing gives its input, which is no result of the graph",
    "types": "type_as gives its input, which is no result of the graph",
    "autocast_that_is_off": "a block that changes nothing is not in the graph",
    "iterates": "items of a tensor that a loop goes through are not named by the loop's variable",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_and_results_are_as_recorded(name: str) -> None:
    wanted: dict[str, Any] = RECORDED[name]
    got = json.loads(json.dumps(record(name)))
    graphs, expected = got.pop("graphs"), dict(wanted)
    recorded = expected.pop("graphs")
    assert got == expected
    assert len(graphs) == len(recorded)
    if name in DEPARTURES:
        assert graphs != recorded, f"{name} is as in PyTorch: strike it off DEPARTURES"
    else:
        assert graphs == recorded


def test_every_program_is_recorded() -> None:
    assert list(RECORDED) == list(PROGRAMS) and set(DEPARTURES) <= set(PROGRAMS)
