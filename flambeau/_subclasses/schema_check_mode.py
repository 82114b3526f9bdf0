"""torch._subclasses.schema_check_mode: operators that keep to their schemas, call by call. Stands on dispatcher.schema_info."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import flambeau as torch
from flambeau.dispatcher import calling
from flambeau.dispatcher.schema_info import SchemaArgType, SchemaArgument, SchemaInfo, is_alias_of
from flambeau.utils import _pytree as pytree
from flambeau.utils._python_dispatch import TorchDispatchMode

__all__ = ["Aliasing", "Mutation", "SchemaCheckMode"]


class Mutation(NamedTuple):
    """An argument that an operator has written to."""

    op_name: str
    arg_name: str


class Aliasing(NamedTuple):
    """An argument whose memory a result shares."""

    op_name: str
    arg_name: str
    output_number: str


def _plain(value: Any) -> Any:
    """What is compared of a value: the tensor that a wrapper has as `elem`."""
    return pytree.tree_map(
        lambda x: getattr(x, "elem", x) if isinstance(x, torch.Tensor) and type(x) is not torch.Tensor else x, value
    )


class _Seen(NamedTuple):
    """A tensor before a call: a copy of its elements, its geometry and its memory."""

    copy: torch.Tensor
    geometry: Any

    @classmethod
    def of(cls, x: torch.Tensor) -> _Seen:
        return cls(x.detach().clone(), cls.geometry_of(x))

    @staticmethod
    def geometry_of(x: torch.Tensor) -> Any:
        return (
            (tuple(x.shape), x.stride() if x.layout is torch.strided else None, x.storage_offset())
            if (x.layout is torch.strided)
            else tuple(x.shape)
        )

    def changed(self, x: torch.Tensor) -> bool:
        if self.geometry != self.geometry_of(x):
            return True
        one, other = self.copy, x.detach()
        if one.layout is not torch.strided:
            one, other = one.to_dense(), other.to_dense()
        if one.dtype.is_floating_point or one.dtype.is_complex:
            return not torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)) or not torch.equal(one.isnan(), other.isnan())
        return not torch.equal(one, other)


def _tensors(value: Any) -> list[torch.Tensor]:
    return calling.flat_tensors([_plain(value)])


class SchemaCheckMode(TorchDispatchMode):
    """Raises RuntimeError for an operator that writes to an argument, or gives back memory of one, against its schema.

    `ops` has the names of the operators in order, `mutated` and `aliasing` what they have done.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reset_cache()

    def reset_cache(self) -> None:
        """Forget what was seen."""
        self.ops: list[str] = []
        self.mutated: list[Mutation] = []
        self.aliasing: list[Aliasing] = []

    def display_ops(self) -> None:
        """Print the names of the operators."""
        print(*self.ops, sep=",")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema = func._schema
        self.ops.append(schema.name)
        values = calling.bind(schema, args, kwargs or {}, numbers=True)
        before = [[_Seen.of(x) for x in _tensors(value)] for value in values]
        out = func(*args, **(kwargs or {}))
        results = list(out) if len(schema.returns) > 1 else [out]
        info = SchemaInfo(schema)
        for argument, value in zip(schema.arguments, values):
            info.add_argument_value(argument.name, _plain(value))
        for place, (argument, value) in enumerate(zip(schema.arguments, values)):
            self._check_argument(info, place, argument, value, before[place], results)
        for one, other in itertools.combinations(range(len(results)), 2):
            if is_alias_of(_plain(results[one]), _plain(results[other])):
                first, second = (SchemaArgument(SchemaArgType.output, at) for at in (one, other))
                written = [place for place in range(len(values)) if info._writes(place)]
                if not info.may_contain_alias(first, second) and not _through_outs(values, written, results[one], results[other]):
                    raise RuntimeError(f"Outputs {one} and {other} alias unexpectedly")
        return out

    def _check_argument(
        self, info: SchemaInfo, place: int, argument: Any, value: Any, before: list[_Seen], results: list[Any]
    ) -> None:
        name = "input" if argument.name == "self" else argument.name
        own = SchemaArgument(SchemaArgType.input, place)
        if any(seen.changed(x) for seen, x in zip(before, _tensors(value))):
            if not info.is_mutable(own):
                raise RuntimeError(f"Argument {name} is not defined as mutable but was mutated")
            self.mutated.append(Mutation(info.schema.name, name))
        for number, result in enumerate(results):
            if not is_alias_of(_plain(value), _plain(result)):
                continue
            there = SchemaArgument(SchemaArgType.output, number)
            if not info.may_contain_alias(own, there):
                raise RuntimeError(f"Argument {name} is not defined to alias output but was aliasing")
            if result is value and not info.is_mutable(own) and isinstance(value, torch.Tensor) and not _lifts(info):
                raise RuntimeError(
                    "Dispatcher operators below autograd are not allowed to directly return inputs.\nHowever, we found that "
                    f"`outputs[{number}] is {name}"
                )
            self.aliasing.append(Aliasing(info.schema.name, name, f"output_{number}"))


def _lifts(info: SchemaInfo) -> bool:
    return info.schema.name in ("aten::lift", "aten::lift_fresh", "aten::_to_copy")


def _through_outs(values: list[Any], written: list[int], one: Any, other: Any) -> bool:
    """Whether two results share memory since they are tensors that were given for them, which do."""
    given = [values[place] for place in written]
    return any(is_alias_of(_plain(x), _plain(one)) and is_alias_of(_plain(x), _plain(other)) for x in given)
