"""Inputs that share memory, one of which is written to, as one input: the tensor that all of them are views of.

A graph without writes gives new values of an input; of the others that share its memory it would know nothing. So the function is
traced as one of the base, of which it takes the views itself; and an argument that is given twice is given once. Which arguments
those are holds for a compiled function: `sharing` is part of what tells whether it serves a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau._functorch._aot_autograd import metadata
from flambeau._functorch._aot_autograd.fakes import as_fakes, fresh_leaf
from flambeau._functorch._aot_autograd.schemas import OutputType
from flambeau.core.tensor.storage import root

__all__ = ["Plan", "plan", "sharing"]


def sharing(leaves: Sequence[Any]) -> tuple[int, ...]:
    """Per argument its own position; or of the first that is the same tensor; or, if one before shares memory, that one's
    complement.
    """
    tensors: dict[int, int] = {}
    storages: dict[int, int] = {}
    made = []
    for i, x in enumerate(leaves):
        if not isinstance(x, torch.Tensor):
            made.append(i)
            continue
        same, near = tensors.setdefault(id(x), i), storages.setdefault(id(root(x._storage)), i)
        made.append(same if same != i or near == i else ~near)
    return tuple(made)


class _Group:
    """Arguments that share memory, as views of one base: `of(args)` finds it among a call's arguments, `fake` is traced."""

    def __init__(self, members: list[int], leaves: Sequence[Any], fakes: Sequence[Any], mode: Any) -> None:
        bases = [leaves[i] if leaves[i]._base is None else leaves[i]._base for i in members]
        self.members = members
        self.whole: int | None = None  # the argument that is the base
        if all(b is bases[0] for b in bases):
            self.whole = next((i for i in members if leaves[i] is bases[0]), None)
            self.fake = as_fakes([bases[0]], mode)[0] if self.whole is None else fakes[self.whole]
            self.of = _base_of(members[0])
        elif any(leaves[i].requires_grad for i in members):
            raise RuntimeError(
                "Encountered aliased inputs that are mutated in the graph, and that are not views of one tensor, but "
                "some of them "
                "require a gradient: pass views of one tensor"
            )
        else:
            self.fake, self.of = _memory(fakes[members[0]]), _memory_of(members[0])
        if any(fakes[i].dtype is not self.fake.dtype for i in members):
            raise NotImplementedError(
                "AOT autograd of a function that writes to an input of which another one is a view of another dtype is not "
                "implemented in flambeau: pass copies"
            )
        self.geometry = {i: (fakes[i].shape, fakes[i].stride(), fakes[i].storage_offset()) for i in members}

    def views(self, base: Any) -> dict[int, Any]:
        """The arguments, of the base."""
        return {i: base if i == self.whole else base.as_strided(*self.geometry[i]) for i in self.members}


class Plan:
    """How a function is traced: `function` takes `inputs`; `given(args)` are those of a call, `results` what the call gives."""

    def __init__(self, function: Callable[..., list[Any]], inputs: Sequence[Any]) -> None:
        self.function, self.inputs = function, list(inputs)
        self.groups: list[_Group] = []  # whose bases are the first inputs
        self.kept = list(range(len(inputs)))  # the arguments that are the others
        self.returned: dict[int, int] = {}  # from results to the arguments that they are

    def given(self, args: Sequence[Any]) -> list[Any]:
        """The inputs of the traced function in a call with these arguments."""
        return [*[group.of(args) for group in self.groups], *[args[i] for i in self.kept]]

    def results(self, args: Sequence[Any], made: list[Any]) -> list[Any]:
        """The results of a call; those that are arguments are these very tensors."""
        for at, i in self.returned.items():
            made[at] = args[i]
        return made


def plan(function: Callable[..., list[Any]], leaves: Sequence[Any], fakes: list[Any], mode: Any, joint: bool) -> Plan:
    """How to trace a function whose arguments are `leaves`, as the fake tensors `fakes`."""
    made = Plan(function, fakes)
    shares = sharing(leaves)
    once = [i for i, first in enumerate(shares) if first < 0 or first == i]
    if all(first == i for i, first in enumerate(shares)):
        return made
    places = {i: at for at, i in enumerate(once)}
    order = [places[i if first < 0 else first] for i, first in enumerate(shares)]
    made.function = alone = lambda *args: function(*[args[at] for at in order])
    made.inputs, made.kept = [fakes[i] for i in once], once
    members: dict[int, list[int]] = {}
    for i in once:
        members.setdefault(i if shares[i] >= 0 else ~shares[i], []).append(i)
    shared = [group for group in members.values() if len(group) > 1]
    if not shared:
        return made
    meta = metadata.collect(alone, made.inputs, mode, keep_input_mutations=False, is_train=joint)
    infos = dict(zip(once, meta.input_info))
    shared = [group for group in shared if any(infos[i].mutates_data for i in group)]
    if any(infos[i].mutates_metadata for group in shared for i in group):
        raise NotImplementedError(
            "AOT autograd of a function that writes to one of several inputs that share memory, and changes the shape "
            "of one, is not implemented in "
            "flambeau: pass copies"
        )
    made.groups = groups = [_Group(group, leaves, fakes, mode) for group in shared]
    inside = {i for group in shared for i in group}
    made.kept = kept = [i for i in once if i not in inside]
    made.inputs = [*[group.fake for group in groups], *[fakes[i] for i in kept]]
    made.returned = {
        at: once[info.base_idx] for at, info in enumerate(meta.output_info)
        if info.output_type is OutputType.is_input and info.base_idx is not None and once[info.base_idx] in inside
    }  # fmt: skip

    def of_bases(*args: Any) -> list[Any]:
        given = dict(zip(kept, args[len(groups) :]))
        for group, base in zip(groups, args):
            given.update(group.views(base))
        return alone(*[given[i] for i in once])

    if groups:
        made.function = of_bases
    return made


def _base_of(i: int) -> Callable[[Sequence[Any]], Any]:
    return lambda args: args[i] if args[i]._base is None else args[i]._base


def _memory(x: Any) -> Any:
    """All of the memory that a tensor shows a part of, as a tensor of one dimension."""
    with torch.no_grad():
        plain = fresh_leaf(x, False)
        return plain.as_strided((plain.untyped_storage().nbytes() // plain.element_size(),), (1,), 0)


def _memory_of(i: int) -> Callable[[Sequence[Any]], Any]:
    return lambda args: _memory(args[i])
