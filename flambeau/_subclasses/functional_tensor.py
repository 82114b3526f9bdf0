"""torch._subclasses.functional_tensor: programs that write in place, as the modes outside see them without a write.

Inside `with FunctionalTensorMode():` an operator that writes is answered by the one that doesn't, and the tensor written to
stands for the result from then on; so do, when they are next read, the tensors that share its memory: what a write through a
view makes of the tensor behind it is `functional_views`' knowledge, and views are taken anew of that. Tensors stay the objects
that they are, with the data that they had; `current` gives what one stands for. Used by torch.func.functionalize and
ExportedProgram.run_decompositions.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._subclasses.functional_views import View, written_back
from flambeau._subclasses.symbolic.run import run
from flambeau.core.modes.modes import local
from flambeau.core.tensor.storage import alias as alias_of_memory
from flambeau.core.tensor.tensor import tensor_from
from flambeau.dispatcher.handlers import hand_over
from flambeau.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "FunctionalTensor", "FunctionalTensorMode", "ViewCopyMode", "dispatch_functionalize", "mb_unwrap_functional_tensor",
]  # fmt: skip

_aten = torch.ops.aten
#: What writes to its arguments under a name that doesn't say so, or has its results under another.
_FUNCTIONAL = {
    _aten._native_batch_norm_legit.default: _aten._native_batch_norm_legit_functional.default,
    _aten.lift_fresh.default: _aten.alias.default,
    _aten.normal_.default: _aten.normal_functional.default,
}
#: Views that a tensor becomes in place.
_BECOMES = {
    _aten.t_.default: _aten.t.default,
    _aten.transpose_.default: _aten.transpose.int,
    _aten.swapaxes_.default: _aten.transpose.int,
    _aten.swapdims_.default: _aten.transpose.int,
    _aten.unsqueeze_.default: _aten.unsqueeze.default,
    _aten.squeeze_.default: _aten.squeeze.default,
    _aten.squeeze_.dim: _aten.squeeze.dim,
    _aten.squeeze_.dims: _aten.squeeze.dims,
    _aten.as_strided_.default: _aten.as_strided.default,
}


class _Base:
    """The values of a tensor that is no view: the present one, and how many there were before."""

    __slots__ = ("generation", "value")

    def __init__(self, value: torch.Tensor) -> None:
        self.value, self.generation = value, 0


class _Alias:
    """A tensor: what it is a view of, by which views, and what it stands for."""

    __slots__ = ("base", "generation", "tensor", "value", "views")

    def __init__(self, tensor: torch.Tensor, base: _Base, views: tuple[View, ...], value: torch.Tensor) -> None:
        self.tensor, self.base, self.views = weakref.ref(tensor), base, views
        self.value, self.generation = value, 0  # a view taken after a write counts as older than it

    def current(self) -> torch.Tensor:
        """What it stands for, after the writes to tensors that share its memory."""
        if self.generation != self.base.generation:
            value = self.base.value
            for view in self.views:
                value = view.of(value)
            self.value, self.generation = value, self.base.generation
        return self.value

    def write(self, value: torch.Tensor) -> None:
        """Have it stand for another value, and what shares its memory for what follows from that."""
        behind = [self.base.value]
        for view in self.views[:-1]:
            behind.append(view.of(behind[-1]))
        for view, base in zip(reversed(self.views), reversed(behind)):
            value = written_back(view, base, value)
        self.base.value = value
        self.base.generation += 1
        self.current()


class FunctionalTensorMode(TorchDispatchMode):
    """Answers operators that write by those that don't: `with FunctionalTensorMode() as mode:`, then `mode.current(result)`.

    reads_before_views: whether a view is taken of a tensor's present value, as exported programs have it, or of that which was
    read last, as torch.func.functionalize has it; if they differ, the view is taken once more when it is read.
    """

    def __init__(self, reads_before_views: bool = True) -> None:
        super().__init__()
        self.reads_before_views = reads_before_views
        self.checks_views = False  # whether a view of a value is compared with that of memory
        self._aliases: dict[int, _Alias] = {}
        self._by_place: dict[tuple[int, int, int], tuple[Any, _Alias]] = {}
        self._swept = 1000

    @classmethod
    def is_infra_mode(cls) -> bool:
        """True."""
        return True

    def current(self, tree: Any) -> Any:
        """A tensor, or a container of tensors and others, as the value that it stands for."""
        return pytree.tree_map(lambda x: self._current(x) if isinstance(x, torch.Tensor) else x, tree)

    def value_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """What a tensor stood for when it was last asked for: nothing is recorded for writes since."""
        alias = self._alias(tensor)
        return tensor if alias is None else alias.value

    def written(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor, or one that shares its memory, was written to."""
        alias = self._alias(tensor)
        if alias is None or alias.base.generation > 0:
            return alias is not None
        return alias is self._named(tensor) and bool(alias.views)  # the views of another tensor in its place say nothing of it

    def data_written(self, tensor: torch.Tensor) -> bool:
        """Whether the values of a tensor were written to, by itself or by one that shares its memory."""
        alias = self._alias(tensor)
        return alias is not None and alias.base.generation > 0

    def provenance(self, tensor: torch.Tensor) -> tuple[Any, tuple[View, ...]] | None:
        """What stands for the memory that a tensor shows, and the views that lead from all of it to the tensor; None for one that
        is neither a view nor written to.
        """
        alias = self._alias(tensor)
        return None if alias is None else (alias.base, alias.views)

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor stands for something here: it was made so, is a view, or was written to."""
        return self._alias(tensor) is not None

    def adopt(self, tensor: torch.Tensor) -> Any:
        """Another tensor that stands for this one, and is written to in its place."""
        made: Any = tensor_from(alias_of_memory(tensor._storage), tensor._offset, tensor._layout)
        made.__dict__.update(tensor.__dict__)
        self._track(made, _Base(tensor), (), tensor)
        return made

    def replace(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Have a tensor, and what shares its memory, stand for another value."""
        self._tracked(tensor).write(value)

    def writes(self, tensor: torch.Tensor) -> int:
        """How often the memory that a tensor shows was written to."""
        alias = self._alias(tensor)
        return 0 if alias is None else alias.base.generation

    def _snapshot(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that keeps what this one stands for now, whatever is written later."""
        local.dispatch_modes.pop()  # what is asked for belongs to the modes outside
        try:
            value = self._current(tensor)
            return _kept(tensor) if value is tensor else value
        finally:
            local.dispatch_modes.append(self)

    # ---- what is known of tensors

    def _named(self, tensor: torch.Tensor) -> _Alias | None:
        found = self._aliases.get(id(tensor))
        return found if found is not None and found.tensor() is tensor else None

    def _alias(self, tensor: torch.Tensor) -> _Alias | None:
        found = self._named(tensor)
        if found is not None:
            return found
        held = self._by_place.get(_place(tensor))
        return held[1] if held is not None and held[0]() is tensor._storage else None

    def _current(self, tensor: torch.Tensor) -> torch.Tensor:
        alias = self._alias(tensor)
        return tensor if alias is None else alias.current()

    def _track(self, tensor: torch.Tensor, base: _Base, views: tuple[View, ...], value: torch.Tensor) -> _Alias:
        made = self._aliases[id(tensor)] = _Alias(tensor, base, views, value)
        self._by_place[_place(tensor)] = weakref.ref(tensor._storage), made
        if len(self._by_place) > self._swept:
            self._sweep()
        return made

    def _sweep(self) -> None:
        """Forget tensors that are gone; done whenever twice as many are known as were left the last time."""
        self._aliases = {key: alias for key, alias in self._aliases.items() if alias.tensor() is not None}
        self._by_place = {key: held for key, held in self._by_place.items() if held[0]() is not None}
        self._swept = max(1000, 2 * len(self._by_place))

    def _tracked(self, tensor: torch.Tensor) -> _Alias:
        found = self._alias(tensor)
        return found or self._track(tensor, _Base(tensor), (), tensor)

    # ---- the operators

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is _aten.detach_.default:
            return args[0]
        if func is _aten.native_batch_norm.default and self.reads_before_views:
            (func, args), kwargs = _batch_norm(*args, **kwargs), {}
        if func in _BECOMES:
            return self._become(func, _BECOMES[func], args, kwargs)
        if func is _aten.set_.source_Tensor:
            return self._move(func, *args)
        if func._schema.is_mutable:
            return self._write(func, args, kwargs)
        if func.is_view and isinstance(args[0], torch.Tensor):
            return self._view(func, args, kwargs)
        given, named = self.current((args, kwargs))
        if func is _aten.lift_fresh_copy.default:
            return _aten.clone.default(*given)
        made = hand_over(func, given, named) if func._composite and local.dispatch_modes else func(*given, **named)
        for x in pytree.tree_leaves(made):
            if isinstance(x, torch.Tensor) and self._named(x) is None and self._alias(x) is not None:
                self._track(x, _Base(x), (), x)  # made of views that only the modes outside saw
        return made

    def _view(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Views as tensors that share the memory of the argument."""
        first = self._tracked(args[0])
        value = first.current() if self.reads_before_views else first.value
        made = func(value, *args[1:], **kwargs)
        shown = made if value is args[0] else _without_modes(func, args, kwargs)
        if self.checks_views:
            _compare(func, shown, made)
        several = isinstance(made, (tuple, list))
        for at, (tensor, view) in enumerate(zip(shown, made) if several else [(shown, made)]):
            if tensor is not args[0]:
                how = View(func, args[1:], kwargs, at if several else None)
                self._track(tensor, first.base, (*first.views, how), view)
        return shown

    def _become(self, func: Any, view: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        alias = self._tracked(args[0])
        value = view(alias.current(), *args[1:], **kwargs)
        self._let_go(args[0], alias)
        _without_modes(func, args, kwargs)
        _tell_of_write(args[0])
        made = self._track(args[0], alias.base, (*alias.views, View(view, args[1:], kwargs, None)), value)
        made.generation = alias.generation
        return args[0]

    def _let_go(self, tensor: torch.Tensor, alias: _Alias) -> None:
        """A tensor stands for itself no longer, as it is about to become another one."""
        if tensor is alias.value or tensor is alias.base.value:
            kept = _kept(tensor)
            alias.value = kept if alias.value is tensor else alias.value
            alias.base.value = kept if alias.base.value is tensor else alias.base.value

    def _move(self, func: Any, tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """A tensor that is given the memory of another one: it is a view of that from then on."""
        found = self._tracked(source)
        found.current()
        self._let_go(tensor, self._tracked(tensor))
        _without_modes(func, (tensor, source), {})
        _tell_of_write(tensor)
        made = self._track(tensor, found.base, found.views, found.value)
        made.generation = found.generation
        return tensor

    def _write(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        schema = func._schema
        pure, outs = _without_writes(func)
        given = {a.name: x for a, x in zip(schema.arguments, args)} | kwargs
        targets = [given[a.name] for a in schema.arguments if a.is_write and given.get(a.name) is not None]
        named = {n: x for n, x in kwargs.items() if n not in outs}
        missing = {
            a.name: next(b.default_value for b in schema.arguments if b.name == a.name)
            for a in pure._schema.arguments
            if not a.has_default_value() and a.name not in given
        }
        made = pure(*self.current(args), **self.current(named | missing))
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        flat = [x for t in targets for x in (t if isinstance(t, (list, tuple)) else [t])]
        if len(results) < len(flat):
            raise NotImplementedError(f"{func} is not implemented in flambeau without writes in place: write to a copy")
        news, own = results[len(results) - len(flat) :], results[: len(results) - len(flat)]
        for target, value in zip(flat, news):
            self._tracked(target).write(_like(target, value))
            _count_write(target)
        returned = [target for r in schema.returns if r.alias_info is not None for target in targets[:1]] if not outs else flat
        if returned:
            return returned[0] if len(schema.returns) == 1 else (*own, *returned)
        return tuple(own) if len(own) > 1 else own[0] if own else None


class ViewCopyMode(TorchDispatchMode):
    """Answers views by copies of what they show: `view` by `view_copy`. To be on outside of a FunctionalTensorMode."""

    @classmethod
    def is_infra_mode(cls) -> bool:
        """True."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func.is_view and func.namespace == "aten":
            copies = getattr(_aten, f"{func.overloadpacket.__name__}_copy", None)
            if copies is not None and func._overloadname in copies.overloads():
                func = getattr(copies, func._overloadname)
        return func(*args, **(kwargs or {}))


def _innermost() -> FunctionalTensorMode | None:
    return next((mode for mode in reversed(local.dispatch_modes) if isinstance(mode, FunctionalTensorMode)), None)


class _IsKnown(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        mode = _innermost()
        return mode is not None and isinstance(instance, torch.Tensor) and mode.knows(instance)


class FunctionalTensor(metaclass=_IsKnown):
    """Tensors that stand for a value inside the innermost FunctionalTensorMode: they have no class of their own, but
    isinstance tells them.
    """

    @staticmethod
    def to_functional(x: torch.Tensor) -> torch.Tensor:
        """A tensor that stands for this one. RuntimeError outside of any FunctionalTensorMode."""
        mode = _innermost()
        if mode is None:
            raise RuntimeError("FunctionalTensor.to_functional() outside of a FunctionalTensorMode")
        made: Any = mode.adopt(x)
        return made.requires_grad_(x.requires_grad) if x.is_leaf else made  # type: ignore[no-any-return]

    @staticmethod
    def from_functional(x: torch.Tensor) -> torch.Tensor:
        """What a tensor stands for."""
        mode = _innermost()
        return x if mode is None else mode.current(x)  # type: ignore[no-any-return]


def dispatch_functionalize(func: Callable[..., Any], mode: FunctionalTensorMode | None = None) -> Callable[..., Any]:
    """A function that does what func does without writes; its arguments are not written to either."""

    def inner(*args: Any, **kwargs: Any) -> Any:
        own = FunctionalTensorMode() if mode is None else mode
        with own:
            given, named = pytree.tree_map_only(torch.Tensor, FunctionalTensor.to_functional, (args, kwargs))
            made = func(*given, **named)
        return own.current(made)

    return inner


def _kept(tensor: torch.Tensor) -> Any:
    """Another tensor with the values of this one, that stays as it is when this one becomes something else."""
    outside = [mode._stand_for for mode in local.dispatch_modes]
    if None in outside:
        return _aten.clone.default(tensor)
    made: Any = tensor_from(alias_of_memory(tensor._storage), tensor._offset, tensor._layout)
    made.__dict__.update(tensor.__dict__)
    for stand_for in outside:
        stand_for(made, tensor)  # type: ignore[misc]
    return made


def mb_unwrap_functional_tensor(tensor: Any) -> Any:
    """What a tensor of functionalization stands for; any other, as it is."""
    return FunctionalTensor.from_functional(tensor) if isinstance(tensor, torch.Tensor) else tensor


def _batch_norm(
    input: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, tuple[Any, ...]]:
    """(operator, arguments) of a batch norm that says what it writes to, as native_batch_norm's schema doesn't."""
    if not training:
        return _aten._native_batch_norm_legit_no_training.default, (input, weight, bias, mean, var, momentum, eps)
    if mean is None:
        return _aten._native_batch_norm_legit.no_stats, (input, weight, bias, training, momentum, eps)
    return _aten._native_batch_norm_legit.default, (input, weight, bias, mean, var, training, momentum, eps)


def _compare(func: Any, shown: Any, made: Any) -> None:
    """AssertionError where a view of a value isn't like that of the tensor that stands for it."""
    for x, y in zip(pytree.tree_leaves(shown), pytree.tree_leaves(made)):
        if x.shape != y.shape or x.dtype is not y.dtype:
            raise AssertionError(f"{func}: a view of shape {tuple(x.shape)}, {x.dtype}, was one of {tuple(y.shape)}, {y.dtype}")


def _count_write(tensor: torch.Tensor) -> None:
    """Count a write that memory knows nothing of: a graph that has saved the tensor must not be run any more."""
    tensor._storage.writes += 1
    _tell_of_write(tensor)


def _tell_of_write(tensor: torch.Tensor) -> None:
    for mode in local.dispatch_modes:
        if mode._counted is not None:
            mode._counted(tensor)


def _place(tensor: torch.Tensor) -> tuple[int, int, int]:
    return id(tensor._storage), tensor._offset, id(tensor._layout)


def _like(target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A result in the dtype of the tensor that it is written to."""
    return value if value.dtype is target.dtype else _aten._to_copy.default(value, dtype=target.dtype)


def _without_modes(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    before, local.dispatch_modes = local.dispatch_modes, []
    try:
        return run(func, args, kwargs)
    finally:
        local.dispatch_modes = before


def _without_writes(func: Any) -> tuple[Any, Iterable[str]]:
    """The operator that gives as results what another writes, and the arguments that it lacks."""
    if func in _FUNCTIONAL:
        return _FUNCTIONAL[func], ()
    schema = func._schema
    outs = [a.name for a in schema.arguments if a.is_out]
    name = func.overloadpacket.__name__
    if func.namespace == "aten" or func.declaration is not None:
        packet: Any = func.overloadpacket if outs else getattr(getattr(torch.ops, func.namespace), name.removesuffix("_"), None)
        wanted = [str(a.type) for a in schema.arguments if not a.is_out]
        for pure in [getattr(packet, n) for n in packet.overloads()] if outs or name.endswith("_") else []:
            if not pure._schema.is_mutable and [str(a.type) for a in pure._schema.arguments] == wanted:
                return pure, outs
    raise NotImplementedError(f"{func} is not implemented in flambeau without writes in place: write to a copy")
