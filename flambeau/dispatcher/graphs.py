"""The node of a call that is answered below autograd: `run`.

What a handler calls is in no graph; the step is the outer call's. Its node is that of the view, of the declared operator, or of
the `derivatives` of this room, in this order of exactness: a derivative written in PyTorch's operators, else the declared
operator's rule, else the operator's body, run again and recorded. Stands on handlers and builtin; used by overloads and
dispatch_modes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.autograd import engine, inplace
from flambeau.core.autograd.inplace import base_of
from flambeau.core.autograd.node_codegen import WRITTEN
from flambeau.core.modes import interception, modes
from flambeau.core.operator.opdef import Operator
from flambeau.core.operator.pointwise import Pointwise, as_operand, record, signature_of
from flambeau.core.operator.publishing import OPERATORS
from flambeau.core.tensor.storage import empty_without_memory
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.dispatcher import builtin, builtin_schemas, replaced
from flambeau.dispatcher.handlers import answers, each_tensor, hand_over, shallow
from flambeau.dispatcher.schema import FunctionSchema
from flambeau.dispatcher.schema_types import AnyType, ListType, TensorType

__all__ = ["DERIVATIVES", "Reached", "derivative", "is_opened", "run"]

local = modes.local


def run(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer to a call of an overload that a mode or a tensor's class gives, recorded if gradients are wanted."""
    if is_opened(overload):
        raise Reached
    innermost = local.dispatch_modes[-1] if local.dispatch_modes else None
    if innermost is not None and innermost._called is not None:
        return innermost._called(overload, args, kwargs)
    if interception.replaced() and not local.below:
        kernel = replaced.kernel_of(overload, *replaced.ABOVE_AUTOGRAD)
        if kernel is not None:
            return kernel(*args, **kwargs)
    if local.grad and any(x._node is not None for x in each_tensor([*args, *kwargs.values()])):
        step = _step_of(overload)
        if step is not None:
            return step(args, kwargs)
    return hand_over(overload, args, kwargs)


# ---------------------------------------------------------------- derivatives in PyTorch's operators

#: By the operator's name, or that with an overload: a declared operator without implementation, whose rule is written in aten.
DERIVATIVES: dict[str, tuple[Callable[..., Any], str | None, int | None, list[str]]] = {}
#: By rule: the arguments of which it asks nothing but the geometry, and which may be written to until it is run.
GEOMETRY: dict[Callable[..., Any], frozenset[str]] = {}


def derivative(
    *names: str, node: str | None = None, differentiable: int | None = None, geometry: Sequence[str] = ()
) -> Callable[[Callable], Callable]:
    """Declare the derivative of operators by a rule: its parameters name what is saved, arguments by the schema's names, `out`,
    `outs`; `g`, `gs` are gradients, `need` tells which are wanted. node: PyTorch's name of the step; differentiable: how many
    results, from the first, take part in the graph; geometry: arguments of which the rule needs no values.
    """

    def register(rule: Callable) -> Callable:
        GEOMETRY[rule] = frozenset(geometry)
        for name in names or (rule.__name__,):
            DERIVATIVES[name] = rule, node, differentiable, list(signature_of(rule).parameters)
        return rule

    return register


def _as_declared(
    schema: FunctionSchema, rule: Callable[..., Any], names: Sequence[str], node: str | None, differentiable: int | None
) -> Operator:
    """An operator with the schema's arguments that has nothing but a rule."""

    def implementation(*args: Any) -> Any:
        raise NotImplementedError(schema.name)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    implementation.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(a.name, kind, annotation=_annotation(a.type)) for a in schema.arguments if not a.is_out]
    )
    made = Operator(schema.name.rpartition("::")[2], implementation, node)
    made.rule, made.rule_names, made.differentiable = rule, tuple(names), differentiable
    return made


def _annotation(kind: Any) -> str:
    if isinstance(kind, TensorType):
        return "Operand"
    if isinstance(kind, ListType) and isinstance(kind.element, TensorType):
        return "Tensors"
    return "Tensor | None" if str(kind) == "Optional[Tensor]" else "Any"


# ---------------------------------------------------------------- the step of an overload


def _derivative_of(overload: Any) -> Any:
    """The derivative of an overload in PyTorch's operators; None if it has none."""
    if overload._namespace != "aten":
        return _embedding(overload) if overload.is_view and overload.declaration is not None else None
    return DERIVATIVES.get(f"{overload._opname}.{overload._overloadname}") or DERIVATIVES.get(overload._opname)


@functools.cache
def _embedding(overload: Any) -> Any:
    """The derivative of a declared view: the gradient stands in zeros of the input's sizes, where the view shows them."""
    names = [a.name for a in overload._schema.arguments]

    def rule(g: Tensor, **given: Any) -> tuple[Tensor]:
        whole = g.new_zeros(given[names[0]].size())
        overload(whole, *[given[n] for n in names[1:]]).copy_(g)
        return (whole,)

    GEOMETRY[rule] = frozenset(names[:1])
    return rule, overload.declaration.public.kind.__name__, None, ["g", *names]


