"""Exported programs of TorchScript, recorded while it runs (jit.execution.recorded). Used by torch._export.converter."""

from __future__ import annotations

import inspect
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.export._export import export_module
from flambeau.export.dims import Dim
from flambeau.export.dynamic_shapes import combined_args
from flambeau.export.exported_program import ExportedProgram

__all__ = ["TS2EPConverter"]


class _Function(torch.nn.Module):
    """A compiled function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        names = [a.name for a in function.schema.arguments]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__dict__["forward"] = _with_signature(function, inspect.Signature([inspect.Parameter(n, kind) for n in names]))


def _with_signature(function: Any, signature: inspect.Signature) -> Any:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    forward.__signature__ = signature  # type: ignore[attr-defined]
    return forward


class TS2EPConverter:
    """Makes an exported program of a scripted or traced module, or function.

    The program is recorded while the TorchScript runs: `if` on what only values tell is torch.cond, any other goes the way of the
    sample inputs, loops are unrolled. Every dimension of the inputs may have other sizes, unless the program needs this one.
    """

    def __init__(self, ts_model: Any, sample_args: tuple[Any, ...], sample_kwargs: dict[str, Any] | None = None) -> None:
        self.ts_model, self.sample_args, self.sample_kwargs = ts_model, sample_args, sample_kwargs

    def convert(self) -> ExportedProgram:
        """The program. torch._dynamo.exc.UncapturedHigherOrderOpError for branches that don't give tensors of the same kinds;
        what torch.export.export raises else.
        """
        module = self.ts_model if isinstance(self.ts_model, torch.nn.Module) else _Function(self.ts_model)
        args = self.sample_args if isinstance(self.sample_args, tuple) else (self.sample_args,)

        def open_sizes(x: Any) -> Any:
            return [Dim.AUTO] * x.dim() if isinstance(x, torch.Tensor) else None

        given = combined_args(module, args, self.sample_kwargs)
        return export_module(module, args, self.sample_kwargs, dynamic_shapes=pytree.tree_map(open_sizes, given))
