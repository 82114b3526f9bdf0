"""Modules that have no files: what an entry of compat/aliases.txt makes, and how programs meet it."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

import flambeau as torch
from flambeau.compat import aliases

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("name", sorted(aliases.table()))
def test_an_entry_is_a_module_with_the_names_that_it_lists(name: str) -> None:
    entry = aliases.table()[name]
    made = importlib.import_module(f"flambeau.{name}")
    assert type(made) is ModuleType and made.__name__ == made.__spec__.name == f"flambeau.{name}"
    assert made.__file__ == str(aliases.TABLE) and getattr(made, "__path__", []) == []
    assert made.__doc__ == f"torch.{name}: {entry.doc}."
    assert importlib.util.find_spec(made.__name__).loader.entry is entry
    for place, new, old in entry.names():
        if old != "*" and not old.endswith("..."):
            assert getattr(made, new) is getattr(aliases.found(place), old)
    for public in getattr(made, "__all__", ()):
        assert hasattr(made, public)


def test_the_table_says_all_that_it_may_say() -> None:
    for entry in aliases.table().values():
        assert entry.doc and not entry.doc.endswith("."), entry.name
        assert bool(entry.said("absent")) == bool(entry.said("instead")), entry.name
    assert list(aliases.table()) == sorted(aliases.table())


def test_what_a_room_has_is_found_when_it_is_asked_for() -> None:
    assert torch._VF.lstm is torch.lstm and torch._C._fft.fft_rfft is torch.fft.rfft
    assert torch._C._linalg.linalg_inv is torch.linalg.inv and torch._C._linalg._linalg_svd is torch.ops.aten._linalg_svd
    for room, name in ((torch._C._fft, "rfft"), (torch._C._fft, "fft_no"), (torch._VF, "__path__"), (torch._export, "nothing")):
        with pytest.raises(AttributeError, match=f"module {room.__name__!r} has no attribute {name!r}"):
            getattr(room, name)


def test_all_that_is_public_is_what_an_import_of_all_takes() -> None:
    space: dict[str, object] = {}
    exec("from flambeau.distributed._tensor import *", space)
    assert space["DTensor"] is torch.distributed.tensor.DTensor
    space = {}
    exec("from flambeau.functional import *", space)
    assert space["einsum"] is torch.einsum and "F" not in space and torch.functional.F is torch.nn.functional


def test_packages_have_their_modules() -> None:
    assert torch._export.serde.schema.GraphModule is torch.export.serde.schema.GraphModule
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'flambeau._export.nothing'"):
        importlib.import_module("flambeau._export.nothing")
    with pytest.raises(ModuleNotFoundError, match="is not a package"):
        importlib.import_module("flambeau._VF.nothing")


def test_a_function_that_is_called_as_its_module_keeps_its_place() -> None:
    composable = importlib.import_module("flambeau.distributed._composable.fsdp")
    importlib.import_module("flambeau.distributed._composable.fsdp.fully_shard")
    assert composable.fully_shard is torch.distributed.fsdp.fully_shard


def test_absent_names_say_what_to_do() -> None:
    with pytest.raises(
        NotImplementedError, match=r"torch.utils.mkldnn.to_mkldnn is not implemented in flambeau: flambeau compiles"
    ):
        importlib.import_module("flambeau.utils.mkldnn").to_mkldnn(1)
    with pytest.raises(NotImplementedError, match=r"torch.utils.mobile_optimizer.optimize_for_mobile is not implemented"):
        importlib.import_module("flambeau.utils.mobile_optimizer").optimize_for_mobile(1)


def test_names_that_are_gone_are_told_when_the_module_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = aliases.Alias("_wrong", "an entry", [("base.rng", "no_such_name")])
    monkeypatch.setitem(aliases.table(), "_wrong", wrong)
    with pytest.raises(ImportError, match=r"cannot import name 'no_such_name' from 'flambeau.base.rng'"):
        importlib.import_module("flambeau._wrong")
    assert "flambeau._wrong" not in sys.modules


def test_classes_that_are_called_after_such_a_place_are_pickled_by_it() -> None:
    kind = importlib.import_module("flambeau._export.serde.serialize").SerializedArtifact
    assert kind.__module__ == "flambeau._export.serde.serialize" and pickle.loads(pickle.dumps(kind)) is kind
    assert b"flambeau._export.serde.serialize" in pickle.dumps(kind)


AS_TORCH = """
import sys
import torch
assert "torch.compat.aliases" not in sys.modules  # the table is read when an entry is asked for
import functorch.compile, functorch.experimental.control_flow
import flambeau._export.serde.serialize as ours, torch._export.serde.serialize as theirs
assert ours is theirs and ours.__name__ == "torch._export.serde.serialize"
assert functorch.compile.nop is sys.modules["torch._functorch.compilers"].nop
from torch._library.custom_ops import CustomOpDef
assert CustomOpDef.__module__ == "torch._library.custom_ops", CustomOpDef.__module__
assert torch._VF.__name__ == "torch._VF" and torch._VF.gru is torch.gru
print(torch._library)
"""


def test_as_torch_they_have_pytorchs_names(run_python: Run) -> None:
    answer = run_python("-m", "flambeau_torch", "run", "-c", AS_TORCH)
    assert answer.returncode == 0 and answer.stdout.startswith("<module 'torch._library' from "), answer.stderr
