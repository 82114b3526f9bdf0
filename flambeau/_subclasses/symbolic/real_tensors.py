"""Fake tensors that carry a tensor with data beside them: a mode that propagates real tensors runs every operator twice.

So what only values tell has an answer while a program is traced: symbols get the values of the example, an operator without a
fake gets results like the real ones, and a fake that is wrong is found. Stands on state and base.symbolic.trace_events; used by
run and by fake_tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flambeau._subclasses.symbolic.state import describe, expr_of, kept, plain_sizes, sizes_of
from flambeau.base.symbolic.expressions import Expr, as_expr
from flambeau.base.symbolic.numbers import is_symbolic_number, plain_value
from flambeau.base.symbolic.trace_events import current_observer
from flambeau.core.modes.modes import local
from flambeau.core.modes.overrides import DisableTorchFunctionSubclass
from flambeau.core.tensor import fakes
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher import fake_inputs
from flambeau.dispatcher.fake_profiles import MissingOpProfile
from flambeau.dispatcher.fakes import NoFake
from flambeau.ops.creation.factories import empty_strided

__all__ = ["MetadataMismatchError", "attach", "copied", "propagated", "real_of"]

_Fake = Callable[[], Any]
_BUILTIN = frozenset({"aten", "prims", "prim"})


class MetadataMismatchError(RuntimeError):
    """A fake's results are not like those of the operator. reason: how."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


class _Absent(Exception):
    """A fake tensor has no real one beside it."""


def attach(fake: Tensor, real: Tensor) -> None:
    """Let a fake tensor carry a tensor with data."""
    fake.__dict__["_real"] = real


def real_of(fake: Tensor) -> Tensor | None:
    """The tensor with data that a fake tensor carries; None without."""
    return fake.__dict__.get("_real")


def copied(tensor: Tensor, storages: Any) -> Tensor:
    """A copy of a tensor that nothing but its trace writes to; `storages` keeps copies of storages, each of it whole."""
    held = tensor._storage
    whole = storages.get(held)
    if whole is None:
        whole = storages[held] = tensor.detach().as_strided((held.capacity // tensor.dtype.itemsize,), (1,), 0).clone()
    if whole.dtype is not tensor.dtype:
        whole = whole.view(tensor.dtype)
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())  # type: ignore[no-any-return]


def propagated(mode: Any, overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any], fake: _Fake) -> Any:
    """The results of an operator in a mode that propagates real tensors; `fake()` gives those without data.

    MetadataMismatchError where a fake is wrong, unless the mode is to go by the real results then.
    """
    real = _really(overload, args, kwargs)
    if real is NotImplemented:
        return fake()
    env = mode.shape_env
    known = len(env.unbacked)
    try:
        made = fake()
    except (fakes.UnsupportedOperatorException, NoFake, MissingOpProfile):
        if overload.namespace in _BUILTIN:
            raise
        made = _like(mode, overload, real)
        _tell(overload, args, real)
    else:
        fresh = list(env.unbacked)[known:]
        if fresh and _bind(env, made, real):  # stood in for by other numbers: once more, with these
            with env.again(fresh):
                made = fake()
        if overload.namespace not in _BUILTIN:
            made = _checked(mode, overload, args, made, real)
            env.forget(s for s in fresh if s not in _symbols(made))
    _attach_all(made, real)
    return made


# ---------------------------------------------------------------- the real results


