"""Signatures of exported graphs as the classes of the format, and back.

Stands on schema and graph_signature; used by reading and writing.
"""

from __future__ import annotations

from typing import Any

from flambeau.export import graph_signature as own
from flambeau.export.graph_signature import InputKind, OutputKind
from flambeau.export.serde import schema
from flambeau.export.serde.schema import Argument
from flambeau.export.serde.text import SerializeError

__all__ = ["argument_data", "argument_of", "constant_data", "signature_data", "signature_of"]

# By field of the union: the kind, and the field that names what the input is, or the output is written to.
_INPUTS = {
    "parameter": (InputKind.PARAMETER, "parameter_name"),
    "buffer": (InputKind.BUFFER, "buffer_name"),
    "tensor_constant": (InputKind.CONSTANT_TENSOR, "tensor_constant_name"),
    "custom_obj": (InputKind.CUSTOM_OBJ, "custom_obj_name"),
    "token": (InputKind.TOKEN, None),
}
_OUTPUTS = {
    "loss_output": (OutputKind.LOSS_OUTPUT, None),
    "buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
    "parameter_mutation": (OutputKind.PARAMETER_MUTATION, "parameter_name"),
    "gradient_to_parameter": (OutputKind.GRADIENT_TO_PARAMETER, "parameter_name"),
    "gradient_to_user_input": (OutputKind.GRADIENT_TO_USER_INPUT, "user_input_name"),
    "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name"),
    "token": (OutputKind.TOKEN, None),
}
_SPECS: dict[str, type] = {
    "parameter": schema.InputToParameterSpec,
    "buffer": schema.InputToBufferSpec,
    "tensor_constant": schema.InputToTensorConstantSpec,
    "custom_obj": schema.InputToCustomObjSpec,
    "loss_output": schema.LossOutputSpec,
    "buffer_mutation": schema.BufferMutationSpec,
    "parameter_mutation": schema.ParameterMutationSpec,
    "gradient_to_parameter": schema.GradientToParameterSpec,
    "gradient_to_user_input": schema.GradientToUserInputSpec,
    "user_input_mutation": schema.UserInputMutationSpec,
}
_CONSTANTS: dict[type, str] = {int: "as_int", float: "as_float", str: "as_string", bool: "as_bool", type(None): "as_none"}


# ---------------------------------------------------------------- reading


def argument_of(argument: Argument) -> Any:
    """What an argument of a signature is. SerializeError for a kind that signatures don't have."""
    if argument.type == "as_tensor":
        return own.TensorArgument(argument.value.name)
    for field, cls in (
        ("as_sym_int", own.SymIntArgument),
        ("as_sym_float", own.SymFloatArgument),
        ("as_sym_bool", own.SymBoolArgument),
    ):
        if argument.type == field and argument.value.type == "as_name":
            return cls(argument.value.as_name)
    if argument.type in _CONSTANTS.values():
        return own.ConstantArgument("", None if argument.type == "as_none" else argument.value)
    raise SerializeError(f"a signature can't have an argument of kind {argument.type}")


def _argument(given: Any) -> Any:
    """The argument of an input or output that is named by itself."""
    if isinstance(given, schema.TokenArgument):
        return own.TokenArgument(given.name)
    if isinstance(given, schema.CustomObjArgument):
        return own.CustomObjArgument(given.name, given.class_fqn)
    return own.TensorArgument(given.name)


def _input_of(spec: schema.InputSpec) -> own.InputSpec:
    given = spec.value
    if spec.type == "user_input":
        return own.InputSpec(InputKind.USER_INPUT, argument_of(given.arg), None)
    if spec.type == "constant_input":
        value = None if given.value.type == "as_none" else given.value.value
        return own.InputSpec(InputKind.USER_INPUT, own.ConstantArgument(given.name, value), None)
    kind, target = _INPUTS[spec.type]
    persistent = given.persistent if kind == InputKind.BUFFER else None
    return own.InputSpec(kind, _argument(given.arg), None if target is None else getattr(given, target), persistent)


