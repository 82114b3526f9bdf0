"""torch.export: a module's forward as a graph of aten's operators, with its parameters: `export`, ExportedProgram."""

from flambeau._decomp.table import CustomDecompTable
from flambeau.core.operator import unsupported as _unsupported
from flambeau.export._draft_export import draft_export
from flambeau.export._export import export
from flambeau.export._files import load, save
from flambeau.export.dynamic_shapes import AdditionalInputs, Dim, ShapesCollection, dims
from flambeau.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from flambeau.export.graph_signature import ExportGraphSignature
from flambeau.export.unflatten import FlatArgsAdapter, UnflattenedModule, unflatten
from flambeau.utils._pytree import register_dataclass

__all__ = [
    "AdditionalInputs",
    "CustomDecompTable",
    "Dim",
    "ExportGraphSignature",
    "ExportedProgram",
    "ModuleCallEntry",
    "FlatArgsAdapter",
    "ModuleCallSignature",
    "UnflattenedModule",
    "ShapesCollection",
    "default_decompositions",
    "dims",
    "draft_export",
    "export",
    "load",
    "register_dataclass",
    "save",
    "unflatten",
]


def default_decompositions() -> CustomDecompTable:
    """The table by which run_decompositions takes a program apart unless it is given another: pop what is to stay whole."""
    return CustomDecompTable()


globals().update(_unsupported.all_of("export.", "use export, whose errors say what to change", "Constraint"))
