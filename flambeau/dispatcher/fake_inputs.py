"""What a call of a public function gives inside a fake tensor mode.

The operators themselves need no answer: they work out their results by the layouts of what they are given. Here are the
tensors that have data found among the arguments, which are made fake or refused; and fake tensors whose values are known, since
a program wrote them down, hand these on. Stands on core.tensor.fakes, core.modes.interception, which has public functions call
this, and dispatch_modes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any

from flambeau.base import device as devices
from flambeau.core.modes import interception
from flambeau.core.tensor import fakes, printing
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher import dispatch_modes, namespaces
from flambeau.ops.creation.factories import empty_strided
from flambeau.transform.levels import mapped

__all__ = ["admitted", "answer", "without_mode"]

#: What makes tensors over memory with values, which are then known.
_OVER_VALUES = frozenset("as_tensor asarray from_numpy frombuffer from_dlpack".split())
_MOST_KNOWN = 1  # elements of results whose values are worked out from known ones


class without_mode:
    """Context: this thread is in no fake tensor mode."""

    def __enter__(self) -> Any:
        self._before = devices.use_stand_ins(None)
        return None if self._before is None else self._before.mode

    def __exit__(self, *exception: object) -> None:
        devices.use_stand_ins(self._before)


def answer(function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a public function, whose plain form is `own`, inside this thread's fake tensor mode."""
    stand_ins = devices.stand_ins_in_use()
    assert stand_ins is not None
    if stand_ins.mode.shape_env is not None and not stand_ins.mode.numbers_only:
        made = _with_symbols(stand_ins.mode, function, own, args, kwargs)
        if made is not NotImplemented:
            return made
    given = list(_tensors([*args, *kwargs.values()]))
    if function.__name__ in _OVER_VALUES and not any(fakes.is_fake(x._layout) for x in given):
        with without_mode():
            made = own(*args, **kwargs)
        return stand_ins.mode.lifted(made)
    if not given:
        return own(*args, **kwargs)
    if any(x._layout.device.stand_ins is not stand_ins for x in given):
        called = dispatch_modes.overload_of(function, args, kwargs)
        if called is not None:
            convert = _Conversion(stand_ins.mode, called)
            args, kwargs = convert(args), {key: convert(value) for key, value in kwargs.items()}
    known = _known_arguments(args, kwargs) if any("_known" in x.__dict__ for x in given) else None
    try:
        result = own(*args, **kwargs)
    except fakes.UnsupportedOperatorException:
        if not stand_ins.mode.allow_fallback_kernels:
            raise
        return _on_zeros(stand_ins.mode, own, args, kwargs)
    if known is not None and isinstance(result, Tensor) and fakes.is_fake(result._layout):
        _hand_on(function, own, args, kwargs, known, result)
    return result


def _with_symbols(mode: Any, function: FunctionType, own: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a function whose arguments have sizes with symbols; NotImplemented if none has."""
    if not mode.has_symbols(function.__name__, args, kwargs):
        return NotImplemented
    called = dispatch_modes.overload_of(function, args, kwargs)
    if function.__name__ == "item":  # whose operator's own body is this function
        return mode.with_symbols(namespaces.ops.aten._local_scalar_dense.default, args, kwargs)
    if called is None:
        made = dispatch_modes.lowered(function, own, args, kwargs)
        return own(*args, **kwargs) if made is NotImplemented else made
    return dispatch_modes.as_public(called[0].overloadpacket.__name__, mode.with_symbols(*called))


def _on_zeros(mode: Any, own: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The results of a function that needs values, from its results for zeros."""
    real: dict[int, tuple[Any, Any]] = {}

    def filled(value: Any) -> Any:
        if isinstance(value, Tensor):
            if id(value) not in real:
                layout = value._layout
                real[id(value)] = value, empty_strided(layout.shape, layout.strides, dtype=layout.dtype).zero_()
            return real[id(value)][1]
        return value.__class__([filled(x) for x in value]) if value.__class__ in (list, tuple) else value

    with without_mode():
        result = own(*filled(args), **{key: filled(value) for key, value in kwargs.items()})
    given = {id(made): value for value, made in real.values()}
    return mapped(lambda x: given[id(x)] if id(x) in given else mode.from_tensor(x), result)


def admitted(mode: Any, overload: Any, values: list[Any]) -> list[Any]:
    """The arguments of a call inside a mode as its fake tensors. AssertionError for tensors with data, unless it allows them."""
    return list(map(_Conversion(mode, (overload, values, {})), values))


class _Conversion:
    """Makes the tensors among the arguments of a call fake ones of a mode; refuses those that mustn't come there."""

    def __init__(self, mode: Any, called: tuple[Any, ...]) -> None:
        self.mode, self.called = mode, called

    def __call__(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            stand_ins = value._layout.device.stand_ins
            if stand_ins is self.mode.stand_ins:
                return value
            if stand_ins is not None:
                fakes.refuse_mixing(self.mode.stand_ins.of(devices.cpu), value._layout.device)
            if not self.mode.allow_non_fake_inputs:
                raise AssertionError(words_of_mixing(*self.called))
            return self.mode.from_tensor(value)
        if value.__class__ in (list, tuple):
            return value.__class__([self(x) for x in value])
        return value


def words_of_mixing(overload: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """What PyTorch says of a call with tensors that have data beside fake ones."""

    def shown(value: Any) -> str:
        if isinstance(value, Tensor):
            with without_mode(), printing.printoptions(threshold=0, edgeitems=0):
                return printing.tensor_repr(value)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(shown, value))}]"
        return repr(value)

    given = [*map(shown, args), *(f"{key}={shown(value)}" for key, value in kwargs.items())]
    return f"{fakes.MIXING} Found in {overload}({', '.join(given)})"


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among values, and in their lists, tuples and dicts."""
    for x in values:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from _tensors(x)


# ---------------------------------------------------------------- values that are known


def _known_arguments(args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """Arguments with tensors that have data in the place of fake ones, if the values of all are known."""
    try:
        return _values(args), {key: _values(value) for key, value in kwargs.items()}
    except _Unknown:
        return None


def _hand_on(
    function: FunctionType, own: Callable[..., Any], args: Any, kwargs: Any, known: tuple[Any, Any], result: Tensor
) -> None:
    """Give a result of at most one element its values, as those of all the tensors that it is made of are known."""
    if result._layout.numel > _MOST_KNOWN or "out" in kwargs:
        return
    called = dispatch_modes.overload_of(function, args, kwargs)
    if called is None or any(tag.name == "nondeterministic_seeded" for tag in called[0].tags):
        return
    values, named = known
    with without_mode():
        if args and result is args[0]:  # written to
            values = values[0].clone(), *values[1:]
        fakes.remember(result, own(*values, **named))


class _Unknown(Exception):
    """The values of a tensor aren't known."""


def _values(given: Any) -> Any:
    """An argument with tensors that have data in the place of fake ones."""
    if isinstance(given, Tensor):
        known = fakes.known_value(given)
        if known is None:
            raise _Unknown
        return known
    return given.__class__([_values(x) for x in given]) if given.__class__ in (list, tuple) else given


interception.attend_fakes(answer)
