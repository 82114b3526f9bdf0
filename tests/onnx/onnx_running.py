"""Models beside their ONNX files: what flambeau and ONNX Runtime make of the same inputs. Used by the tests of torch.onnx."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.utils._pytree as pytree

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


class Function(torch.nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def agree(program: Any, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
    """The program gives the module's results: shapes and dtypes the same, elements to 1e-5."""
    kwargs = kwargs or {}
    with torch.no_grad():
        wanted = [x for x in pytree.tree_leaves(module(*args, **kwargs)) if x is not None]
    given = program(*args, **kwargs)
    assert len(given) == len(wanted)
    for x, y in zip(given, wanted):
        assert x.shape == y.shape and x.dtype == y.dtype, (x.shape, y.shape, x.dtype, y.dtype)
        np.testing.assert_allclose(x.double().numpy(), y.detach().double().numpy(), rtol=1e-5, atol=1e-5)


def exported(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **how: Any) -> Any:
    """The module as an ONNX program that passes the checker, and agrees with it on the inputs that it was exported with."""
    module.eval()
    program = torch.onnx.export(module, args, kwargs=kwargs, verbose=False, **how)
    onnx.checker.check_model(program.model_proto, full_check=True)
    agree(program, module, args, kwargs)
    return program


def check_operator(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """A function agrees with its ONNX model, in an old and in a new operator set."""
    for opset in (18, 23):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            exported(Function(function), args, opset_version=opset)