def _output_of(spec: schema.OutputSpec) -> own.OutputSpec:
    given = spec.value
    if spec.type == "user_output":
        return own.OutputSpec(OutputKind.USER_OUTPUT, argument_of(given.arg), None)
    kind, target = _OUTPUTS[spec.type]
    return own.OutputSpec(kind, _argument(given.arg), None if target is None else getattr(given, target))


def signature_of(signature: schema.GraphSignature) -> own.ExportGraphSignature:
    """The signature that the format's is."""
    return own.ExportGraphSignature(list(map(_input_of, signature.input_specs)), list(map(_output_of, signature.output_specs)))


# ---------------------------------------------------------------- writing


def constant_data(cls: Any, value: Any) -> Any:
    """A constant as an object of a union, Argument or ConstantValue. SerializeError for a value that it doesn't have."""
    field = _CONSTANTS.get(type(value))
    if field is None:
        raise SerializeError(f"Unhandled constant input {value!r} to serialize")
    return cls.create(**{field: True if value is None else value})


def argument_data(argument: Any) -> Argument:
    """An argument of a signature, in the format."""
    if isinstance(argument, own.TensorArgument):
        return Argument.create(as_tensor=schema.TensorArgument(argument.name))
    if isinstance(argument, own.SymIntArgument):
        return Argument.create(as_sym_int=schema.SymIntArgument.create(as_name=argument.name))
    if isinstance(argument, own.SymFloatArgument):
        return Argument.create(as_sym_float=schema.SymFloatArgument.create(as_name=argument.name))
    if isinstance(argument, own.SymBoolArgument):
        return Argument.create(as_sym_bool=schema.SymBoolArgument.create(as_name=argument.name))
    if isinstance(argument, own.ConstantArgument):
        return constant_data(Argument, argument.value)
    raise SerializeError(f"an argument of kind {type(argument).__name__} can't be written")


def _argument_data(given: Any) -> Any:
    if isinstance(given, own.TokenArgument):
        return schema.TokenArgument(given.name)
    if isinstance(given, own.CustomObjArgument):
        return schema.CustomObjArgument(given.name, given.class_fqn)
    return schema.TensorArgument(given.name)


def _spec_data(table: Any, spec: Any) -> tuple[str, Any]:
    """The field of the union for an input or output that isn't the caller's, and what it holds."""
    field, target = next((name, target) for name, (kind, target) in table.items() if kind == spec.kind)
    if field == "token":
        return field, (schema.InputTokenSpec if table is _INPUTS else schema.OutputTokenSpec)(schema.TokenArgument(spec.arg.name))
    given = {"arg": _argument_data(spec.arg)}
    if target is not None:
        given[target] = spec.target
    if field == "buffer":
        given["persistent"] = spec.persistent
    return field, _SPECS[field](**given)


def _input_data(spec: own.InputSpec) -> schema.InputSpec:
    if spec.kind != InputKind.USER_INPUT:
        field, value = _spec_data(_INPUTS, spec)
        return schema.InputSpec.create(**{field: value})
    if isinstance(spec.arg, own.ConstantArgument):
        value = constant_data(schema.ConstantValue, spec.arg.value)
        return schema.InputSpec.create(constant_input=schema.InputToConstantInputSpec(spec.arg.name, value))
    return schema.InputSpec.create(user_input=schema.UserInputSpec(argument_data(spec.arg)))


def _output_data(spec: own.OutputSpec) -> schema.OutputSpec:
    if spec.kind != OutputKind.USER_OUTPUT:
        field, value = _spec_data(_OUTPUTS, spec)
        return schema.OutputSpec.create(**{field: value})
    return schema.OutputSpec.create(user_output=schema.UserOutputSpec(argument_data(spec.arg)))


def signature_data(signature: own.ExportGraphSignature) -> schema.GraphSignature:
    """A signature, in the format."""
    return schema.GraphSignature(list(map(_input_data, signature.input_specs)), list(map(_output_data, signature.output_specs)))
