"""How a program wrote a call: as an operator, a function or a method, and the variables that the result goes to.

Read from the instruction that calls and the one behind it. Stands on segment; used by graphs.
"""

from __future__ import annotations

import ast
import bisect
import dis
import functools
import linecache
import operator
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

import flambeau as torch
from flambeau._dynamo.segments.segment import Place
from flambeau.core.modes import interception
from flambeau.core.operator import publishing, view
from flambeau.dispatcher.overloads import OperatorBase

__all__ = ["INPLACE", "of_package", "spelled", "stored_names"]

_SYMBOLS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul", "&": "and_",
    "|": "or_", "^": "xor", "<<": "lshift", ">>": "rshift", "<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge",
}  # fmt: skip
_COMPARISONS = frozenset(("<", "<=", "==", "!=", ">", ">="))
_INPLACE = {f"{symbol}=": f"i{name.strip('_')}" for symbol, name in _SYMBOLS.items() if symbol not in _COMPARISONS}
INPLACE = frozenset([getattr(operator, name) for name in _INPLACE.values()])
_UNARY: dict[str, Callable[..., Any]] = {
    "UNARY_NEGATIVE": operator.neg,
    "UNARY_INVERT": operator.invert,
    "UNARY_POSITIVE": operator.pos,
}


class Step:
    """An instruction, and the one behind it."""

    def __init__(self, name: str, shown: str, then: Sequence[Any]) -> None:
        self.name, self.shown, self.then = name, shown, then


@functools.lru_cache(4096)
def _step(code: CodeType, at: int) -> Step | None:
    found = list(dis.get_instructions(code))
    i = bisect.bisect_right([x.offset for x in found], at) - 1  # inside a call it may stand in the room behind the instruction
    return Step(found[i].opname, found[i].argrepr, found[i + 1 : i + 12]) if i >= 0 else None


def of_package(place: Place) -> bool:
    """Whether a frame runs code of the package."""
    return str(place.scope.get("__name__", "")).partition(".")[0] == torch.__name__


def spelled(
    function: Callable[..., Any], places: Sequence[Place], args: tuple[Any, ...]
) -> tuple[str, Callable[..., Any] | str, tuple[Any, ...]]:
    """(kind, target, args) of a node for function(*args), as it is written at the innermost place."""
    if isinstance(function, OperatorBase):
        return "call_function", function, args
    step = _step(places[0].code, places[0].instruction) if places else None
    name = function.__name__
    read = _step(places[1].code, places[1].instruction) if len(places) > 1 and of_package(places[0]) else None
    if read is not None and read.name == "LOAD_ATTR" and read.shown in ("T", "mT"):  # properties that call a function
        return "call_function", getattr, (args[0], read.shown)
    if step is not None:
        target = _operator(step)
        if target is not None:
            reflected = name.startswith("__r") and name != "__rshift__"
            return "call_function", target, args[::-1] if reflected else args
    dunder = getattr(operator, name, None) if name.startswith("__") else None
    if dunder is not None:
        return "call_function", getattr(operator, name.strip("_"), dunder), args
    called = interception._called(function, args) if args and isinstance(function, FunctionType) else function
    tensor_first = bool(args) and isinstance(args[0], torch.fx.Node)
    member = vars(torch.Tensor).get(name)
    if tensor_first and isinstance(member, property):
        return "call_function", getattr, (args[0], name)
    method = tensor_first and member is not None
    if method and places:
        method = _is_method(places[0], name)
    if isinstance(called, interception.TensorMethod) or method:
        return "call_method", getattr(called, "__name__", name), args
    return "call_function", publishing.NAMESPACE.get(name, function) if function in view.DECLARED else function, args


def _operator(step: Step) -> Callable[..., Any] | None:
    if step.name == "BINARY_OP":
        name = _SYMBOLS.get(step.shown) or _INPLACE.get(step.shown)
        return getattr(operator, name) if name else (operator.getitem if step.shown == "[]" else None)
    if step.name == "COMPARE_OP":
        return getattr(operator, _SYMBOLS[step.shown], None) if step.shown in _SYMBOLS else None
    if step.name in ("BINARY_SUBSCR", "BINARY_SLICE"):
        return operator.getitem
    if step.name in ("STORE_SUBSCR", "STORE_SLICE"):
        return operator.setitem
    return _UNARY.get(step.name)


def _is_method(place: Place, name: str) -> bool:
    """Whether a call is `value.name(...)`, and no `module.name(...)` or `name(...)`, by its source."""
    text = _text(place)
    try:
        tree = ast.parse(text.strip(), mode="eval").body if text else None
    except SyntaxError:
        tree = None
    if not isinstance(tree, ast.Call):
        return True
    function = tree.func
    if isinstance(function, ast.Name):
        return False
    root: ast.expr = function
    path = []
    while isinstance(root, ast.Attribute):
        path.append(root.attr)
        root = root.value
    if not isinstance(root, ast.Name) or root.id in place.code.co_varnames:
        return True
    return not isinstance(place.scope.get(root.id), ModuleType)


def _text(place: Place) -> str | None:
    positions = next((p for i, p in enumerate(place.code.co_positions()) if i == place.instruction // 2), None)
    if positions is None or None in positions:
        return None
    first, last, start, end = positions
    assert first is not None and last is not None
    lines = [linecache.getline(place.code.co_filename, n) for n in range(first, last + 1)]
    encoded = [line.encode() for line in lines]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    return b"".join(encoded).decode(errors="replace")


def stored_names(places: Sequence[Place]) -> str | tuple[str | None, ...] | None:
    """The variable that the result of a call goes to, through functions that return it; several where it is unpacked."""
    for place in places:
        step = _step(place.code, place.instruction)
        then = list(step.then) if step is not None else []
        if not then:
            return None
        if then[0].opname == "RETURN_VALUE":
            continue
        if of_package(place) and place.scope["__name__"] != torch.nn.Sequential.__module__:
            return None
        if then[0].opname == "UNPACK_SEQUENCE":
            count = then[0].arg
            return tuple([name for x in then[1 : 1 + count] for name in _variables(x)][:count])
        return _variables(then[0])[0]
    return None


def _variables(instruction: Any) -> Sequence[str | None]:
    """The variables that an instruction stores to, one or, since Python 3.13, two; a None for what is none."""
    if not instruction.opname.startswith(("STORE_FAST", "STORE_NAME", "STORE_DEREF", "STORE_GLOBAL")):
        return (None,)
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    return names if instruction.opname == "STORE_FAST_STORE_FAST" else names[:1]
