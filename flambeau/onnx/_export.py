"""torch.onnx.export: a module as an ONNX model, through torch.export. Stands on `_capture`, `_translate` and `_program`.

Both of PyTorch's forms go the same way here: `dynamo=True` gives an ONNXProgram, `dynamo=False` writes a file and gives None.
"""

from __future__ import annotations

import dataclasses
import io
import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import flambeau as torch
from flambeau.export import ExportedProgram
from flambeau.onnx import _dynamic, _legacy, _older, _optimize, _reporting
from flambeau.onnx._capture import captured, prepared
from flambeau.onnx._constants import ONNX_DEFAULT_OPSET, ONNX_MAX_OPSET, TRANSLATED_OPSET
from flambeau.onnx._custom import call
from flambeau.onnx._exportable_module import ExportableModule
from flambeau.onnx._flags import exporting
from flambeau.onnx._graph import Model
from flambeau.onnx._package import onnx
from flambeau.onnx._program import ONNXProgram
from flambeau.onnx._serialize import renamed
from flambeau.onnx._translate import translate
from flambeau.onnx.errors import OnnxExporterWarning, UnsupportedOperatorError
from flambeau.onnx.modes import OperatorExportTypes, TrainingMode, select_model_mode_for_export

__all__ = ["export"]


def export(
    model: torch.nn.Module | ExportedProgram,
    args: tuple[Any, ...] | torch.Tensor = (),
    f: str | os.PathLike[str] | io.BytesIO | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: dict[str, Any] | tuple[Any, ...] | list[Any] | None = None,
    custom_translation_table: dict[Any, Callable[..., Any]] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Any] | None = None,
    training: TrainingMode = TrainingMode.EVAL,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: bool | Collection[type[torch.nn.Module]] = False,
    autograd_inlining: bool = True,
) -> ONNXProgram | None:
    """A module as an ONNX model: an ONNXProgram, or None with dynamo=False, which writes it to f.

    model: a module, or a program of torch.export.export; args, kwargs: example inputs. f: a path, or a BytesIO, to write to.
    input_names, output_names: what inputs and outputs are called, in their order. opset_version: that of ONNX's operators, 20
    where None. dynamic_shapes: which sizes may change, as torch.export.export has them, or by names; dynamic_axes: the same, by
    the names of inputs and outputs. custom_translation_table: functions that write operators, by torch.ops.*. optimize: whether
    nodes are taken out that aren't needed. verify: whether the model is checked, run and compared. report,
    dump_exported_program: whether a report and the program are written to artifacts_dir. external_data: whether weights have a
    file of their own. export_params: whether the file has the weights; keep_initializers_as_inputs: whether they are inputs too.
    training: the mode of the module. profile=True is refused.

    Raises torch.onnx.errors.UnsupportedOperatorError for an operator that can't be written, with the line that calls it;
    OnnxExporterError where the module can't be captured, and without the package onnx; ValueError for arguments that don't fit.
    """
    onnx()
    args = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    _refuse(operator_export_type, profile)
    asked = _Asked(
        model, args, kwargs, input_names, output_names, dynamic_shapes, dynamic_axes,
        named_weights=keep_initializers_as_inputs or not export_params,
    )  # fmt: skip
    if not dynamo and not isinstance(model, (ExportedProgram, ExportableModule)):
        program = _as_before(asked, f, opset_version, training, do_constant_folding, custom_opsets)
        _write(program, f, export_params, keep_initializers_as_inputs, False)
        return None

    asked = _filled_in(asked)
    status = _reporting.Status(artifacts_dir if report or dump_exported_program else None, report)
    say = _silent if verbose is False else print
    program = _program(
        asked,
        _checked_opset(opset_version),
        _checked_custom(custom_translation_table),
        optimize=optimize,
        say=say,
        caller=call,
        status=status,
        dump=dump_exported_program,
    )
    if verify:
        _reporting.verify(program, status, say)
    status.write(program)
    if f is not None:
        if isinstance(f, io.BytesIO):
            warnings.warn(
                "Saving ONNX model to a BytesIO object is deprecated. Please use a file path instead.",
                DeprecationWarning,
                stacklevel=2,
            )
        _write(program, f, export_params, keep_initializers_as_inputs, external_data)
    return program


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What is to be written: a module or program with its example inputs, names, and the sizes that may change."""

    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None
    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    dynamic_shapes: Any
    dynamic_axes: Mapping[str, Any] | None
    named_weights: bool


def _refuse(operator_export_type: OperatorExportTypes, profile: bool) -> None:
    if operator_export_type != OperatorExportTypes.ONNX:
        raise NotImplementedError(
            "torch.onnx.export(operator_export_type=...) is not implemented in flambeau: leave it out, only ONNX is written"
        )
    if profile:
        raise NotImplementedError(
            "torch.onnx.export(profile=True) is not implemented in flambeau: run the call under cProfile or torch.profiler"
        )


def _as_before(
    asked: _Asked,
    f: Any,
    opset_version: int | None,
    training: TrainingMode,
    do_constant_folding: bool,
    custom_opsets: Mapping[str, int] | None,
) -> ONNXProgram:
    """The model by the rules of dynamo=False."""
    warnings.warn(_legacy.WARNING, DeprecationWarning, stacklevel=3)
    if asked.dynamic_shapes:
        raise ValueError("The exporter only supports dynamic shapes through parameter dynamic_axes when dynamo=False.")
    if f is None:
        raise ValueError("torch.onnx.export(dynamo=False) writes a file: give its path, or a BytesIO, as f")
    version = _legacy.checked_opset(opset_version)
    with select_model_mode_for_export(asked.model, training):
        return _program(
            asked,
            version,
            _legacy.symbolics(version),
            optimize=do_constant_folding,
            say=_silent,
            caller=_legacy.caller(version, custom_opsets),
            dynamo=False,
        )


def _filled_in(asked: _Asked) -> _Asked:
    """A model that brings its example inputs gives what wasn't given. Warns of one in training mode."""
    model = asked.model
    if isinstance(model, torch.nn.Module) and model.training:
        warnings.warn(
            "Exporting a model while it is in training mode. Please ensure that this is intended, as it may lead to different "
            "behavior during inference. Calling model.eval() before export is recommended.",
            stacklevel=3,
        )
    if not isinstance(model, ExportableModule) or asked.args or asked.kwargs:
        return asked
    args, kwargs = model.example_arguments()
    return dataclasses.replace(
        asked,
        args=args,
        kwargs=kwargs,
        input_names=model.input_names() if asked.input_names is None else asked.input_names,
        output_names=model.output_names() if asked.output_names is None else asked.output_names,
        dynamic_shapes=model.dynamic_shapes() if asked.dynamic_shapes is None else asked.dynamic_shapes,
    )


