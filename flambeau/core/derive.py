"""Generated variants: from a declaration to plain Python functions, methods, operators and in-place forms.

The source of each variant is straight-line Python, registered with linecache so that a debugger steps through it. The fast path
looks the plan up by layouts and launches it; anything unusual (other numbers, `out=`, special modes, subclasses, NumPy scalars)
goes to `general`. Stands on core.op; the decorators here are what flambeau.ops declares with.
"""

from __future__ import annotations

import hashlib
import inspect
import linecache
import marshal
from typing import Any, Callable

import numpy as np

from flambeau.base import geometry
from flambeau.codegen import cache
from flambeau.core import inplace as rewiring
from flambeau.core import modes, overrides
from flambeau.core.op import NUMBERS, Pointwise, as_operand, needs_graph, record
from flambeau.core.tensor import Tensor
from flambeau.core.variants import copy_into, resize_out

NAMESPACE: dict[str, Callable] = {}     # public functions by name: what `import flambeau` offers
OPERATORS: dict[str, Any] = {}          # declarations by name


def compile_source(filename: str, source: str, namespace: dict[str, Any]) -> None:
    """Run generated source; it can be read and stepped through under `filename`. Bytecode is kept in the disk cache."""
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    key = "code-" + hashlib.sha256((filename + source).encode()).hexdigest()[:32] + ".bin"
    stored = _code.get(key)
    if stored is None:
        stored = compile(source, filename, "exec")
        _code.put(key, stored)
    exec(stored, namespace)


class _CodeCache:
    """Bytecode of generated functions, one cache file for all of them, written when something was missing."""

    def __init__(self) -> None:
        import sys
        self.name = f"derived-{sys.hexversion:x}.bin"
        payload = cache.read_bytes(self.name)
        self.codes: dict[str, Any] = marshal.loads(payload) if payload else {}
        self.used: dict[str, Any] = {}
        self.changed = False

    def get(self, key: str) -> Any:
        found = self.codes.get(key)
        if found is not None:
            self.used[key] = found
        return found

    def put(self, key: str, code: Any) -> None:
        self.used[key] = self.codes[key] = code
        self.changed = True

    def save(self) -> None:
        if self.changed:
            cache.write_bytes(self.name, marshal.dumps(self.used))
            self.changed = False


_code = _CodeCache()
save_code = _code.save


# ---------------------------------------------------------------- pointwise


def general(operator: Pointwise, public: Callable, operands: list[Any], numbers: tuple, statics: tuple,
            out: Tensor | None = None) -> Any:
    """A pointwise call in full: subclasses, modes, NumPy scalars, `out=`, the graph."""
    if overrides.any_override(operands):
        keywords = dict(zip([*operator.numbers, *operator.statics], [*numbers, *statics]))
        defaults = {**operator.numbers, **operator.statics}
        keywords = {k: v for k, v in keywords.items() if v is not defaults[k] and v != defaults[k]}
        if out is not None:
            keywords["out"] = out
        return overrides.dispatch(public, operands, keywords)
    if modes.active.count and modes.local.modes:
        return modes.dispatch(operator, lambda *a: general(operator, public, list(a), numbers, statics, out), tuple(operands), {})
    operands = [as_operand(x, operator.name, n) for x, n in zip(operands, operator.operands)]
    numbers = tuple([x.item() if isinstance(x, (np.generic, Tensor)) else x for x in numbers])
    if not any(isinstance(x, Tensor) for x in operands):
        raise TypeError(f"{operator.name}(): argument '{operator.operands[0]}' (position 1) must be Tensor, "
                        f"not {type(operands[0]).__name__}")
    recording = operator.differentiable and needs_graph(operands)
    if out is not None:
        if recording or out._node is not None and modes.local.grad:
            raise RuntimeError(f"{operator.name}(): functions with out=... arguments don't support automatic differentiation, "
                               "but one of the arguments requires grad.")
        shape = geometry.broadcast(*[x._layout.shape for x in operands if isinstance(x, Tensor)])
        resize_out(out, shape)
        if overlapping(out, operands):
            return copy_into(out, operator.compute(operands, numbers, statics))
        return operator.compute(operands, numbers, statics, out)
    result = operator.compute(operands, numbers, statics)
    if recording and (result._layout.dtype.is_floating_point or result._layout.dtype.is_complex):
        result._node = record(operator, result, operands, numbers, statics)
    return result


def overlapping(out: Tensor, operands: list[Any]) -> bool:
    """Whether writing `out` while reading an operand would read what was written."""
    for x in operands:
        if x.__class__ not in NUMBERS and x._storage is out._storage and not (
                x._layout.strides == out._layout.strides and x._offset == out._offset and x._layout.shape == out._layout.shape
                and x._layout.dtype is out._layout.dtype):
            return True
    return False


