"""torch.export: a module's forward as a graph of aten's operators, with its parameters: `export`, ExportedProgram."""

from flambeau.core.operator import unsupported as _unsupported
from flambeau.export._export import export
from flambeau.export._files import load, save
from flambeau.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from flambeau.export.graph_signature import ExportGraphSignature
from flambeau.utils._pytree import register_dataclass

__all__ = [
    "ExportGraphSignature", "ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "export", "load", "register_dataclass",
    "save",
]  # fmt: skip

globals().update(
    _unsupported.all_of(
        "export.",
        "sizes are numbers; export with dynamic_shapes=None, once for each size",
        "dims draft_export",
        "Dim ShapesCollection AdditionalInputs Constraint",
    )
)
globals().update(
    _unsupported.all_of(
        "export.",
        "use export(...).module()",
        "unflatten default_decompositions",
        "UnflattenedModule",
    )
)
