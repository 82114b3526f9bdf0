"""What dual tensors do under operators: tangents by kind of operator.

Views and other linear operators act on the tangent as on the value; products give a sum of products; a pointwise
operator's derived gradient, being elementwise, is its derivative too; for all others the gradient's gradient is.
Stands on dual and pullback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.modes.modes import local
from flambeau.core.operator.facets import CONSTANT, JOINED, LINEAR, RECORDS, TOGETHER, WHOLE, Product
from flambeau.core.operator.pointwise import IDENTITY, ZERO, Pointwise
from flambeau.core.operator.publishing import NAMESPACE, OPERATORS
from flambeau.core.tensor import indexing
from flambeau.core.tensor.tensor import Tensor
from flambeau.transform import dual
from flambeau.transform.double_vjp import by_gradients
from flambeau.transform.dual import DualLevel, levels_of
from flambeau.transform.dual_writes import write
from flambeau.transform.levels import becomes_a_view, each_tensor, has_no_data, invoke, lacks_data, mapped, operator_of


def answer(level: DualLevel, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a call with dual tensors of this level among its arguments."""
    if hasattr(function, "answer_level"):
        return function.answer_level(level, args, kwargs)
    operator = operator_of(function)
    name = getattr(function, "__name__", "")
    if hasattr(function, "kind"):
        return linear(level, function, args, kwargs)
    if name == "detach":
        return invoke(function, (args[0].primal,))
    if name == "requires_grad_":
        invoke(function, (args[0].primal, *args[1:]), kwargs)
        return args[0]
    if name.endswith("_") and not name.startswith("_"):
        return in_place(level, function, args, kwargs)
    if kwargs.get("out") is not None:
        raise NotImplementedError(
            f"Trying to use forward AD with {name}_out that does not support it because it is an out= function"
        )
    if name in _WITHOUT_TANGENTS:
        raise NotImplementedError(
            f"Trying to use forward AD with {name} that does not support it because it has not been implemented yet."
        )
    if isinstance(operator, Pointwise):
        return pointwise(level, function, operator, args, kwargs)
    if name == "__setitem__":
        return setitem(level, *args)
    record = operator if operator is not None else RECORDS.get(name)
    jvp = None if record is None else record.jvp
    if jvp == CONSTANT or name in _OF_THE_VALUE:
        return invoke(function, mapped(level.primal, tuple(args)), mapped(level.primal, kwargs))
    if operator is None and name == "__get__":
        return answer(level, function.__self__.fget, args, kwargs)  # type: ignore[attr-defined]
    if jvp == LINEAR and not (args and not level.has(args[0])):
        return linear(level, function, args, kwargs)
    if name == "as_strided":
        named = dict(zip(("input", "size", "stride", "storage_offset"), args)) | kwargs
        offset = named.get("storage_offset") or 0
        return level.wrap(
            *[x.as_strided(named["size"], named["stride"], x._offset + offset) for x in (args[0].primal, args[0].tangent)]
        )
    if isinstance(jvp, Product):
        return product(level, function, operator, jvp, args, kwargs)
    if jvp == JOINED:
        return joined(level, function, args, kwargs)
    if jvp == TOGETHER:
        return together(level, function, args, kwargs)
    if (operator is None or operator.composite) and jvp != WHOLE:
        body = operator.implementation if operator is not None else getattr(function, "__wrapped__", function)
        try:
            result = body(*args, **kwargs)
        except RuntimeError as error:
            if not has_no_data(error):
                raise
        else:
            if not lacks_data(result):
                return result
    return by_gradients(level, function, args, kwargs)


dual.answering = answer
_WITHOUT_TANGENTS = frozenset(("dequantize",))
# Ways out of a tensor, to what holds no tangent.
_OF_THE_VALUE = frozenset(
    """
    item __float__ __int__ __index__ __complex__ __bool__ is_nonzero equal allclose tolist numpy __array__ data_ptr
    untyped_storage storage __dlpack__ backward register_hook retain_grad""".split()
)