def _really(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The results with data; NotImplemented if an argument has none."""

    def real(value: Any) -> Any:
        if isinstance(value, Tensor):
            if not fakes.is_fake(value._layout):
                return value
            found = real_of(value)
            if found is None:
                found = fakes.known_value(value)
            if found is None:
                raise _Absent
            return found
        if isinstance(value, (list, tuple)):
            return [real(x) for x in value]
        return plain_value(value)

    try:
        values, named = [real(x) for x in args], {k: real(x) for k, x in kwargs.items()}
    except _Absent:
        return NotImplemented
    before = local.grad, local.dispatch_modes
    local.grad, local.dispatch_modes = False, []
    try:
        with fake_inputs.without_mode(), DisableTorchFunctionSubclass():
            return overload(*values, **named)
    finally:
        local.grad, local.dispatch_modes = before


def _attach_all(made: Any, real: Any) -> None:
    for x, y in zip(_each(made), _each(real)):
        if isinstance(x, Tensor) and isinstance(y, Tensor) and fakes.is_fake(x._layout):
            attach(x, y)


def _each(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for x in value:
            yield from _each(x)
    else:
        yield value


def _bind(env: Any, made: Any, real: Any) -> bool:
    """Give the symbols of results the values of the example; whether sizes of a tensor have others now."""
    changed = False
    for x, y in zip(_each(made), _each(real)):
        if isinstance(x, Tensor) and isinstance(y, Tensor):
            if len(sizes_of(x)) == y._layout.ndim:
                for e, n in zip(sizes_of(x), y._layout.shape):
                    changed |= _tell_value(env, e, n)
        elif not isinstance(x, Tensor):
            _tell_value(env, expr_of(x) if is_symbolic_number(x) else as_expr(0), y)
    return changed


def _symbols(made: Any) -> set[Expr]:
    found: set[Expr] = set()
    for x in _each(made):
        for e in sizes_of(x) if isinstance(x, Tensor) else [expr_of(x)] if is_symbolic_number(x) else []:
            found |= e.free_symbols
    return found


def _tell_value(env: Any, e: Expr, value: Any) -> bool:
    if e.kind == "Eq" and e.args[0] in env.unbacked:  # a truth: of its number
        e, value = e.args[0], int(value)
    if e not in env.unbacked or e in env.told:
        return False
    before = env.unbacked[e]
    env.tell(e, value)
    return bool(before != value)


# ---------------------------------------------------------------- fakes that are absent, or wrong


def _tell(overload: Any, args: Sequence[Any], real: Any, reason: str | None = None) -> None:
    observer = current_observer()
    if observer is not None:
        if reason is None:
            observer.missing_fake(overload)
        else:
            observer.mismatched_fake(overload, reason)
        observer.profiled(overload, args, real)


def _like(mode: Any, overload: Any, real: Any) -> Any:
    """Fake results like the real ones, whose sizes only a run tells. RuntimeError for such as are no tensors, or not dense."""
    if isinstance(real, (list, tuple)):
        return type(real)([_like(mode, overload, x) for x in real])
    if real is None:
        return None
    if not isinstance(real, Tensor):
        raise RuntimeError(f"propagate_real_tensors: we don't support operators that return non-Tensors. Got {overload._schema}")
    start = f"propagate_real_tensors: we cannot infer a Fake kernel (meta kernel) for operator {overload._name} because a return "
    end = ". Please use torch.library.register_fake to add a Fake kernel."
    if real._offset:
        raise RuntimeError(f"{start}has a non-zero storage offset {real._offset}{end}")
    layout, env = real._layout, mode.shape_env
    if not _is_dense(layout):
        raise RuntimeError(f"{start}was not dense in memory (sizes {layout.shape} strides {layout.strides}){end}")
    sizes = []
    for n in layout.shape:
        size = env.create_unbacked_symint(stand_in=n)
        env.constrain_size(size.node._expr)
        env.tell(size.node._expr, n)
        sizes.append(size.node._expr)
    with plain_sizes(), mode:
        made = empty_strided(layout.shape, layout.strides, dtype=layout.dtype, device=layout.device)
    describe(made, env, sizes)
    return made


def _is_dense(layout: Any) -> bool:
    step = 1
    for n, own in sorted(zip(layout.shape, layout.strides), key=lambda pair: (pair[1], pair[0])):
        if n == 1:
            continue
        if own != step:
            return False
        step *= n
    return True


def _checked(mode: Any, overload: Any, args: Sequence[Any], made: Any, real: Any) -> Any:
    """The results of a fake where they are like the real ones; such as are like these in the place of others."""
    aliasing = _aliasing_differs(args, made, real)
    if aliasing:
        if not mode.goes_by_real:
            raise MetadataMismatchError(
                f"Real tensor propagation found an aliasing mismatch between fake output {made} and real output {real},  for "
                f"func: {overload}"
            )
        _tell(overload, args, real, f"Mismatched aliasing spec between fake kernel and real kernel: {aliasing}")
        return _like(mode, overload, real)
    reasons: list[str] = []
    made = _matching(mode, overload, made, real, "output", reasons)
    for reason in reasons:
        _tell(overload, args, real, reason)
    return made


def _matching(mode: Any, overload: Any, made: Any, real: Any, place: str, reasons: list[str]) -> Any:
    if isinstance(made, (list, tuple)) and isinstance(real, (list, tuple)) and len(made) == len(real):
        return type(made)([_matching(mode, overload, x, y, f"{place}[{i}]", reasons) for i, (x, y) in enumerate(zip(made, real))])
    if not isinstance(made, Tensor) or not isinstance(real, Tensor):
        return made
    reason, words = _difference(made, real, place)
    if not reason:
        return made
    if not mode.goes_by_real:
        raise MetadataMismatchError(f"Real tensor propagation found {words}, for func: {overload}")
    reasons.append(reason)
    return _like(mode, overload, real)


def _difference(made: Tensor, real: Tensor, place: str) -> tuple[str, str]:
    """How a fake result isn't like the real one: for the report, and for the exception; "" where it is."""
    one, other = made._layout, real._layout
    if one.dtype is not other.dtype:
        reason = f"Dtypes {other.dtype} and {one.dtype} are not equal!"
        return reason, f"a metadata mismatch between fake tensor {made} and real tensor {real}:  {reason}, at {place}"
    if one.ndim != other.ndim:
        reason = f"mismatch between fake value {one.ndim} and real value {other.ndim} "
        return reason, f"a metadata mismatch between fake tensor {made} and real tensor {real}:  {reason}, at {place}"
    env = None if kept(made) is None else kept(made).env  # type: ignore[union-attr]
    for i, (e, n) in enumerate(zip(sizes_of(made), other.shape)):
        here = int(e) if env is None else env.value_of(e)
        if here != n:
            return (
                f"mismatch between fake value {here} and real value {n} ",
                f"an output size mismatch between fake shape {here} and real shape {n}, at {place}.size({i})",
            )
    return "", ""


def _aliasing_differs(args: Sequence[Any], made: Any, real: Any) -> str:
    """How the results of a fake share memory otherwise than the real ones; "" where they don't."""
    fake_given = [x for x in _each(args) if isinstance(x, Tensor)]
    real_given = [real_of(x) if fakes.is_fake(x._layout) else x for x in fake_given]
    for name, check in (("outputs_alias_inputs", _shares_with), ("outputs_are_inputs", _are_among)):
        one, other = check(made, fake_given), check(real, real_given)
        if one != other:
            return f"Real tensor propagation found mismatch in {name} check {one} != {other}"
    return ""


def _shares_with(results: Any, given: Sequence[Any]) -> bool:
    held = {id(x._storage) for x in given if x is not None}
    return any(isinstance(x, Tensor) and id(x._storage) in held for x in _each(results))


def _are_among(results: Any, given: Sequence[Any]) -> bool:
    return any(x is y for x in _each(results) if isinstance(x, Tensor) for y in given)
