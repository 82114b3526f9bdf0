"""Decomposed programs are those that PyTorch prints: recorded by `decomposition_models.py`."""

import importlib.util
import json
import pathlib

import pytest

import flambeau as torch

_found = importlib.util.spec_from_file_location("models", pathlib.Path(__file__).with_name("decomposition_models.py"))
models = importlib.util.module_from_spec(_found)
_found.loader.exec_module(models)
MODELS = models.models(torch)
RECORDED = json.loads(models.RECORDED.read_text())
#: Attention's result lies as its query does in PyTorch, and in order here: a copy more.
APART = {"gpt of one projection"}


@pytest.mark.parametrize("name", RECORDED)
def test_a_program_is_pytorchs(name) -> None:
    same = list(models.printed(torch, *MODELS[name])) == RECORDED[name]
    assert same == (name not in APART)