@functools.cache
def _step_of(overload: Any) -> Callable[[tuple[Any, ...], dict[str, Any]], Any] | None:
    """What answers and records a call; None for an overload without a derivative."""
    if overload._record is not None or (overload._namespace != "aten" and overload.declaration is None):
        return None
    schema = overload._schema
    if any(a.is_out for a in schema.arguments):
        return None
    if (overload._opname in _CONSTANT and overload._namespace == "aten") or not _differs(schema):
        return None
    if overload.is_view:
        return functools.partial(_view, overload, None if _derivative_of(overload) is None else _recorder_of(overload))
    written = [i for i, a in enumerate(schema.arguments) if a.is_write]
    if written == [0] and isinstance(schema.arguments[0].type, TensorType):
        return _in_place_step(overload)
    if written and _derivative_of(overload) is None:
        return None
    recorder = _recorder_of(overload)
    return recorder and functools.partial(_fresh, overload, recorder)


#: Operators whose results don't depend on values, or only by steps.
_CONSTANT = frozenset(
    """detach detach_ lift_fresh empty_like zeros_like ones_like full_like rand_like randn_like
    randint_like new_empty new_empty_strided new_full new_ones new_zeros bernoulli_ uniform_ normal_
    random_ exponential_ geometric_ log_normal_ cauchy_ resize_ set_ _local_scalar_dense requires_grad_""".split()
)


def _differs(schema: FunctionSchema) -> bool:
    """Whether results are tensors, or may be: a declaration needn't say."""
    return any(isinstance(r.type, (TensorType, AnyType)) or "Tensor" in str(r.type) for r in schema.returns)


