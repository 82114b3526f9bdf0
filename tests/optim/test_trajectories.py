"""Optimizers and schedulers against PyTorch's recorded results, and formulas against the compiler's expressions."""

import importlib.util
import json
import pathlib

import pytest

import flambeau

HERE = pathlib.Path(__file__).parent
specification = importlib.util.spec_from_file_location("optim_programs", HERE / "programs.py")
programs = importlib.util.module_from_spec(specification)
specification.loader.exec_module(programs)
RECORDED = json.loads((HERE / "recorded.json").read_text())


@pytest.fixture(scope="module")
def ours():
    return programs.results(flambeau)


@pytest.mark.parametrize("key", RECORDED)
def test_recorded(ours, key):
    # LBFGS divides differences of nearly equal numbers
    tolerance = 1e-6 if key.startswith("LBFGS") else 2e-5
    assert ours[key] == pytest.approx(RECORDED[key], rel=tolerance, abs=1e-6)


def test_every_program_is_recorded(ours):
    assert set(ours) == set(RECORDED)