def inplace(operator: Pointwise, public: Callable, operands: list[Any], numbers: tuple, statics: tuple) -> Tensor:
    """A pointwise call that writes its result into its first operand."""
    target = operands[0]
    if overrides.any_override(operands):
        return overrides.dispatch(public, [target, *operands[1:], *numbers, *statics], {})
    operands = [as_operand(x, operator.name + "_", n) for x, n in zip(operands, operator.operands)]
    numbers = tuple([x.item() if isinstance(x, (np.generic, Tensor)) else x for x in numbers])
    recording = needs_graph(operands)
    if recording:
        rewiring.check(target)
    originals = None
    if recording:
        needed = tuple([x.__class__ not in NUMBERS and x._node is not None for x in operands])
        if 0 in operator.recipe(operands, statics, needed).saves:
            originals = [target.detach().clone(), *operands[1:]]
    if overlapping(target, operands[1:]):
        if geometry.has_overlap((target._layout.shape, target._layout.strides, target._offset),
                                next((x._layout.shape, x._layout.strides, x._offset) for x in operands[1:]
                                     if x.__class__ not in NUMBERS and x._storage is target._storage)):
            raise RuntimeError(geometry.OVERLAPS_INPUT)
        fresh = [x if x.__class__ in NUMBERS or x._storage is not target._storage else x.detach().clone() for x in operands[1:]]
        operator.compute([target, *fresh], numbers, statics, target)
    else:
        operator.compute(operands, numbers, statics, target)
    if recording:
        rewiring.rebase(target, record(operator, target, operands, numbers, statics, originals))
    return target


_FUNCTION = '''
def {name}({signature}):
    """{doc}"""
    try:
        launch = plans[{key}]
    except (KeyError, AttributeError, TypeError):
        launch = None
    if launch is None or active.count{unusual}:
        return learn({operands}, ({numbers}), ({statics}), out)
    if {plain}:
        return launch(None, {operands}{trailing})
    return traced(launch, ({operands},), ({numbers}))
'''

_OPERATOR = '''
def {name}({signature}):
    """{doc}"""
    try:
        launch = plans[{key}]
    except (KeyError, AttributeError, TypeError):
        launch = None
    if launch is None or active.count:
        return learn_operator({operands})
    if {plain}:
        return launch(None, {operands}{trailing})
    return traced(launch, ({operands},), ({numbers}))
'''

_INPLACE = '''
def {name}({signature}):
    """In-place version of {public}()."""
    return inplace(operator, {name}, [{operands}], ({numbers}), ({statics}))
'''

_FAST_INPLACE = '''
def {name}({signature}):
    """In-place version of {public}()."""
    try:
        launch = inplace_plans[{key}]
    except (KeyError, AttributeError, TypeError):
        launch = None
    if launch is None or active.count{unusual} or not ({plain}) or {shared}:
        return learn_inplace({operands}, ({numbers}), ({statics}))
    return launch({first}, {operands}{trailing})
'''


def _key_part(name: str, first: bool) -> str:
    return f"{name}._layout" if first else f"{name}.__class__ if {name}.__class__ in NUMBERS else {name}._layout"


def _tuple(names) -> str:
    return "".join(f"{n}, " for n in names)


