"""torch.export.graph_signature: what the inputs and outputs of an exported graph are. Used by the whole room."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

__all__ = [
    "ConstantArgument", "CustomObjArgument", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind", "OutputSpec",
    "SymBoolArgument", "SymFloatArgument", "SymIntArgument", "TensorArgument", "TokenArgument",
]  # fmt: skip


@dataclasses.dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclasses.dataclass
class TokenArgument:
    """A token that orders effects."""

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """A size, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A number that depends on sizes, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """A truth about sizes, by the name of its node."""

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """An object of a class of a program's own."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ConstantArgument:
    """A value that is no tensor."""

    name: str
    value: int | float | bool | str | None


class InputKind(Enum):
    """What an input is."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """What an output is."""

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


@dataclasses.dataclass
class InputSpec:
    """An input: its kind, its argument, the name of the parameter, buffer or constant; persistent: whether a buffer is saved."""

    kind: InputKind
    arg: Any
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind == InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclasses.dataclass
class OutputSpec:
    """An output: its kind, its argument, the name of what it is written to."""

    kind: OutputKind
    arg: Any
    target: str | None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportGraphSignature:
    """What the placeholders and the outputs of a graph are, in their order."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple(s.target for s in self.input_specs if s.kind == kind and s.target is not None)

    def _by_name(self, kind: InputKind) -> Mapping[str, str]:
        return MappingProxyType({s.arg.name: s.target for s in self.input_specs if s.kind == kind and s.target is not None})

    def _written(self, kind: OutputKind) -> Mapping[str, str]:
        return MappingProxyType({s.arg.name: s.target for s in self.output_specs if s.kind == kind and s.target is not None})

    @property
    def parameters(self) -> Collection[str]:
        """The names of the parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> Collection[str]:
        """The names of the buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> Collection[str]:
        """The names of the buffers that aren't in the state."""
        return tuple(s.target for s in self.input_specs if s.kind == InputKind.BUFFER and s.persistent is False and s.target)

    @property
    def lifted_tensor_constants(self) -> Collection[str]:
        """The names of the tensors that are neither parameters nor buffers."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self) -> Collection[str]:
        """The names of objects of a program's own classes."""
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self) -> Collection[Any]:
        """The names of the tensors, and the values of the constants, that a caller gives."""
        return tuple(_shown(s.arg) for s in self.input_specs if s.kind == InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> Collection[Any]:
        """The names of the tensors, and the constants, that a caller gets."""
        kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        return tuple(_shown(s.arg) for s in self.output_specs if s.kind in kinds)

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """From placeholders to parameters."""
        return self._by_name(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """From placeholders to buffers."""
        return self._by_name(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """From placeholders to constants."""
        return self._by_name(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """From placeholders to objects."""
        return self._by_name(InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """From outputs to the buffers that they are the new values of."""
        return self._written(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """From outputs to the parameters that they are the new values of."""
        return self._written(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """From outputs to the inputs that they are the new values of."""
        return self._written(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> None:
        """None: graphs have no backward."""
        return None

    @property
    def assertion_dep_token(self) -> None:
        """None: there are no tokens."""
        return None

    @property
    def input_tokens(self) -> Collection[str]:
        """The tokens among the inputs."""
        return tuple(s.arg.name for s in self.input_specs if s.kind == InputKind.TOKEN)

    @property
    def output_tokens(self) -> Collection[str]:
        """The tokens among the outputs."""
        return tuple(s.arg.name for s in self.output_specs if s.kind == OutputKind.TOKEN)

    def replace_all_uses(self, old: str, new: str) -> None:
        """Call `new` what was called `old`. AssertionError unless both are strings."""
        if not isinstance(old, str) or not isinstance(new, str):
            raise AssertionError(f"expected old and new to be strings, got {type(old)} and {type(new)}")
        for spec in [*self.input_specs, *self.output_specs]:
            if isinstance(spec.arg, TensorArgument) and spec.arg.name == old:
                spec.arg.name = new

    def get_replace_hook(self, replace_inputs: bool = False) -> Callable[..., None]:
        """A hook for GraphModule._set_replace_hook: outputs, and inputs if that is asked for, are called what replaces them."""

        def hook(old: Any, new: str, user: Any) -> None:
            if user.op in ("output", "input") or replace_inputs:
                self.replace_all_uses(old.name, new)

        return hook

    def __str__(self) -> str:
        given = "\n".join(map(str, self.input_specs))
        made = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{given}\n\n# outputs\n{made}\n"


def _shown(arg: Any) -> Any:
    return arg.value if isinstance(arg, ConstantArgument) else arg.name
