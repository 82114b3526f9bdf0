"""torch.onnx.ONNXProgram: a model that was exported, to save, run and change. Made by `_export`; stands on `_serialize`."""

from __future__ import annotations

import os
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.onnx import _optimize
from flambeau.onnx._graph import Model, SymbolicDim, Value
from flambeau.onnx._package import onnx, onnxruntime
from flambeau.onnx._serialize import named, save, to_proto
from flambeau.onnx._types import as_array, as_tensor
from flambeau.onnx.errors import OnnxExporterWarning

__all__ = ["ONNXProgram"]

_LARGE = 1536 << 20  # bytes of weights, from which on they need a file of their own


def _session(model: str | bytes) -> Any:
    """A session of ONNX Runtime."""
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    have = runtime.get_available_providers()
    providers = [p for p in ("CUDAExecutionProvider", "CPUExecutionProvider") if p in have]
    return runtime.InferenceSession(model, providers=providers, sess_options=options)


class ONNXProgram:
    """An ONNX model, made by torch.onnx.export.

    model: the model in memory, with `model.graph`'s inputs, outputs, initializers and nodes; exported_program: what it was made
    of. Calling it runs it in ONNX Runtime on tensors and gives a tuple of tensors.
    """

    __module__ = "torch.onnx"

    def __init__(self, model: Model, exported_program: torch.export.ExportedProgram | None) -> None:
        self.model = model
        self.exported_program = exported_program
        self._inference_session: Any = None
        self._tempdir: tempfile.TemporaryDirectory[str] | None = None

    def __repr__(self) -> str:
        model, program = (textwrap.indent(str(x), " " * 8) for x in (self.model, self.exported_program))
        return f"ONNXProgram(\n    model=\n{model}\n    ,\n    exported_program=\n{program}\n)\n"

    # ---------------------------------------------------------------- running it

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """What ONNX Runtime makes of the module's arguments. OnnxExporterError where it isn't installed."""
        if self._inference_session is None:
            self.initialize_inference_session()
        made = self._inference_session.run(None, self._given(args, kwargs))
        return tuple(as_tensor(x) for x in made)

    def call_reference(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """What onnx's reference evaluator makes of the module's arguments."""
        onnx()
        from onnx.reference import ReferenceEvaluator

        return tuple(as_tensor(x) for x in ReferenceEvaluator(self.model_proto).run(None, self._given(args, kwargs)))

    def _given(self, args: Any, kwargs: Any) -> dict[str, np.ndarray]:
        leaves = [x for x in pytree.tree_leaves((args, kwargs)) if x is not None]
        leaves = [x for x in leaves if isinstance(x, torch.Tensor)] if len(leaves) > len(self.model.graph.inputs) else leaves
        return {v.name: as_array(torch.as_tensor(x)) for v, x in zip(self.model.graph.inputs, leaves)}  # type: ignore[misc]

    def compute_values(self, value_names: Sequence[str], args: Any = (), kwargs: Any = None) -> tuple[torch.Tensor, ...]:
        """The values of given names, for the module's arguments. ValueError for a name that isn't in the model."""
        self.release()
        graph = self.model.graph
        named(graph)
        known = {v.name: v for v in graph.values()}
        for name in value_names:
            if name not in known:
                raise ValueError(f"Value '{name}' not found in the model. Please provide a valid value name.")
        outputs = graph.outputs
        graph.outputs = [known[name] for name in value_names]
        try:
            return self(*args, **(kwargs or {}))
        finally:
            graph.outputs = outputs
            self.release()

    def initialize_inference_session(self, initializer: Callable[[str | bytes], Any] = _session) -> None:
        """Make the session that calls use: initializer gets the serialized model, or the path of one with large weights."""
        if self._weights() > _LARGE:
            self._tempdir = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            path = os.path.join(self._tempdir.name, "model.onnx")
            self.save(path, external_data=True)
            self._inference_session = initializer(path)
        else:
            self._inference_session = initializer(self.model_proto.SerializeToString())

    def release(self) -> None:
        """Let go of the session."""
        self._inference_session = None
        if self._tempdir is not None:
            self._tempdir.cleanup()
            self._tempdir = None

    def _weights(self) -> int:
        return sum(v.const_value.nbytes for v in self.model.graph.initializers.values() if v.const_value is not None)

    # ---------------------------------------------------------------- as a file

    @property
    def model_proto(self) -> Any:
        """The model as onnx's ModelProto."""
        return to_proto(self.model)

    def save(
        self,
        destination: str | os.PathLike[str],
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the model to a path.

        include_initializers: whether with its weights; keep_initializers_as_inputs: whether these are inputs too, so that a
        caller may give others; external_data: whether weights are written to `<path>.data` beside it, as large ones always are.
        """
        large = include_initializers and self._weights() > _LARGE
        how = {"include_initializers": include_initializers, "keep_initializers_as_inputs": keep_initializers_as_inputs}
        save(self.model, destination, bool(external_data) or large, **how)

    # ---------------------------------------------------------------- changing it

    def optimize(self) -> None:
        """Take out nodes that another one makes needless."""
        _optimize.optimize(self.model)

    def apply_weights(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """Give the model other weights; OnnxExporterWarning for names that aren't in it."""
        for name, tensor in state_dict.items():
            value = self.model.graph.initializers.get(name)
            if value is None:
                warnings.warn(f"Weight '{name}' not found in the model. Skipped applying.", OnnxExporterWarning, stacklevel=2)
            else:
                value.const_value = as_array(tensor)

    def rename_axes(self, rename_mapping: Mapping[str | SymbolicDim, str]) -> None:
        """Give sizes of inputs and outputs other names; keys are names, or sizes such as `model.graph.inputs[0].shape[0]`."""
        names = {k.value if isinstance(k, SymbolicDim) else k: new for k, new in rename_mapping.items()}
        rename(self.model.graph.values(), names)


def rename(values: Any, names: Mapping[str | None, str]) -> None:
    """Give sizes other names, also where they are part of an expression such as 2*s0."""
    import re

    pattern = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in names if name) or r"(?!)")
    changed: set[int] = set()
    value: Value
    for value in values:
        if value.shape is None or id(value) in changed:
            continue
        changed.add(id(value))
        value.shape = [
            SymbolicDim(pattern.sub(lambda m: names[m.group()], n.value)) if isinstance(n, SymbolicDim) and n.value else n
            for n in value.shape
        ]
