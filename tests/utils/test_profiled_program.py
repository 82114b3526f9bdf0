"""Everyday programs: what the profiler shows of each statement is what PyTorch's shows, but for the listed departures."""

import importlib.util
import json
import pathlib

import pytest

import flambeau as torch

HERE = pathlib.Path(__file__).with_name("profiled")
_found = importlib.util.spec_from_file_location("profiled_program", HERE / "program.py")
program = importlib.util.module_from_spec(_found)
_found.loader.exec_module(program)

RECORDED = json.loads(program.RECORDED.read_text())
#: What is shown here of statements that are computed in fewer or other steps than PyTorch's.
DEPARTURES = HERE / "departures.json"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", program.PROGRAMS)
def test_a_profiler_shows_what_pytorchs_shows(name):
    departures = json.loads(DEPARTURES.read_text())
    found = program.seen(torch, name)
    assert found == {code: departures.get(code, RECORDED[code]) for code in found}


if __name__ == "__main__":
    everything = {code: names for name in program.PROGRAMS for code, names in program.seen(torch, name).items()}
    program.write(DEPARTURES, {code: names for code, names in everything.items() if names != RECORDED[code]})
