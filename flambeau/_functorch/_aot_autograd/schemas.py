"""What AOT autograd knows of a function: settings, and what it does to its inputs and where its results lie.

Named as PyTorch names them, as compilers and tests read them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "AOTConfig", "BackwardSignature", "GraphSignature", "InputAliasInfo", "MutationType", "OutputAliasInfo", "OutputType",
    "ViewAndMutationMeta",
]  # fmt: skip


class OutputType(enum.Enum):
    """Where the memory of a result comes from, which decides what the caller is handed."""

    #: Memory of its own, or shared with nothing that has a gradient.
    non_alias = 1
    #: A view of an input: taken of the caller's input.
    alias_of_input = 2
    #: An input itself.
    is_input = 3
    #: A view of a tensor that isn't handed out: the graph returns that tensor as well, and views are taken of it.
    alias_of_intermediate_save_as_output = 4
    #: The same, where an earlier result has made the graph return that tensor.
    alias_of_intermediate = 5
    #: A view of another result.
    alias_of_intermediate_base_is_user_output = 6
    #: The only view of a tensor that isn't handed out: nobody can tell it from one of its own.
    unsafe_view_alias = 7
    #: An input as a custom autograd.Function has handed it on, with a gradient of its own.
    custom_function_view = 8


class MutationType(enum.Enum):
    """How a write to an input gets there."""

    NOT_MUTATED = 1
    MUTATED_IN_GRAPH = 2
    MUTATED_OUT_GRAPH = 3


@dataclass(frozen=True)
class InputAliasInfo:
    """What a function does to an input.

    mutates_data: it writes to it; mutates_metadata: it changes its shape or strides. The writes are hidden from autograd if all
    were made through a detached tensor or without grad mode.
    """

    is_leaf: bool
    mutates_data: bool
    mutates_metadata: bool
    mutations_hidden_from_autograd: bool
    mutations_under_no_grad_or_inference_mode: bool
    mutates_storage_metadata: bool
    mutation_inductor_storage_resize: bool
    requires_grad: bool
    keep_input_mutations: bool

    @property
    def mutation_type(self) -> MutationType:
        """Whether a write is part of the graph, or done by the caller's side of it."""
        if not (self.mutates_data or self.mutates_metadata):
            return MutationType.NOT_MUTATED
        hidden = self.mutations_hidden_from_autograd or self.mutations_under_no_grad_or_inference_mode
        inside = self.keep_input_mutations and not self.mutates_metadata and (not self.requires_grad or hidden)
        return MutationType.MUTATED_IN_GRAPH if inside else MutationType.MUTATED_OUT_GRAPH


@dataclass(frozen=True)
class OutputAliasInfo:
    """What a result is.

    base_idx: of which input, result or returned intermediate it is a view, by output_type. views: how it is taken of that, as
    functional_views.View; None where that isn't known, and its geometry says it. same_as: an earlier result that is this very
    tensor.
    """

    output_type: OutputType
    raw_type: type
    base_idx: int | None
    requires_grad: bool
    views: tuple[Any, ...] | None = None
    same_as: int | None = None
    dynamic_dims: set[int] | None = None


@dataclass(eq=False)
class ViewAndMutationMeta:
    """What a function does to its inputs, and what its results are.

    traced_tangents: fake tensors like the gradients that the backward pass takes. The graph returns, in this order: the
    new values of inputs that are written to outside of it, the results, and the tensors that results are views of.
    """

    input_info: list[InputAliasInfo]
    output_info: list[OutputAliasInfo]
    num_intermediate_bases: int
    keep_input_mutations: bool
    traced_tangents: list[Any]
    grad_enabled_mutation: bool | None = None
    is_train: bool = False
    intermediate_base_requires_grad: list[bool] = field(default_factory=list)
    is_rng_op_functionalized: bool = False
    tokens: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Lists of positions that follow."""
        self.mutated_inp_runtime_indices = [
            i for i, info in enumerate(self.input_info) if info.mutation_type is MutationType.MUTATED_OUT_GRAPH
        ]
        self.mutated_graph_handled_indices = [
            i for i, info in enumerate(self.input_info) if info.mutation_type is MutationType.MUTATED_IN_GRAPH
        ]
        self.aliased_out_indices = [
            i for i, info in enumerate(self.output_info)
            if info.output_type not in (OutputType.non_alias, OutputType.unsafe_view_alias, OutputType.custom_function_view)
        ]  # fmt: skip
        self.num_mutated_inp_runtime_indices = len(self.mutated_inp_runtime_indices)
        self.num_outputs = len(self.output_info)
        self.num_outputs_aliased = len(self.aliased_out_indices)
        self.num_forward_returns = self.num_mutated_inp_runtime_indices + self.num_outputs + self.num_intermediate_bases
        self.num_forward = self.num_forward_returns

    def takes_tangent(self, at: int) -> bool:
        """Whether the backward pass takes a gradient for this one of the graph's returned values."""
        mutated = self.mutated_inp_runtime_indices
        if at < len(mutated):
            info = self.input_info[mutated[at]]
            return info.mutates_data and info.requires_grad and not info.mutations_under_no_grad_or_inference_mode
        at -= len(mutated)
        if at < len(self.output_info):
            out = self.output_info[at]
            return out.requires_grad and at not in self.aliased_out_indices
        return self.intermediate_base_requires_grad[at - len(self.output_info)]


@dataclass
class AOTConfig:
    """How a function is compiled."""

    fw_compiler: Callable[..., Any] | None
    bw_compiler: Callable[..., Any] | None
    partition_fn: Callable[..., Any] | None
    decompositions: dict[Any, Callable[..., Any]] | None
    num_params_buffers: int
    aot_id: int
    keep_inference_input_mutations: bool
    is_export: bool = False
    no_tangents: bool = False
    dynamic_shapes: bool = False
    aot_autograd_arg_pos_to_source: list[Any] | None = None
    static_input_indices: list[int] | None = None
    inference_compiler: Callable[..., Any] | None = None
    enable_log: bool = True
    pre_dispatch: bool = False
    cache_info: Any = None
    ignore_shape_env: bool = False


@dataclass
class BackwardSignature:
    """Names of the results of a joint graph's backward part: which gradients belong to which inputs."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclass
class GraphSignature:
    """Names of the inputs and results of an exported graph, and which tensors of the module they are."""

    parameters: list[str]
    buffers: list[str]
    user_inputs: list[str]
    user_outputs: list[str]
    inputs_to_parameters: dict[str, str]
    inputs_to_buffers: dict[str, str]
    buffers_to_mutate: dict[str, str]
    parameters_to_mutate: dict[str, str]
    user_inputs_to_mutate: dict[str, str]
    in_spec: Any
    out_spec: Any
    backward_signature: BackwardSignature | None
    input_tokens: list[str] = field(default_factory=list)
    output_tokens: list[str] = field(default_factory=list)