# ---------------------------------------------------------------- kinds


def linear(level: DualLevel, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The same call on the value and on the tangent."""
    rest = mapped(level.primal, tuple(args[1:]))
    named = mapped(level.primal, kwargs)
    primal = invoke(function, (args[0].primal, *rest), named)
    made = paired(level, primal, invoke(function, (args[0].tangent, *rest), named))
    if hasattr(function, "kind"):
        for view in each_tensor((made,)):
            if isinstance(view, dual.Dual):
                view.is_view = True
    return made


def paired(level: DualLevel, primal: Any, tangent: Any) -> Any:
    """Values and tangents of one structure as dual tensors; what can't move has no tangent."""
    if isinstance(primal, Tensor):
        return level.wrap(primal, tangent) if dual.is_tensor(primal) and isinstance(tangent, Tensor) else primal
    if isinstance(primal, (list, tuple)):
        made = [paired(level, p, t) for p, t in zip(primal, tangent, strict=True)]
        return type(primal)(*made) if hasattr(primal, "_fields") else type(primal)(made)
    return primal


def total(parts: Sequence[Any]) -> Any:
    """The sum of the tangents that there are, or None."""
    found = None
    for part in parts:
        if part is not None:
            found = part if found is None else found + part
    return found


def product(
    level: DualLevel, function: Callable, operator: Any, kind: Product, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """d(a b) = da b + a db, with what is added to it."""
    bound = operator.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    named = dict(bound.arguments)
    values = {n: level.primal(x) for n, x in named.items()}
    parameters = operator.signature.parameters

    def call(changed: dict[str, Any]) -> Any:
        given = values | changed
        return invoke(
            function,
            [given[n] for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY],
            {n: given[n] for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY},
        )

    none: dict[str, Any] = {kind.plus: None} if kind.plus and kind.channels else {}
    parts: list[Any] = []
    primal = call({})
    for n in (kind.first, kind.second):
        if level.has(named[n]):
            if kind.plus and not kind.channels:
                factors = values | {n: named[n].tangent}
                parts.append(factors[kind.first].matmul(factors[kind.second].mT))
            else:
                parts.append(call({n: named[n].tangent} | none))
    if kind.plus and level.has(named[kind.plus]):
        bias = named[kind.plus].tangent
        if kind.channels:
            bias = bias.reshape(-1, *(1,) * (primal._layout.ndim - 2))
        parts.append(bias.expand(primal._layout.shape))
    return level.wrap(primal, total(parts))


def joined(level: DualLevel, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """cat and stack."""
    named = dict(zip(("tensors", "dim"), args)) | kwargs
    join, dim, tensors = NAMESPACE[function.__name__], named.get("dim", 0), named["tensors"]
    primals = [level.primal(x) for x in tensors]
    tangents = [level.tangent(x) if level.has(x) else NAMESPACE["zeros_like"](x) for x in tensors]
    return paired(level, join(primals, dim), join(tangents, dim))


def together(level: DualLevel, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A call that is linear in all its tensors together: the same one of their tangents."""

    def tangent(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return dual.lying_as(x.primal, x.tangent) if level.has(x) else NAMESPACE["zeros_like"](x)

    primal = invoke(function, mapped(level.primal, tuple(args)), mapped(level.primal, kwargs))
    return paired(level, primal, invoke(function, mapped(tangent, tuple(args)), mapped(tangent, kwargs)))


def pointwise(level: DualLevel, function: Callable, operator: Pointwise, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The derived gradient of each operand, applied to its tangent instead of to a gradient: elementwise, that is
    the derivative."""
    kwargs = dict(kwargs)
    operands = list(args)
    for name in operator.operands[len(operands) :]:
        if name in kwargs:
            operands.append(kwargs.pop(name))
    values = [level.primal(x) for x in operands]
    named = mapped(level.primal, kwargs)
    out = invoke(function, values, named)
    if not operator.differentiable or not dual.is_tensor(out):
        return out
    if (
        out._layout.dtype.is_complex
        or any(isinstance(x, Tensor) and x._layout.dtype.is_complex for x in values)
        or operator.undefined
    ):
        return by_gradients(level, function, args, kwargs)
    if "numbers" in named:
        numbers, statics = named["numbers"], named["statics"]
    else:
        numbers = tuple([named.get(n, d) for n, d in operator.numbers.items()])
        statics = tuple([named.get(n, d) for n, d in operator.statics.items()])
    numbers = numbers or tuple(operator.numbers.values())
    numbers = tuple([n.item() if isinstance(n, Tensor) else n for n in numbers])
    values = [x if isinstance(x, Tensor) else _number(x) for x in values]
    recipe = operator.recipe(values, numbers, statics, tuple([level.has(x) for x in operands]))
    sources = [*values, *numbers]
    saved = [out if source == -1 else sources[source] for source in recipe.saves]
    parts = []
    for x, gradient in zip(operands, recipe.gradients, strict=True):
        if gradient is None or gradient is ZERO:
            continue
        tangent = x.tangent.to(out._layout.dtype)
        part = tangent if gradient is IDENTITY else gradient(tangent, saved)
        parts.append(part.to(out._layout.dtype))
    tangent = total(parts)
    if tangent is not None and tangent._layout.shape != out._layout.shape:
        tangent = tangent.expand(out._layout.shape)
    return level.wrap(out, NAMESPACE["zeros_like"](out) if tangent is None else tangent)


def _number(x: Any) -> Any:
    kinds: tuple[Any, ...] = (bool, int, float, complex)
    return next((kind(x) for kind in kinds if isinstance(x, kind)), x)


# ---------------------------------------------------------------- writes


def in_place(level: DualLevel, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """name_(self, ...): what it writes is computed out of place."""
    target, name = args[0], function.__name__
    if becomes_a_view(name) and level.has(target):
        made = getattr(target, name[:-1])(*args[1:], **kwargs)
        target.primal, target.tangent, target._layout = made.primal, made.tangent, made._layout
        return target
    if name == "copy_":
        source = args[1]
        return write(level, target, level.primal(source), level.tangent(source))
    record = RECORDS.get(name)
    if record is not None and record.jvp == CONSTANT:  # but for the number that fill_ is given
        invoke(function, (level.primal(target), *mapped(level.primal, tuple(args[1:]))), mapped(level.primal, kwargs))
        moved = level.tangent(args[1]) if name == "fill_" and len(args) > 1 else None
        return write(level, target, None, moved)
    given = args
    if local.grad and any(x.requires_grad for x in each_tensor(args)):
        given = (target.clone(), *args[1:])  # the graph may save what is about to be overwritten
    public = NAMESPACE.get(name[:-1]) or getattr(Tensor, name[:-1], None) or OPERATORS[name[:-1]].public
    made = invoke(public, given, kwargs)
    primal = level.primal(made)
    if not levels_of(primal) <= levels_of(level.primal(target)):  # by_gradients: the value is the same for all examples
        invoke(function, mapped(level.primal, tuple(args)), mapped(level.primal, kwargs))
        primal = None
    return write(level, target, primal, level.tangent(made))


def setitem(level: DualLevel, target: Any, index: Any, value: Any) -> None:
    """x[index] = value."""
    view, tensors = indexing.resolve(target, index)
    if not isinstance(value, Tensor):
        value = indexing.create.make_tensor(value, target._layout.dtype)
    if tensors:
        given = (view, tuple(tensors), value.to(view._layout.dtype))
        in_place(level, Tensor.index_put_, given, {})  # type: ignore[attr-defined]
        return
    value = indexing.fitted(view, value)
    write(level, view, level.primal(value), level.tangent(value))
