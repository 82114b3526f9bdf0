"""torch.onnx.verification: what a model gives beside what the module gives. Stands on `_program`'s ONNXProgram."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree

__all__ = ["VerificationInfo", "verify_onnx_program"]

_logger = logging.getLogger("flambeau.onnx")
_BINS = [0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10, 1000000]


@dataclasses.dataclass
class VerificationInfo:
    """How far a value of a model is from the module's.

    name: the value's; max_abs_diff, max_rel_diff: the largest differences; abs_diff_hist, rel_diff_hist: (counts, edges) of them;
    expected_dtype, actual_dtype: what both are.
    """

    name: str
    max_abs_diff: float
    max_rel_diff: float
    abs_diff_hist: tuple[torch.Tensor, torch.Tensor]
    rel_diff_hist: tuple[torch.Tensor, torch.Tensor]
    expected_dtype: torch.dtype
    actual_dtype: torch.dtype

    @classmethod
    def from_tensors(cls, name: str, expected: Any, actual: Any) -> VerificationInfo:
        """The differences of two tensors or numbers."""
        expected, actual = (x.detach().cpu() if isinstance(x, torch.Tensor) else torch.tensor(x) for x in (expected, actual))
        dtypes = expected.dtype, actual.dtype
        if not expected.numel() or not actual.numel():
            away = relative = torch.tensor([math.inf])
        else:
            if expected.dtype == torch.bool:
                expected, actual = expected.float(), actual.float()
            away = (expected - actual).abs().float()
            relative = away / (expected.abs() + 1e-7).float()
        bins = torch.tensor(_BINS)
        hists: list[Any] = [tuple(torch.histogram(x.reshape(-1), bins=bins)) for x in (away, relative)]
        return cls(name, away.max().item(), relative.max().item(), hists[0], hists[1], *dtypes)

    def asdict(self) -> dict[str, Any]:
        """The same in a dictionary of numbers, lists and texts."""
        made = {"name": self.name, "max_abs_diff": self.max_abs_diff, "max_rel_diff": self.max_rel_diff}
        for name in ("abs_diff_hist", "rel_diff_hist"):
            made[name] = [x.tolist() for x in getattr(self, name)]
        return {**made, "expected_dtype": str(self.expected_dtype), "actual_dtype": str(self.actual_dtype)}


def verify_onnx_program(
    onnx_program: Any,
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    compare_intermediates: bool = False,
) -> list[VerificationInfo]:
    """What the model gives beside what the exported program gives, for arguments, or those that it was exported with.

    compare_intermediates: whether the values of all operators are compared. ValueError without an exported program, and without
    arguments where it has none.
    """
    program = onnx_program.exported_program
    if program is None:
        raise ValueError(
            "The ONNX program does not contain an exported_program. Please provide an exported_program to verify the ONNX "
            "program."
        )
    if args is None and kwargs is None:
        if program.example_inputs is None:
            raise ValueError(
                "No example inputs provided and the exported_program does not contain example inputs. Please provide arguments "
                "to verify the ONNX program."
            )
        args, kwargs = program.example_inputs
    args, kwargs = args or (), kwargs or {}
    if compare_intermediates:
        return _between(onnx_program, args, kwargs)
    expected = [x for x in pytree.tree_leaves(program.module()(*args, **kwargs)) if x is not None]
    actual = onnx_program(*args, **kwargs)
    return [
        VerificationInfo.from_tensors(str(value.name), x, y)
        for value, x, y in zip(onnx_program.model.graph.outputs, expected, actual)
    ]


def _between(onnx_program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[VerificationInfo]:
    """The values of all operators that are nodes of the model too."""
    found: dict[str, Any] = {}

    class Kept(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            made = super().run_node(n)
            if n.op == "call_function" and isinstance(made, torch.Tensor):
                found[n.name] = made
            return made

    Kept(onnx_program.exported_program.module(check_guards=False)).run(*pytree.tree_leaves((args, kwargs)))
    known = {v.name for v in onnx_program.model.graph.values()}
    names = [name for name in found if name in known]
    values = onnx_program.compute_values(names, args, kwargs)
    infos = [VerificationInfo.from_tensors(name, found[name], y) for name, y in zip(names, values)]
    for info in infos:
        large = info.max_abs_diff > 0.01 or info.max_rel_diff > 0.1
        _logger.log(
            logging.WARNING if large else logging.INFO,
            "Verification info for node %s: max_abs_diff: %s, max_rel_diff: %s",
            info.name,
            info.max_abs_diff,
            info.max_rel_diff,
        )
    return infos
