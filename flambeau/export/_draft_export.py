"""torch.export.draft_export: export that always gives a program, and a report of what it took for granted.

Stands on `_export`, in whose fake tensor mode tensors with data are propagated meanwhile, and on `_draft_report`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._dynamo.exc import UserError, UserErrorType
from flambeau.export._draft_report import CaptureStructuredTrace, DraftExportReport, FailureReport, FailureType
from flambeau.export._export import export as _export
from flambeau.export.dims import Dim, _DimHint, _DimHintType
from flambeau.export.exported_program import ExportedProgram

__all__ = ["CaptureStructuredTrace", "DraftExportReport", "FailureReport", "FailureType", "draft_export"]

log = logging.getLogger(__name__)


def draft_export(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    preserve_module_call_signature: tuple[str, ...] = (),
    strict: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """torch.export.export, but it goes on where that one refuses, and says where: `_report` of the program, a DraftExportReport.

    The module runs with values of the example beside. Where a value decides, it goes as the example does, and a run checks that
    it may; an operator without a fake, or with a wrong one, has results of the ranks and dtypes of the example's; dimensions of
    which the module needs more than dynamic_shapes says have the hint Dim.AUTO. Arguments and errors are those of export.
    """
    given: dict[str, Any] = {
        "preserve_module_call_signature": preserve_module_call_signature,
        "strict": strict,
        "prefer_deferred_runtime_asserts_over_guards": prefer_deferred_runtime_asserts_over_guards,
    }
    named = dict(kwargs or {})
    if hasattr(dynamic_shapes, "dynamic_shapes"):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, named)
    hints = None
    with (
        CaptureStructuredTrace() as capture,
        torch._functorch.config.patch(  # type: ignore[attr-defined]
            fake_tensor_propagate_real_tensors=True, generate_fake_kernels_from_real_mismatches=True
        ),
    ):
        try:
            program = _export(mod, args, named, dynamic_shapes=dynamic_shapes, **given)
        except UserError as error:
            if error.error_type != UserErrorType.CONSTRAINT_VIOLATION:
                raise
            hints = pytree.tree_map(_hint, dynamic_shapes)
            program = _export(mod, args, named, dynamic_shapes=hints, **given)
    failures = [f for f in capture.failures if f.failure_type != FailureType.GUARD_ADDED or hints is not None]
    for failure in failures:
        if failure.failure_type == FailureType.GUARD_ADDED:
            failure.data["new_dynamic_shapes"] = hints
    report = DraftExportReport(failures, capture.str_to_filename, capture.expressions_created, capture.op_profiles)
    _check_arguments(program, report.op_profiles)
    program._report = report
    if not report.successful():
        log.warning(
            "%d issue(s) found during export, and it was not able to soundly produce a graph; print(ep._report) shows them",
            len(failures),
        )
    return program


def _hint(said: Any) -> Any:
    """A dimension that the module may find more of: Dim.AUTO within the range that was said."""
    return _DimHint(_DimHintType.AUTO, min=said.min, max=said.max) if isinstance(said, Dim) else said


def _check_arguments(program: ExportedProgram, names: Collection[str]) -> None:
    """Have runs check the arguments of these operators, whose results were seen for such dtypes and devices only."""
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in list(module.graph.nodes):
            if node.op == "call_function" and str(node.target) in names:
                with module.graph.inserting_before(node):
                    for given in node.all_input_nodes:
                        _check_metadata(module.graph, given, node)
        module.recompile()


def _check_metadata(graph: torch.fx.Graph, given: torch.fx.Node, at: torch.fx.Node) -> None:
    value = given.meta.get("val")
    if isinstance(value, torch.Tensor):
        expected = {"dtype": value.dtype, "device": value.device, "layout": value.layout}
        made = graph.call_function(torch.ops.aten._assert_tensor_metadata.default, (given,), expected)
        made.meta = {key: at.meta[key] for key in ("stack_trace", "nn_module_stack") if key in at.meta}
