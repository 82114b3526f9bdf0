"""torch.jit and torch.compile: what is given comes back as it is, warns once, and refuses what only a program has."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.base import warn

nn = torch.nn


@pytest.fixture(autouse=True)
def heard_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warn, "_given", set())


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize("make", [torch.jit.script, lambda f: torch.jit.trace(f, torch.ones(1)), torch.compile])
def test_a_function_comes_back_with_one_warning(make: Callable[..., Any]) -> None:
    with pytest.warns(UserWarning, match="runs eagerly") as caught:
        made = make(double)
    assert made is double and made(torch.ones(2)).tolist() == [2, 2] and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make(double) is double


def test_a_module_comes_back_as_it_is() -> None:
    module = nn.Sequential(nn.Linear(2, 2)).eval()
    x = torch.ones(1, 2)
    with pytest.warns(UserWarning):
        for made in (torch.jit.script(module), torch.jit.trace(module, x), torch.jit.trace_module(module, {"forward": x}),
                     torch.jit.freeze(module), torch.jit.optimize_for_inference(module), torch.compile(module)):
            assert made is module and not isinstance(made, torch.jit.ScriptModule)
    assert set(module.__dict__) == set(nn.Sequential().__dict__)
    assert list(pickle.loads(pickle.dumps(module)).state_dict()) == ["0.weight", "0.bias"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["graph", "code", "save", "inlined_graph"])
def test_there_is_no_program(name: str) -> None:
    module = torch.jit.script(nn.Linear(2, 2))
    assert not hasattr(module, name)
    with pytest.raises(NotImplementedError, match=r"torch\.save"):
        getattr(module, name)
    with pytest.raises(AttributeError, match="has no attribute"):
        getattr(nn.Linear(2, 2), name)
    function = torch.jit.script(double)
    with pytest.raises(NotImplementedError, match=r"torch\.save"):
        str(getattr(function, name))
    with pytest.raises(NotImplementedError, match=r"torch\.save"):
        getattr(function, name)("file")
    with pytest.raises(AttributeError, match="has no attribute 'weights'"):
        _ = module.weights


def test_what_can_not_be_a_script() -> None:
    with pytest.raises(RuntimeError, match=r"inherits from nn\.Module, pass an instance"):
        torch.jit.script(nn.Linear)
    with pytest.raises(TypeError, match="not int"):
        torch.jit.script(5)
    with pytest.raises(RuntimeError, match="in eval mode"):
        torch.jit.freeze(nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match="example_kwarg_inputs"):
        torch.jit.trace(double)


def test_a_script_module_is_a_module_that_runs_eagerly() -> None:
    with pytest.warns(UserWarning, match="script_method"):

        class Scaled(torch.jit.ScriptModule):
            def __init__(self) -> None:
                super().__init__()
                self.scale = nn.Parameter(torch.full((1,), 3.0))

            @torch.jit.script_method
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x * self.scale

    with pytest.warns(UserWarning, match="ScriptModule"):
        module = Scaled()
    assert module(torch.ones(1)).item() == 3 and isinstance(module, torch.jit.ScriptModule)
    assert copy.deepcopy(module).scale is not module.scale
    with pytest.raises(NotImplementedError):
        module.save("file")
    with pytest.raises(NotImplementedError):
        torch.jit.RecursiveScriptModule(None)


def test_archives_are_refused(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        torch.jit.load(tmp_path / "nothing.pt")
    with pytest.raises(ValueError, match="is a directory"):
        torch.jit.load(tmp_path)
    with pytest.raises(NotImplementedError, match="state_dict"):
        torch.jit.save(nn.Identity(), tmp_path / "it.pt")


def test_compile_as_a_decorator_and_in_place() -> None:
    with pytest.warns(UserWarning):

        @torch.compile(mode="max-autotune", dynamic=True)
        def triple(x: torch.Tensor) -> torch.Tensor:
            return x * 3

    assert triple(torch.ones(1)).item() == 3
    module = nn.Linear(2, 2)
    before = module(torch.ones(1, 2))
    module.compile()
    assert torch.equal(module(torch.ones(1, 2)), before)


def test_what_compile_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotImplementedError, match="fullgraph"):
        torch.compile(double, fullgraph=True)
    with pytest.raises(NotImplementedError, match="backend"):
        torch.compile(double, backend=lambda graph, inputs: graph)
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(double, mode="default", options={})
    with pytest.raises(RuntimeError, match="Unrecognized mode=quick"):
        torch.compile(double, mode="quick")
    with pytest.raises(AssertionError, match="callable function is expected"):
        torch.compile(5)  # type: ignore[call-overload]
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    assert torch.compile(double, fullgraph=True) is double