def _values(schema: FunctionSchema, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments in the order of the schema, with its defaults."""
    named = {a.name: x for a, x in zip(schema.arguments, args)} | kwargs
    return [named.get(a.name, a.default_value) for a in schema.arguments]


def _own(made: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A result that is none of the arguments."""
    given = {id(x) for x in each_tensor([*args, *kwargs.values()])}
    if isinstance(made, (tuple, list)):
        return type(made)([_own(x, args, kwargs) for x in made])
    return shallow(made) if isinstance(made, Tensor) and id(made) in given else made


def _fresh(overload: Any, recorder: Callable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    made = _own(hand_over(overload, args, kwargs), args, kwargs)
    if any(x._layout.dtype.is_floating_point or x._layout.dtype.is_complex for x in each_tensor([made])):
        recorder(_values(overload._schema, args, kwargs), made, None)
    return made


def _view(overload: Any, recorder: Callable | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A view; without a derivative of its own its place in the graph is that of the same view of a tensor without memory that
    stands for the input.
    """
    base = args[0]
    made = _own(hand_over(overload, args, kwargs), args, kwargs)
    if recorder is not None:
        type(recorder(_values(overload._schema, args, kwargs), made, None)).is_view = True
    else:
        _placed_as_stand_in(overload, base, made, args, kwargs)
    several = isinstance(made, (tuple, list))
    for x in each_tensor([made]):
        if base_of(x) is None:
            root = base_of(base)
            x._root = base if root is None else root
        if several and recorder is not None:
            inplace.mark(x, inplace.MULTI_VIEW)
    return made


def _placed_as_stand_in(overload: Any, base: Any, made: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Give views the places in the graph that those of a tensor without memory have."""
    stand_in = tensor_from(empty_without_memory(base._storage.capacity), base._offset, base._layout.in_memory())
    stand_in._node, stand_in._index = base._node, base._index
    stack, local.dispatch_modes[:] = local.dispatch_modes[:], []
    try:
        seen = overload._op(stand_in, *args[1:], **kwargs)
    finally:
        local.dispatch_modes[:] = stack
    for x, y in zip(each_tensor([made]), each_tensor([seen])):
        x._node, x._index = y._node, y._index
        if hasattr(y, "_creation"):
            x._creation = y._creation


def _in_place_step(overload: Any) -> Callable | None:
    from flambeau.dispatcher.namespaces import ops

    name = overload._opname.removesuffix("_")
    wanted = [str(a.real_type) for a in overload._schema.arguments]
    packet = f"{overload._namespace}::{name}"
    alike = [
        o
        for o in builtin_schemas.overloads_of(packet)  # pow_.Scalar is that of pow.Tensor_Scalar
        if [str(a.real_type) for a in builtin_schemas.schema_of(packet, o).arguments] == wanted
    ]
    if not alike:
        return None
    own = overload._overloadname
    fresh = getattr(getattr(getattr(ops, overload._namespace), name), own if own in alike else alike[0])
    if fresh.is_view:
        return functools.partial(_becomes, overload, fresh)
    recorder = _recorder_of(fresh)
    return recorder and functools.partial(_in_place, overload, recorder)


def _in_place(overload: Any, recorder: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A write: the node's first edge is that of the tensor as it was."""
    self = args[0]
    inplace.check(self)
    edge = (self._node, self._index)
    before = None
    if recorder.saves_first:
        local.grad = False
        keep = local.dispatch_modes[-1]._snapshot if local.dispatch_modes else None
        try:
            before = self.clone() if keep is None else keep(self)
        finally:
            local.grad = True
    before = shallow(self) if before is None else before
    made = hand_over(overload, args, kwargs)
    before._node, before._index = edge
    alias = shallow(self)
    alias._index = WRITTEN
    node = recorder([before, *_values(overload._schema, args, kwargs)[1:]], alias, edge)
    del before, alias
    inplace.rebase(self, node)
    return self if made is None or made is self or overload._schema.returns else made


def _becomes(overload: Any, view: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor that becomes a view of itself: it has the view's place in the graph."""
    self = args[0]
    inplace.check_history(self)
    before = shallow(self)
    before._node, before._index = self._node, self._index
    hand_over(overload, args, kwargs)
    if _derivative_of(view) is not None:
        recorder = _recorder_of(view)
        assert recorder is not None
        recorder(_values(view._schema, (before, *args[1:]), kwargs), self, None)
    else:
        _placed_as_stand_in(view, before, self, args, kwargs)
    return self


# ---------------------------------------------------------------- recorders


class _Recorder:
    """recorder(values in the order of the schema, result, edge of a written tensor) -> the node."""

    def __init__(self, declared: Any, bound: Callable[..., list[Any]], first: str, otherwise: Any = None) -> None:
        self.declared, self.bound, self.otherwise = declared, bound, otherwise
        self.saves_first = isinstance(declared, Pointwise) or first in declared.rule_names

    def __call__(self, values: list[Any], result: Any, edge: Any) -> Any:
        declared = self.declared
        try:
            given = self.bound(values)
        except TypeError:  # a form of the public function that the declared operator doesn't have
            if self.otherwise is None:
                raise
            return self.otherwise(values, result, edge)
        shapes = GEOMETRY.get(declared.rule, ()) if isinstance(declared, Operator) else ()
        if shapes:
            given = [_geometry(x) if name in shapes else x for name, x in zip(declared.parameters, given)]
        if isinstance(declared, Pointwise):
            node = _record_pointwise(declared, given, result)
        else:
            node = declared.record(given, tuple(result) if isinstance(result, list) else result)
        if node is not None and node.saved:
            node.saved = tuple([_whole(x, result) for x in node.saved])
        return node


def _geometry(x: Any) -> Any:
    """A tensor without memory that has the geometry and the place in the graph of another one; also of those in a list."""
    if isinstance(x, (list, tuple)):
        return type(x)([_geometry(y) for y in x])
    if not isinstance(x, Tensor) or x._layout.answering is not None:
        return x
    made: Any = tensor_from(empty_without_memory(x._storage.capacity), x._offset, x._layout)
    made.__dict__.update(x.__dict__)
    made._node, made._index = x._node, x._index
    for mode in local.dispatch_modes:
        if mode._stand_for is not None:
            mode._stand_for(made, x)
    return made


def _whole(x: Any, result: Any) -> Any:
    """A saved alias of a result of a class that answers operators, as an instance of that class."""
    if type(x) is Tensor and x._layout.answering is not None:
        for y in each_tensor([result]):
            if y._storage is x._storage and type(y) is not Tensor:
                x = shallow(y)
                break
    elif type(x) is not Tensor or not any(
        y is not x and y._storage is x._storage and y._layout is x._layout for y in each_tensor([result])
    ):
        return x
    return hand_over(_detach(), (x,), {}) if x._index != WRITTEN and answers((x,), {}) else x


@functools.cache
def _detach() -> Any:
    """What a saved result of the step itself is taken out of the graph by, as PyTorch does."""
    from flambeau.dispatcher.namespaces import ops

    return ops.aten.detach.default


def _record_pointwise(declared: Pointwise, given: list[Any], result: Any) -> Any:
    count, numbers = len(declared.operands), len(declared.numbers)
    operands = [as_operand(declared, x, i) for i, x in enumerate(given[:count])]
    if not declared.differentiable:
        return None
    values = tuple([x.item() if isinstance(x, Tensor) else x for x in given[count : count + numbers]])
    written = result._index == WRITTEN
    node = record(declared, result, operands, values, tuple(given[count + numbers :]), operands if written else None)
    result._node = node
    return node


@functools.cache
def _recorder_of(overload: Any) -> _Recorder | None:
    schema, name = overload._schema, overload._opname
    found = _derivative_of(overload)
    first = schema.arguments[0].name
    if found is not None:
        rule, node, count, names = found
        declared = _as_declared(schema, rule, names, node or _node_of(overload), count)
        return _Recorder(declared, list, first)
    for target in builtin.targets(schema, name, overload._overloadname):
        if builtin._passed(schema, target) is None:
            continue
        made: Any = getattr(target, "operator", None)
        differentiable = isinstance(made, Pointwise) or (
            isinstance(made, Operator)
            and not made.composite
            and made.rule is not None
            and not any(p.kind is p.VAR_POSITIONAL for p in made.signature.parameters.values())
        )
        if differentiable:
            bound = _binder(schema, overload, target, made)
            if bound is not None:
                own = made.operands[0] if isinstance(made, Pointwise) else made.parameters[0]
                return _Recorder(made, bound, own, _Recorder(_repeating(overload), list, first))
        if isinstance(made, Operator) and not made.composite and made.rule is None:
            return None
        break  # what answers the overload is no declared operator
    return _Recorder(_repeating(overload), list, first)


def _node_of(overload: Any) -> str | None:
    """The name that the declared operator has for such a step."""
    declared = OPERATORS.get(overload._opname) if overload._namespace == "aten" else overload.declaration
    if isinstance(declared, Operator):
        return declared.node_name
    return None


def _binder(schema: FunctionSchema, overload: Any, target: Callable, declared: Any) -> Callable[[list[Any]], list[Any]] | None:
    """What gives the values of a declared operator's parameters from those of the schema's arguments."""
    passed = builtin._passed(schema, target)
    if passed is None:
        return None
    signature = declared.signature if isinstance(declared, Operator) else signature_of(declared.body)
    names = (
        list(signature.parameters)
        if isinstance(declared, Operator)
        else [*declared.operands, *declared.numbers, *declared.statics]
    )
    collect = builtin.caller_of(schema, overload._opname, overload._overloadname, target, lambda *a, **k: (a, k))
    positional = [a.name for a in schema.arguments if not a.kwarg_only]

    def bound(values: list[Any]) -> list[Any]:
        by_name = {a.name: x for a, x in zip(schema.arguments, values)}
        args, kwargs = collect(*values[: len(positional)], **{n: x for n, x in by_name.items() if n not in positional})
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        return [given.arguments[n] for n in names]

    return bound


def _taken(x: Any, again: bool, taken: list[Any]) -> Any:
    """A value with what asks for its gradients in the place of its tensors; those go to `taken`."""
    if isinstance(x, (list, tuple)):
        return type(x)([_taken(y, again, taken) for y in x])
    if not isinstance(x, Tensor) or not (x._layout.dtype.is_floating_point or x._layout.dtype.is_complex):
        return x
    taken.append(x if again and x._node is not None else x.detach().requires_grad_())
    return taken[-1]


def _repeating(overload: Any) -> Operator:
    """An operator whose rule runs the overload's body again, recording it, and asks the engine."""
    schema = overload._schema
    names = [a.name for a in schema.arguments]

    def rule(**saved: Any) -> Any:
        gs = saved.pop("gs")
        again = local.grad
        values = [saved[n] for n in names]
        taken: list[Any] = []
        given = [_taken(x, again, taken) for x in values]
        before, local.grad = local.grad, True
        try:
            made = opened(overload, given)
            results = list(each_tensor([made]))
            pairs = [(y, g) for y, g in zip(results, gs) if g is not None and y._node is not None]
            found = engine.grad([y for y, _ in pairs], taken, [g for _, g in pairs], create_graph=again, allow_unused=True)
        finally:
            local.grad = before
        answers = iter(found)

        def answer(x: Any) -> Any:
            if isinstance(x, (list, tuple)):
                return [answer(y) for y in x]
            floating = isinstance(x, Tensor) and (x._layout.dtype.is_floating_point or x._layout.dtype.is_complex)
            return next(answers) if floating else None

        return tuple([answer(x) for a, x in zip(schema.arguments, values) if _annotation(a.type) != "Any"])

    return _as_declared(schema, rule, ["gs", *names], _node_of(overload), None)


class Reached(Exception):
    """A lowering came back to the overload whose body was asked for: the public function's own code is that body."""


#: The overloads whose bodies run at the moment, to be recorded again.
_opened: list[Any] = []


def opened(overload: Any, values: Sequence[Any]) -> Any:
    """A call of an overload by the body of its public function: the operators that this is made of are answered themselves."""
    schema = overload._schema
    count = schema.positional
    _opened.append(overload)
    try:
        return overload._op(*values[:count], **{a.name: x for a, x in zip(schema.arguments[count:], values[count:])})
    finally:
        _opened.pop()


def is_opened(overload: Any) -> bool:
    """Whether it is this overload's body that runs."""
    return overload in _opened
