"""Packed weights in files: PyTorch's are read, and what is written has its form."""

from __future__ import annotations

import copy
import io
import pickle
import pickletools
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ao import quantization as aq

sys.path.insert(0, str(Path(__file__).parent))
from record_packed import PLACE, packs, results


@pytest.fixture(scope="module")
def recorded() -> Any:
    return torch.load(PLACE, weights_only=False)


def test_weights_of_pytorch_are_read(recorded: Any) -> None:
    made = results(torch, recorded["packs"])
    assert set(made) == set(recorded["results"])
    for name, value in made.items():
        assert torch.equal(value, recorded["results"][name]), name
    with pytest.raises(pickle.UnpicklingError, match="ScriptObject"):
        torch.load(PLACE)


@pytest.mark.parametrize("dtype", ["qint8", "float16"])
def test_state_dicts_of_recurrent_layers_are_read(recorded: Any, dtype: str) -> None:
    model = aq.quantize_dynamic(nn.Sequential(nn.LSTM(3, 2)), dtype=getattr(torch, dtype))
    state, expected = recorded[dtype]
    model.load_state_dict(state)
    assert torch.allclose(model(recorded["x"])[0], expected, atol=1e-6)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.ScriptObject):
        return same(a.__getstate__(), b.__getstate__())
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if not isinstance(a, torch.Tensor):
        return a == b
    if a.dtype is not b.dtype or a.shape != b.shape:
        return False
    if a.is_quantized:  # PyTorch keeps the scale of a Linear's weight in single precision
        return torch.equal(a.int_repr(), b.int_repr()) and torch.allclose(a.dequantize(), b.dequantize(), rtol=1e-6)
    return torch.equal(a, b)


def test_states_are_those_of_pytorch(recorded: Any) -> None:
    for name, own in packs(torch).items():
        assert same(own, recorded["packs"][name]), name
        assert isinstance(own, torch.ScriptObject) and own.__getstate__()[1].startswith("__torch__.torch.classes.")


def test_what_is_written_names_what_pytorch_has() -> None:
    file = io.BytesIO()
    torch.save({"packs": packs(torch)}, file)
    with zipfile.ZipFile(file) as archive:
        record = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        names = {str(arg) for op, arg, _ in pickletools.genops(archive.read(record)) if op.name == "GLOBAL"}
    assert {name.split()[0] for name in names} == {"torch", "torch._utils", "collections"} and "torch ScriptObject" in names
    file.seek(0)
    again = torch.load(file, weights_only=False)["packs"]
    for name, value in results(torch, packs(torch)).items():
        assert torch.equal(value, results(torch, again)[name]), name
    assert same(copy.copy(again["conv1d"]), pickle.loads(pickle.dumps(again["conv1d"])))


def test_states_that_are_not_known_are_refused() -> None:
    empty = torch.ScriptObject.__new__(torch.ScriptObject)
    for state in (
        (("3", [], []), "__torch__.torch.classes.quantized.Conv2dPackedParamsBase"),
        (("a",), "__torch__.torch.classes.x.Y"),
    ):
        with pytest.raises(NotImplementedError, match="can't read packed weights"):
            empty.__setstate__(state)
