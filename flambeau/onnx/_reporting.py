"""What torch.onnx.export says while it works, and the report that it writes. Used by `_export`."""

from __future__ import annotations

import contextlib
import datetime
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flambeau.onnx._package import onnx
from flambeau.onnx.errors import OnnxExporterError

__all__ = ["Status", "verify"]

_logger = logging.getLogger("flambeau.onnx")
_STEPS = {
    "torch_export_non_strict": "Obtain model graph with `torch.export.export(..., strict=False)`",
    "torch_export_strict": "Obtain model graph with `torch.export.export(..., strict=True)`",
    "torch_export_draft_export": "Obtain model graph with `torch.export.draft_export`",
    "decomposition": "Decompose operators for ONNX compatibility",
    "onnx_translation": "Translate the graph into ONNX",
    "onnx_checker": "Run `onnx.checker` on the ONNX model",
    "onnx_runtime": "Execute the model with ONNX Runtime",
    "output_accuracy": "Validate model output accuracy",
}


class Status:
    """How far an export came.

    folder: where reports are written; report: whether one is. done: by step, whether it succeeded.
    """

    def __init__(self, folder: Any, report: bool) -> None:
        self.folder = None if folder is None else Path(folder)
        self.report = report
        self.done: dict[str, bool] = {}
        self.errors: list[str] = []
        self.comparisons: list[Any] = []
        self.started = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
        self.program: Any = None

    @contextlib.contextmanager
    def step(self, name: str, text: str, say: Callable[..., None]) -> Iterator[None]:
        """A step, said and noted; a report is written if it fails."""
        say(f"[torch.onnx] {text}...")
        try:
            yield
        except Exception as error:
            say(f"[torch.onnx] {text}... ❌")
            self.done[name] = False
            self.errors.append("".join(traceback.format_exception(error)))
            path = self.write(None)
            if path is not None and isinstance(error, OnnxExporterError):
                error.add_note(f"Error report has been saved to '{path}'.")
            raise
        self.done[name] = True
        say(f"[torch.onnx] {text}... ✅")

    def dump(self, program: Any) -> None:
        """Write the exported program beside the report."""
        import flambeau as torch

        self.program = program
        torch.export.save(program, self._path("onnx_export", ".pt2"))

    def _path(self, stem: str, suffix: str) -> Path:
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{stem}_{self.started}{suffix}"

    def write(self, program: Any) -> Path | None:
        """Write the report, if one is wanted: the steps, errors, graph, model, and the operators."""
        if not self.report:
            return None
        marks = {None: "⚪", True: "✅", False: "❌"}
        steps = "\n".join(f"{marks[self.done.get(name)]} {text}" for name, text in _STEPS.items())
        failed = program is None
        parts = [f"# PyTorch ONNX Conversion {'Error ' * failed}Report\n\n```\n{steps}\n```\n"]
        parts.append("## Error messages\n\n```pytb\n" + ("\n\n".join(self.errors) or "No errors") + "\n```\n")
        if not failed:
            exported = program.exported_program
            counts = Counter(str(n.target) for n in exported.graph.nodes if n.op == "call_function")
            listed = "\n".join(f"| `{name}` | {count} |" for name, count in sorted(counts.items()))
            parts.append(f"## Exported program\n\n```python\n{exported}\n```\n")
            parts.append(f"## ONNX model\n\n```python\n{program.model}\n```\n")
            parts.append(f"## Analysis\n\n| operator | nodes |\n| --- | --- |\n{listed}\n")
        if self.comparisons:
            rows = "\n".join(
                f"`{i.name}`: `max_abs_diff={i.max_abs_diff:e}`, `max_rel_diff={i.max_rel_diff:e}`" for i in self.comparisons
            )
            parts.append(f"## Verification results\n\n{rows}\n")
        ended = "success" if not failed and all(self.done.values()) else "failure"
        path = self._path(f"onnx_export_{ended}", ".md")
        path.write_text("\n".join(parts), encoding="utf-8")
        return path


def verify(program: Any, status: Status, say: Callable[..., None]) -> None:
    """Check a model, run it and compare what it gives with the module's; warnings of torch.onnx's logger say what failed."""
    from flambeau.onnx.verification import verify_onnx_program

    try:
        with status.step("onnx_checker", "Check the ONNX model", say):
            onnx().checker.check_model(program.model_proto, full_check=True)
    except Exception as error:  # the model is given all the same, as PyTorch does
        _logger.warning("Conversion successful but the ONNX model fails ONNX checker: %s", error)
        return
    try:
        with status.step("onnx_runtime", "Execute the model with ONNX Runtime", say):
            status.comparisons = verify_onnx_program(program)
    except Exception as error:
        _logger.warning("Conversion successful but the ONNX model does not run in ONNX Runtime: %s", error)
        return
    say("[torch.onnx] Verify output accuracy...")
    for info in status.comparisons:
        for kind, difference, limit in (("absolute", info.max_abs_diff, 5e-3), ("relative", info.max_rel_diff, 1e-1)):
            if difference >= limit:
                _logger.warning("Output '%s' has a large %s difference of %f. ", info.name, kind, difference)
                status.done["output_accuracy"] = False
    status.done.setdefault("output_accuracy", True)
    say(f"[torch.onnx] Verify output accuracy... {'✅' if status.done['output_accuracy'] else '❌'}")
    program.release()