def _checked_custom(table: dict[Any, Callable[..., Any]] | None) -> dict[Any, Callable[..., Any]]:
    for function in (table or {}).values():
        if isinstance(function, Sequence):
            raise TypeError("The value in custom_translation_table should be a single callable, not a sequence")
    return table or {}


def _checked_opset(asked: int | None) -> int:
    """A version that can be written: the one asked for, or the nearest sensible one with a warning."""
    version = ONNX_DEFAULT_OPSET if asked is None else asked
    if 1 <= version <= ONNX_MAX_OPSET:
        return version
    warnings.warn(
        f"Models are written in versions up to {ONNX_MAX_OPSET} of the operator set; {version} was asked for",
        OnnxExporterWarning,
        stacklevel=3,
    )
    return ONNX_MAX_OPSET if version > ONNX_MAX_OPSET else ONNX_DEFAULT_OPSET


def _lower(model: Model, opset: int, must: bool) -> None:
    """Have a model be of an older version; where it can't, an error if it must, else a warning."""
    try:
        _older.rewrite(model, opset)
    except UnsupportedOperatorError as error:
        if must:
            raise
        warnings.warn(
            f"The model stays in version {TRANSLATED_OPSET} of the operator set: {error}", OnnxExporterWarning, stacklevel=4
        )


def _silent(*text: Any) -> None:
    """Say nothing."""


def _write(program: ONNXProgram, f: Any, export_params: bool, as_inputs: bool, external_data: bool) -> None:
    program.save(
        f,
        include_initializers=export_params,
        keep_initializers_as_inputs=as_inputs,
        external_data=external_data and not hasattr(f, "write"),
    )


def _program(
    asked: _Asked,
    opset: int,
    custom: Mapping[Any, Callable[..., Any]],
    *,
    optimize: bool,
    say: Callable[..., None],
    caller: Callable[..., Any],
    dynamo: bool = True,
    status: Any = None,
    dump: bool = False,
) -> ONNXProgram:
    """The model of a module, with its names."""
    status = _reporting.Status(None, False) if status is None else status
    model, args, kwargs, dynamic_shapes = asked.model, asked.args, asked.kwargs, asked.dynamic_shapes
    if not isinstance(model, ExportedProgram):
        if not kwargs and args and isinstance(args[-1], dict):
            args, kwargs = args[:-1], args[-1]
        if dynamic_shapes is None and asked.dynamic_axes:
            dynamic_shapes, args, kwargs = _dynamic.from_axes(
                model, args, kwargs, asked.dynamic_axes, asked.input_names, asked.output_names
            )
    with exporting():
        with status.step("torch_export_non_strict", f"Obtain model graph for `{_shown(model)}` with "
                         "`torch.export.export(..., strict=False)`", say):  # fmt: skip
            program = captured(model, args, kwargs, _dynamic.without_names(dynamic_shapes))
        if dump:
            status.dump(program)
        with status.step("decomposition", "Run decompositions", say):
            functional = prepared(program, custom)
        with status.step("onnx_translation", "Translate the graph into ONNX", say):
            made = translate(functional, opset, custom, caller)
    if optimize:
        say("[torch.onnx] Optimize the ONNX graph...")
        _optimize.optimize(made, parameters=not asked.named_weights)
        say("[torch.onnx] Optimize the ONNX graph... ✅")
    else:
        _optimize.without_unused(made.graph)
    if opset < TRANSLATED_OPSET:
        _lower(made, opset, must=not dynamo)
    program = ONNXProgram(made, functional)
    if dynamic_shapes:
        program.rename_axes(_dynamic.axis_names(made.graph.inputs, dynamic_shapes))
    renamed(made.graph, asked.input_names, asked.output_names)
    if asked.dynamic_axes:
        _dynamic.named_output_axes(made.graph, asked.dynamic_axes)
    return program


def _shown(model: Any) -> str:
    text = repr(model)
    first, *rest = text.split("\n")
    return f"{first}...])" if rest and first.endswith(("(", "[")) else first
