"""torch.export.exported_program: ExportedProgram, a graph with its state. Stands on fx and graph_signature; made by `_export`."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.base.symbolic.expressions import Expr
from flambeau.export._unlift import in_containers, unlifted
from flambeau.export._verifier import TrainingIRVerifier, Verifier
from flambeau.export.graph_signature import (  # noqa: F401  # which programs import from here, too
    ConstantArgument,
    CustomObjArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
    TokenArgument,
)
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature"]


@dataclasses.dataclass
class ModuleCallSignature:
    """The inputs and outputs of a module's call, and the containers that they lie in."""

    inputs: list[Any]
    outputs: list[Any]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    forward_arg_names: list[str] | None = None


@dataclasses.dataclass
class ModuleCallEntry:
    """A module of the exported program, by its name."""

    fqn: str
    signature: ModuleCallSignature | None = None


@dataclasses.dataclass
class CallSpec:
    """The containers of the inputs and of the outputs."""

    in_spec: pytree.TreeSpec | None
    out_spec: pytree.TreeSpec | None


class ExportedProgram:
    """A module's forward as a graph of operators, with its parameters, buffers and constants; made by torch.export.export.

    `module()` gives a module to call. graph_module, graph: what is called; graph_signature: what its inputs and outputs are;
    state_dict: parameters and persistent buffers; constants: other buffers and tensors; range_constraints: empty, as sizes are
    numbers; example_inputs: what it was exported with.
    """

    def __init__(
        self,
        root: torch.nn.Module | dict[str, Any],
        graph: Graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, torch.Tensor],
        range_constraints: Mapping[Any, Any],
        module_call_graph: list[ModuleCallEntry],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
        constants: dict[str, Any] | None = None,
        *,
        verifiers: list[type[Verifier]] | None = None,
        guards: Sequence[Expr] = (),
    ) -> None:
        self._graph_module = GraphModule(root, graph)
        self._graph_signature = graph_signature
        self._state_dict = state_dict
        self._range_constraints = dict(range_constraints)
        self._module_call_graph = module_call_graph
        self._example_inputs = example_inputs
        self._constants = constants or {}
        self._verifiers: list[type[Verifier]] = verifiers or [TrainingIRVerifier]
        self._guards = list(guards)  # what else the trace depends on, over the symbols of the inputs
        self._report: Any = None  # of draft_export
        self.validate()

    # ---- what it is made of

    @property
    def graph_module(self) -> GraphModule:
        """The module of the graph; parameters, buffers and constants are its first inputs."""
        return self._graph_module

    @graph_module.setter
    def graph_module(self, value: Any) -> NoReturn:
        raise RuntimeError("Unable to set ExportedProgram's graph_module attribute.")

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph_module.graph

    @graph.setter
    def graph(self, value: Any) -> NoReturn:
        raise RuntimeError("Unable to set ExportedProgram's graph attribute.")

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What the inputs and outputs of the graph are."""
        return self._graph_signature

    @graph_signature.setter
    def graph_signature(self, value: Any) -> NoReturn:
        raise RuntimeError("Unable to set ExportedProgram's graph_signature attribute.")

    @property
    def state_dict(self) -> dict[str, torch.Tensor]:
        """The parameters and persistent buffers by name: those of the module that was exported."""
        return self._state_dict

    @state_dict.setter
    def state_dict(self, value: Any) -> NoReturn:
        raise RuntimeError("Unable to set ExportedProgram's state_dict attribute.")

    @property
    def constants(self) -> dict[str, Any]:
        """Buffers that aren't saved, and tensors that are neither parameters nor buffers, by name."""
        return self._constants

    tensor_constants = constants

    @property
    def range_constraints(self) -> dict[Any, Any]:
        """The ranges of the inputs' sizes, and of numbers that only a run tells, by their expressions."""
        return self._range_constraints

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The modules that were called; the first is the program itself."""
        return self._module_call_graph

    @property
    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """(args, kwargs) that it was exported with."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value: Any) -> None:
        if value is not None:
            if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple) and isinstance(value[1], dict)):
                raise ValueError(
                    "Example inputs should be a tuple containing example arguments (as a tuple), and example kwargs (as a dict)."
                )
            if (spec := self.call_spec.in_spec) is not None:
                in_containers(spec, *value)
        self._example_inputs = value

    @property
    def call_spec(self) -> CallSpec:
        """The containers of the inputs and outputs."""
        signature = self._module_call_graph[0].signature
        assert signature is not None
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def verifiers(self) -> list[type[Verifier]]:
        """The classes that check the program."""
        return self._verifiers

    @property
    def verifier(self) -> type[Verifier]:
        """The first of them, which is that of the dialect."""
        return self._verifiers[0]

    @property
    def dialect(self) -> str:
        """ "TRAINING" where operators are as they are called, "ATEN" where they have been taken apart."""
        return self.verifier.dialect

    # ---- its state

    def parameters(self) -> Iterator[torch.Tensor]:
        """The parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        """(name, parameter), in the order of the graph's inputs."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self) -> Iterator[torch.Tensor]:
        """The buffers."""
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """(name, buffer), in the order of the graph's inputs."""
        hidden = set(self.graph_signature.non_persistent_buffers)
        for name in self.graph_signature.buffers:
            yield name, self.constants[name] if name in hidden else self.state_dict[name]

    # ---- what is done with it

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """RuntimeError: call `module()`'s result."""
        raise RuntimeError("Unable to call ExportedProgram directly. You should use `exported_program.module()` instead.")

    def module(self, check_guards: bool = True) -> GraphModule:
        """A module to call as the exported one; its parameters and buffers are those of the program.

        check_guards: whether sizes and constants of its inputs are checked. ValueError for inputs in other containers,
        AssertionError for other sizes.
        """
        return unlifted(self, check_guards)

    def run_decompositions(
        self, decomp_table: Mapping[Any, Callable[..., Any]] | None = None, decompose_custom_triton_ops: bool = False
    ) -> ExportedProgram:
        """A program without writes in place, taken apart into the operators that the table leaves whole.

        decomp_table: from overloads to functions; None stands for torch.export.default_decompositions(), {} only makes it free
        of writes. What was written to, buffers and inputs, are outputs in front of the results, and the signature says so. An
        operator that PyTorch makes of others, but that is one here, stays whole.
        NotImplementedError for a write through a view, or by an operator, that has no form without a write.
        """
        from flambeau._decomp.table import CustomDecompTable
        from flambeau.export._decompose import decomposed

        graph, signature, inner, renamed = decomposed(self, CustomDecompTable() if decomp_table is None else decomp_table)
        calls = copy.deepcopy(self._module_call_graph)
        for entry in calls:
            for arg in [] if entry.signature is None else [*entry.signature.inputs, *entry.signature.outputs]:
                arg.name = renamed.get(arg.name, arg.name)
        return ExportedProgram(
            inner, graph, signature, self._state_dict, dict(self._range_constraints),
            calls, self._example_inputs, self._constants, verifiers=[Verifier], guards=self._guards,
        )  # fmt: skip

    def _transform_do_not_use(self, *passes: Callable[[GraphModule], Any]) -> ExportedProgram:
        """The program that passes make of this one, which stays as it is; each takes a graph module and gives a PassResult.

        ValueError where a pass leaves other numbers of inputs or outputs.
        """
        made = copy.deepcopy(self._graph_module)
        for each in passes:
            made = each(made).graph_module
        inputs, outputs = made.graph.find_nodes(op="placeholder"), made.graph.output_node().args[0]
        signature = copy.deepcopy(self._graph_signature)
        for specs, nodes in ((signature.input_specs, inputs), (signature.output_specs, outputs)):
            if len(specs) != len(nodes):
                raise ValueError(f"a pass over an exported program left {len(nodes)} inputs or outputs of {len(specs)}")
            for spec, node in zip(specs, nodes):
                if isinstance(node, torch.fx.Node) and hasattr(spec.arg, "name"):
                    spec.arg.name = node.name
        return ExportedProgram(
            made, made.graph, signature, self._state_dict, dict(self._range_constraints), copy.deepcopy(self._module_call_graph),
            self._example_inputs, self._constants, verifiers=self._verifiers, guards=self._guards,
        )  # fmt: skip

    def validate(self) -> None:
        """Check that the graph is well formed, and that signature, state and inputs fit. torch._export.verifier's errors."""
        for verifier in self._verifiers:
            verifier().check(self)

    def _value_of(self, spec: Any) -> Any:
        """The tensor of an input that no caller gives."""
        if spec.kind == InputKind.PARAMETER or (spec.kind == InputKind.BUFFER and spec.persistent):
            return self.state_dict[spec.target]
        return self.constants[spec.target]

    def __str__(self) -> str:
        code = self.graph_module.print_readable(print_output=False, colored=False).replace("\n", "\n    ")
        signature = str(self.graph_signature).replace("\n", "\n    ")
        return f"ExportedProgram:\n    {code}\nGraph signature: {signature}\nRange constraints: {self.range_constraints}\n"

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedProgram:
        kept = [copy.deepcopy(x, memo) for x in (
            self._graph_signature, self._state_dict, self._range_constraints, self._module_call_graph, self._example_inputs,
            self._constants)]  # fmt: skip
        return ExportedProgram(
            copy.deepcopy(self._graph_module, memo),
            copy.deepcopy(self.graph, memo),
            *kept,
            verifiers=self._verifiers,
            guards=self._guards,
        )
