"""torch.export: capturing whole programs is not there yet; the room says what to do."""

from flambeau.core.operator import unsupported as _unsupported

globals().update(
    _unsupported.all_of(
        "export.",
        "run the module itself; its weights travel with torch.save(module.state_dict())",
        "export load save draft_export unflatten register_dataclass dims default_decompositions",
        (
            "ExportedProgram Dim ShapesCollection UnflattenedModule ModuleCallEntry ModuleCallSignature Constraint "
            "ExportGraphSignature"
        ),
    )
)
