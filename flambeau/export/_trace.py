"""torch.export._trace: export by its inner names, with what only PyTorch's own passes ask for. A face of _export."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.export._export import export
from flambeau.export.exported_program import ExportedProgram

__all__ = ["_export"]


def _export(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    pre_dispatch: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """torch.export.export; without `pre_dispatch` composite operators are taken apart and writes are gone."""
    program = export(
        mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
        preserve_module_call_signature=preserve_module_call_signature,
        prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards,
    )  # fmt: skip
    return program if pre_dispatch else program.run_decompositions({})