def generate(operator: Pointwise, doc: str, public: str, method: bool, inplace_too: bool, dunder: str | None) -> Callable:
    """Make and register the variants of a pointwise operator; returns the function."""
    operands, numbers, statics = operator.operands, list(operator.numbers), list(operator.statics)
    defaults = {**operator.numbers, **operator.statics}
    signature = inspect.signature(operator.body)
    parts, star = [], False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        parts.append(name if parameter.default is parameter.empty else f"{name}={parameter.default!r}")
    with_out = [*parts, *([] if star else ["*"]), "out=None"]
    key = ", ".join(_key_part(n, i == 0) for i, n in enumerate(operands)) + ("," if len(operands) == 1 else "")
    plain = " and ".join(f"{n}._node is None" if i == 0 else f"({n}.__class__ in NUMBERS or {n}._node is None)"
                         for i, n in enumerate(operands))
    usual = "".join(f" or {n} != {defaults[n]!r}" if n in operator.numbers else f" or {n} is not {defaults[n]!r}"
                    for n in [*numbers, *statics])
    shared = " or ".join([f"({n}.__class__ not in NUMBERS and {n}._storage is {operands[0]}._storage)" for n in operands[1:]]) \
        or "False"
    fields = dict(operands=", ".join(operands), numbers=_tuple(numbers), statics=_tuple(statics), plain=plain, key=key,
                  public=public, doc=doc.replace('"""', "'''"), first=operands[0], shared=shared)
    scope: dict[str, Any] = {"NUMBERS": NUMBERS, "plans": operator.plans, "active": modes.active, "operator": operator,
                             "inplace": inplace, "inplace_plans": {}}
    source = _FUNCTION.format(name=public, signature=", ".join(with_out), unusual=" or out is not None" + usual,
                              trailing="".join(f", {n}" for n in numbers), **fields)
    if dunder:
        constant = {**fields, "numbers": "".join(f"{defaults[n]!r}, " for n in numbers)}
        source += _OPERATOR.format(name=dunder, signature=", ".join(operands), **constant,
                                   trailing="".join(f", {defaults[n]!r}" for n in numbers))
    if inplace_too:
        source += _FAST_INPLACE.format(name=public + "_", signature=", ".join(parts), unusual=usual,
                                       trailing="".join(f", {n}" for n in numbers), **fields)
    default_numbers, default_statics = tuple(operator.numbers.values()), tuple(operator.statics.values())

    def remember(given: tuple, out: Any) -> None:
        """Put the plan of a usual call where the generated functions look."""
        if out is None and all(x.__class__ in NUMBERS or isinstance(x, Tensor) for x in given) and \
                given[0].__class__ not in NUMBERS and not overrides.any_override(given):
            layouts = tuple([x.__class__ if x.__class__ in NUMBERS else x._layout for x in given])
            long_key = (*layouts, *[v.__class__ for v in default_numbers], *default_statics, None)
            launch = operator.other_plans.get(long_key)
            order = [x.__class__ in NUMBERS for x in given]
            if launch is not None and order == sorted(order):
                operator.plans[layouts] = launch

    def learn(*arguments: Any) -> Any:
        *given, numbers_given, statics_given, out = arguments
        result = general(operator, scope[public], given, numbers_given, statics_given, out)
        if numbers_given == default_numbers and statics_given == default_statics:
            remember(tuple(given), out)
        return result

    def learn_operator(*given: Any) -> Any:
        for x in given[1:]:
            if x.__class__ not in NUMBERS and not isinstance(x, (Tensor, np.generic, int, float, complex)):
                return NotImplemented
        return learn(*given, default_numbers, default_statics, None)

    def learn_inplace(*arguments: Any) -> Tensor:
        *given, numbers_given, statics_given = arguments
        result = inplace(operator, scope[public + "_"], given, numbers_given, statics_given)
        if numbers_given == default_numbers and statics_given == default_statics and not overrides.any_override(given):
            layouts = tuple([x.__class__ if x.__class__ in NUMBERS else getattr(x, "_layout", None) for x in given])
            launch = operator.other_plans.get((*layouts, *[v.__class__ for v in default_numbers], *default_statics, layouts[0]))
            if launch is not None:
                scope["inplace_plans"][layouts] = launch
        return result

    def traced(launch: Callable, given: tuple, numbers_given: tuple) -> Tensor:
        out = launch(None, *given, *numbers_given)
        if modes.local.grad and operator.differentiable and (
                out._layout.dtype.is_floating_point or out._layout.dtype.is_complex):
            out._node = record(operator, out, given, numbers_given, default_statics)
        return out
    scope.update(learn=learn, learn_operator=learn_operator, learn_inplace=learn_inplace, traced=traced)
    compile_source(f"<flambeau {public}>", source, scope)
    function = scope[public]
    function.__module__ = "flambeau"
    function.operator = operator
    NAMESPACE[public] = function
    OPERATORS[public] = operator
    if method:
        setattr(Tensor, public, function)
    if dunder:
        setattr(Tensor, dunder, scope[dunder])
    if inplace_too:
        setattr(Tensor, public + "_", scope[public + "_"])
        NAMESPACE[public + "_"] = scope[public + "_"]
        if dunder and dunder not in ("__neg__", "__abs__", "__invert__", "__pos__") and operator.kind != "bool":
            setattr(Tensor, "__i" + dunder[2:], scope[public + "_"])
    return function


def pointwise(kind: Any = "promote", operator: str | None = None, method: bool = True, inplace: bool = True,
              undecided: tuple[str, ...] = (), check: Callable | None = None, node: str | None = None, name: str | None = None,
              differentiable: bool = True) -> Callable[[Callable], Callable]:
    """Declare a pointwise operator by its scalar body.

    The body's parameters annotated `Tensor` or `Operand` are tensors (the latter also numbers), `Number` are run-time numbers with
    a default, all others are static. kind: how dtypes promote (see core.op); operator: the Python operator's method; undecided:
    operands that do not take part in promotion; node: the name of its node if it is not the operator's.
    """
    def declare(body: Callable) -> Callable:
        public = name or body.__name__
        operands, numbers, statics = [], {}, {}
        for parameter in inspect.signature(body).parameters.values():
            annotation = str(parameter.annotation)
            if annotation in ("Tensor", "Operand"):
                operands.append(parameter.name)
            elif annotation == "Number":
                numbers[parameter.name] = parameter.default
            else:
                statics[parameter.name] = parameter.default
        declared = Pointwise(public, body, operands, numbers, statics, kind, undecided, check, node, differentiable)
        function = generate(declared, inspect.getdoc(body) or "", public, method, inplace, operator)

        def vjp(rule: Callable) -> Callable:
            declared.rule = rule
            return rule
        function.vjp = vjp
        return function
    return declare
