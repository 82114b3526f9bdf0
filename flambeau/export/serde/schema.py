"""The classes of serialized exported programs, by the names and fields that PyTorch's format has (schema version 8.20).

An object is written as a JSON object of its fields; one of a union as an object of its one field. Stands on schema_arguments;
read and written by text. Its public name is torch._export.serde.schema.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from flambeau.export.serde.schema_arguments import (  # noqa: F401 - the format's classes are reached through this module
    Argument,
    ArgumentKind,
    ComplexValue,
    CustomObjArgument,
    Device,
    GraphArgument,
    Layout,
    MemoryFormat,
    NamedArgument,
    OptionalTensorArgument,
    ScalarType,
    SymBool,
    SymBoolArgument,
    SymExpr,
    SymExprHint,
    SymFloat,
    SymFloatArgument,
    SymInt,
    SymIntArgument,
    TensorArgument,
    TensorMeta,
    TokenArgument,
)
from flambeau.export.serde.union import _Union, _union_dataclass

SCHEMA_VERSION = (8, 20)
TREESPEC_VERSION = 1


# ---------------------------------------------------------------- graphs


@dataclass
class Node:
    """A call of an operator."""

    target: str
    inputs: list[NamedArgument]
    outputs: list[Argument]
    metadata: dict[str, str]
    is_hop_single_tensor_return: bool | None = None
    name: str | None = None


@dataclass
class Graph:
    """Inputs, calls and outputs, and what every value in between is."""

    inputs: list[Argument]
    outputs: list[Argument]
    nodes: list[Node]
    tensor_values: dict[str, TensorMeta]
    sym_int_values: dict[str, SymInt]
    sym_bool_values: dict[str, SymBool]
    is_single_tensor_return: bool = False
    custom_obj_values: dict[str, CustomObjArgument] = dataclasses.field(default_factory=dict)
    sym_float_values: dict[str, SymFloat] = dataclasses.field(default_factory=dict)


# ---------------------------------------------------------------- signatures


@dataclass
class UserInputSpec:
    """An input that the caller gives."""

    arg: Argument


@_union_dataclass
class ConstantValue(_Union):
    """The value of an input that is no tensor."""

    as_none: bool
    as_int: int
    as_float: float
    as_string: str
    as_bool: bool


@dataclass
class InputToConstantInputSpec:
    """An input whose value is part of the program."""

    name: str
    value: ConstantValue


@dataclass
class InputToParameterSpec:
    """An input that is a parameter."""

    arg: TensorArgument
    parameter_name: str


@dataclass
class InputToBufferSpec:
    """An input that is a buffer."""

    arg: TensorArgument
    buffer_name: str
    persistent: bool


@dataclass
class InputToTensorConstantSpec:
    """An input that is a tensor constant."""

    arg: TensorArgument
    tensor_constant_name: str


@dataclass
class InputToCustomObjSpec:
    """An input that is an object of a class of a program's own."""

    arg: CustomObjArgument
    custom_obj_name: str


@dataclass
class InputTokenSpec:
    """An input that is a token."""

    arg: TokenArgument


@_union_dataclass
class InputSpec(_Union):
    """What an input is."""

    user_input: UserInputSpec
    parameter: InputToParameterSpec
    buffer: InputToBufferSpec
    tensor_constant: InputToTensorConstantSpec
    custom_obj: InputToCustomObjSpec
    token: InputTokenSpec
    constant_input: InputToConstantInputSpec


@dataclass
class UserOutputSpec:
    """An output that the caller gets."""

    arg: Argument


@dataclass
class LossOutputSpec:
    """An output that is a loss."""

    arg: TensorArgument


@dataclass
class BufferMutationSpec:
    """An output that is a buffer's new value."""

    arg: TensorArgument
    buffer_name: str


@dataclass
class ParameterMutationSpec:
    """An output that is a parameter's new value."""

    arg: TensorArgument
    parameter_name: str


@dataclass
class GradientToParameterSpec:
    """An output that is a parameter's gradient."""

    arg: TensorArgument
    parameter_name: str


@dataclass
class GradientToUserInputSpec:
    """An output that is an input's gradient."""

    arg: TensorArgument
    user_input_name: str


@dataclass
class UserInputMutationSpec:
    """An output that is an input's new value."""

    arg: TensorArgument
    user_input_name: str


@dataclass
class OutputTokenSpec:
    """An output that is a token."""

    arg: TokenArgument


@_union_dataclass
class OutputSpec(_Union):
    """What an output is."""

    user_output: UserOutputSpec
    loss_output: LossOutputSpec
    buffer_mutation: BufferMutationSpec
    gradient_to_parameter: GradientToParameterSpec
    gradient_to_user_input: GradientToUserInputSpec
    user_input_mutation: UserInputMutationSpec
    token: OutputTokenSpec
    parameter_mutation: ParameterMutationSpec


@dataclass
class GraphSignature:
    """What the inputs and outputs of a graph are."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]


# ---------------------------------------------------------------- programs


@dataclass
class RangeConstraint:
    """The bounds of a symbolic size."""

    min_val: int | None
    max_val: int | None


@dataclass
class ModuleCallSignature:
    """How a module is called; in_spec and out_spec are pytrees as treespec_dumps writes them."""

    inputs: list[Argument]
    outputs: list[Argument]
    in_spec: str
    out_spec: str
    forward_arg_names: list[str] | None = None


@dataclass
class ModuleCallEntry:
    """A module of the program, by its name."""

    fqn: str
    signature: ModuleCallSignature | None = None


@dataclass
class NamedTupleDef:
    """The fields of a named tuple."""

    field_names: list[str]


@dataclass
class GraphModule:
    """A graph, its signature, and the modules that were called."""

    graph: Graph
    signature: GraphSignature
    module_call_graph: list[ModuleCallEntry]
    metadata: dict[str, str] = dataclasses.field(default_factory=dict)
    treespec_namedtuple_fields: dict[str, NamedTupleDef] = dataclasses.field(default_factory=dict)


@dataclass
class SchemaVersion:
    """The version of the format."""

    major: int
    minor: int


@dataclass
class ExportedProgram:
    """A whole program but its weights."""

    graph_module: GraphModule
    opset_version: dict[str, int]
    range_constraints: dict[str, RangeConstraint]
    schema_version: SchemaVersion
    verifiers: list[str] = dataclasses.field(default_factory=list)
    torch_version: str = "<=2.4"
    guards_code: list[str] = dataclasses.field(default_factory=list)


# ---------------------------------------------------------------- weights in an archive


@dataclass
class PayloadMeta:
    """Where a weight or constant lies in an archive; use_pickle: as torch.save writes it, not as bytes."""

    path_name: str
    is_param: bool
    use_pickle: bool
    tensor_meta: TensorMeta | None


@dataclass
class PayloadConfig:
    """The weights or constants of a program, by name."""

    config: dict[str, PayloadMeta]
