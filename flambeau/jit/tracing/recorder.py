"""The mode of a trace: every public call is answered here, recorded as the operator that PyTorch's tracer records, and run.

Stands on the tables that say which operator of aten a public call is (export._operators, `rules`), and on state; used by running.
While it answers a call the mode is off, so that what the operators do inside is not seen.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any, NamedTuple

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.modes import interception, modes
from flambeau.core.operator.arguments import caller_of_public
from flambeau.core.operator.methods import METHODS as SAME
from flambeau.dispatcher import builtin_schemas, calling, dispatch_modes, public_names
from flambeau.dispatcher.aten import composites
from flambeau.dispatcher.dispatch_modes import as_public
from flambeau.dispatcher.overloads import OpOverload
from flambeau.dispatcher.schema import Argument, FunctionSchema
from flambeau.dispatcher.schema_types import (
    FloatType,
    IntType,
    ListType,
    NumberType,
    OptionalType,
    TensorType,
    TracedNumber,
    Type,
)
from flambeau.export._functional import RULES as FUNCTIONAL
from flambeau.export._operators import BODY, FUNCTIONS, METHODS
from flambeau.jit.ir.shaped import shaped
from flambeau.jit.ir.values import Value
from flambeau.jit.tracing import rules
from flambeau.jit.tracing.sizes import size_of
from flambeau.jit.tracing.state import Place, TracingState
from flambeau.jit.tracing.warnings import warn

__all__ = ["Recorder"]

_aten = torch.ops.aten
_TENSOR = TensorType()
#: Functions of torch.nn.functional that are no Python in PyTorch, so that none of their arguments' names is known there.
_NATIVE = frozenset(
    """adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d conv2d conv3d
    conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity elu_ gelu hardshrink hardtanh_ leaky_relu_
    linear logsigmoid native_channel_shuffle one_hot pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_
    scaled_dot_product_attention selu_ softplus softshrink threshold_""".split()
)
#: Methods of Tensor, and functions of torch, that are Python in PyTorch.
_PYTHON = frozenset("norm stft istft unique unique_consecutive cdist tensordot".split())
#: Of these the first parameter is `self`, which names nothing.
_PYTHON_METHODS = frozenset(
    """__floordiv__ __pow__ __rfloordiv__ __rmatmul__ __rmod__ __rpow__ __rsub__ __rtruediv__ split
    unflatten __contains__ __iter__ __len__""".split()
)
#: What a call that gives no tensor is, in the words of a warning.
_LEAVING = {
    "__bool__": "Converting a tensor to a Python boolean", "__int__": "Converting a tensor to a Python integer",
    "__float__": "Converting a tensor to a Python float",
    "__complex__": "Converting a tensor to a Python complex", "item": "Converting a tensor to a Python number",
    "tolist": "Converting a tensor to a Python list",
}  # fmt: skip


#: Operators of which PyTorch's tracer records what they are made of.
_OPENED = frozenset("lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell".split())


class _Opened(NamedTuple):
    """A call in whose place its body runs."""

    body: Callable[..., Any]
    overload: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Recorder(dispatch_modes.DispatchMode):
    """Writes what is called into the graph of a state while it is on."""

    def __init__(self, state: TracingState) -> None:
        self.state = state
        self.frame: FrameType | None = None
        state.where, state.names = self._place, self._name
        self._named: dict[str, Any] | None = None

    def __enter__(self) -> Any:
        self._before, modes.local.of_data = modes.local.of_data, self.state.of_data
        modes.told_of_data.enter()
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        modes.told_of_data.leave()
        modes.local.of_data = self._before

    # ---- where the program is

    def _place(self) -> Place | None:
        return None if self.frame is None else Place(self.frame.f_code.co_filename, self.frame.f_lineno)

    def _name(self, tensor: Any) -> str:
        """What the program calls a tensor where it calls the function that is recorded."""
        found = self._named
        if found is None:
            if self.frame is None:
                return ""
            found = self.frame.f_locals
        for name, value in found.items():
            if value is tensor:
                return "" if name == "self" else name
        return ""

    # ---- calls

    def _before_composites(self, function: FunctionType, own: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """What a call of a public function gives."""
        before = self.frame, self._named
        self._named = None
        self.frame = _caller()
        if function.__name__ in _PYTHON_METHODS:
            self._named = {"self": args[0], "other": args[1]} if len(args) == 2 else {}
        elif _is_python(function):
            self._named = _arguments_of(function, args, kwargs)
        with _Without():
            try:
                made = self._answer(function, args, kwargs)
            finally:
                self.frame, self._named = before
        if isinstance(made, _Opened):  # what it calls is recorded in its place
            return as_public(made.overload.overloadpacket.__name__, made.body(*made.args, **made.kwargs))
        return own(*args, **kwargs) if made is NotImplemented else made

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = self.frame
        self.frame = self.frame or _caller()
        try:
            return self.record(func, args, kwargs or {})
        finally:
            self.frame = before

    def _answer(self, function: FunctionType, args: Any, kwargs: dict[str, Any]) -> Any:
        name = function.__name__
        if name in _LEAVING and _is_method(function):
            warn(_LEAVING[name])
            if name == "tolist":
                args = (self.op("resolve_neg", self.op("resolve_conj", args[0])), *args[1:])
            return function(*args, **kwargs)
        if kwargs.get("out") is not None:
            raise RuntimeError(
                f"Can't trace {name} with out=: PyTorch's tracer records no such call faithfully; use the result instead"
            )
        for rule in _rules_of(function):
            made = rule(self.op, *args, **kwargs)
            if made is not NotImplemented:
                return made
        operator = _operator_of(function)
        found = self.resolve(operator, args, kwargs) if operator else None
        if found is None:
            declared = getattr(function, "operator", None)
            if declared is not None and not getattr(declared, "composite", False) and _takes_tensors(args, kwargs):
                raise NotImplementedError(
                    f"torch.jit.trace: {name} with these arguments is not implemented in flambeau as an operator of a graph; "
                    "write it by other operators"
                )
            return NotImplemented
        body = composites.body_of(found[0]) if operator in _OPENED else None
        if body is not None:
            return _Opened(body, *found)
        if not _belongs_into_graphs(found[0]):
            return function(*args, **kwargs)
        made = self.record(*found)
        if kwargs.get("requires_grad"):
            made.requires_grad_()
        return dispatch_modes.as_public(operator, made)

    def op(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Record an operator by its name, or that with an overload."""
        if name == "_assert_tensor_metadata":  # torch.export's
            return None
        if name in rules.CUDNN:
            args = (*args[:-1], True)
        packet, _, overload_name = name.partition(".")
        if overload_name:
            overload = getattr(getattr(_aten, packet), overload_name)
            args, kwargs = _numbered(overload._schema, args, kwargs)
            return self.record(overload, args, kwargs)
        found = self.resolve(name, args, kwargs)
        if found is None:
            raise NotImplementedError(
                f"torch.jit.trace: {name} with these arguments is not implemented in flambeau as an operator of a graph; write "
                "it by other operators"
            )
        return self.record(*found)

    def resolve(self, name: str, args: Any, kwargs: dict[str, Any]) -> tuple[OpOverload, Any, dict[str, Any]] | None:
        """The overload of a call and its arguments, in which tensors that stand for sizes are numbers."""
        return dispatch_modes.resolve(name, args, kwargs, _numbered)

    def property(self, name: str, operator: str | None, x: Any) -> Any:
        """What a property of a tensor gives: its sizes, or what an operator makes."""
        before = self.frame, self._named
        self.frame, self._named = sys._getframe(2), None
        with _Without():
            try:
                if operator is None:
                    return size_of(x, None)
                if operator in ("real", "imag") and not x.is_complex():
                    return getattr(x, name)
                return self.op(operator, x)
            finally:
                self.frame, self._named = before

    # ---- recording

    def record(self, overload: OpOverload, args: Any, kwargs: dict[str, Any], requires_grad: bool | None = None) -> Any:
        """The results of an operator, and its node."""
        schema = overload._schema
        packet = overload.overloadpacket
        numbers = schema.name.startswith("aten::") and packet.takes_numbers
        values = calling.bind(schema, args, kwargs, numbers=numbers)
        if _makes_fresh(schema):
            values = [False if a.name == "pin_memory" and x is None else x for a, x in zip(schema.arguments, values)]
        if overload is _aten.lift_fresh.default:
            self.state.of_data(values[0])
        plain = _plain(values)
        called = calling.split(schema, plain)
        name = schema.name.partition("::")[2]
        convolved = rules.convolution(name, plain)
        if convolved is not None:
            (name, values), requires_grad = convolved, False
            schema = getattr(_aten, name).default._schema
        namespace = schema.name.partition("::")[0]
        inputs = [self._input(a, v) for a, v in zip(schema.arguments, values) if not a.is_out]
        node = self.state.node(f"{namespace}::{name}", inputs, schema, 0)
        made = overload(*called[0], **called[1])
        results = made if len(schema.returns) > 1 else (made,)
        for result in results:
            self._give(node, result, requires_grad)
        return made

    def _give(self, node: Any, result: Any, requires_grad: bool | None) -> None:
        value = node.addOutput()
        if isinstance(result, torch.Tensor):
            value.setType(shaped(result, requires_grad))
            self.state.set(result, value)
        elif isinstance(result, (list, tuple)) and all(isinstance(x, torch.Tensor) for x in result):
            value.setType(ListType(_TENSOR))
            parts = self.state.graph.create("prim::ListUnpack", [value], len(result))
            self.state.graph.insertNode(parts)
            for x, part in zip(result, parts.outputs()):
                part.setType(shaped(x, requires_grad))
                self.state.set(x, part)

    def _input(self, argument: Argument, x: Any) -> Value:
        """The value of an argument."""
        kind = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
        state = self.state
        if isinstance(x, TracedNumber):
            if isinstance(kind, NumberType):
                return state.number(x, "aten::ScalarImplicit", "default", NumberType())
            if isinstance(kind, FloatType):
                return state.number(x, "aten::Float", "Tensor", FloatType())
            return state.number(x)
        if isinstance(kind, ListType) and isinstance(x, (list, tuple)):
            values = [self._item(kind.element, item) for item in x]
            return state.list_of(values, _element(kind.element))
        return self._item(kind, x)

    def _item(self, kind: Type, x: Any) -> Value:
        if isinstance(x, (bool, int, float, complex)) and isinstance(kind, TensorType):
            return self.state.tensor_constant(torch.tensor(x, dtype=rules.dtype_of_number(x)))
        if type(kind).__name__ == "FloatType" and not isinstance(x, TracedNumber) and x is not None:
            return self.state.constant(float(x))
        return self.state.value(x)


def _element(kind: Type) -> Type:
    """The type of the items of a list, as graphs have it."""
    if isinstance(kind, OptionalType):
        return OptionalType(_element(kind.element))
    return IntType() if isinstance(kind, IntType) else kind


def _makes_fresh(schema: FunctionSchema) -> bool:
    """Whether it is a factory, whose callers always say that memory isn't pinned."""
    return {"pin_memory", "device", "layout"} <= {a.name for a in schema.arguments} and schema.name != "aten::to"


class _Without:
    """Context: what is called belongs to the modes outside of the recorder."""

    def __enter__(self) -> None:
        self.mode = modes.local.dispatch_modes.pop()

    def __exit__(self, *exception: object) -> None:
        modes.local.dispatch_modes.append(self.mode)


def _caller() -> FrameType | None:
    """The frame that called the public function."""
    return caller_of_public(sys._getframe(2))


def _plain(values: Any) -> Any:
    """The arguments with plain numbers for those that tensors stand for."""
    if isinstance(values, TracedNumber):
        return int(values)
    if isinstance(values, (list, tuple)):
        return type(values)(_plain(x) for x in values) if not hasattr(values, "_fields") else values
    return values


# ---------------------------------------------------------------- numbers that tensors stand for


def _numbered(schema: FunctionSchema, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The arguments with numbers for tensors, where the schema has integers."""
    given = list(args)
    for at, argument in enumerate(schema.arguments[: schema.positional]):
        if at >= len(given):
            break
        kind = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
        if isinstance(kind, ListType) and _is_integer(kind.element) and _alone(given[at]) and kind.count is None:
            given[at:] = [_number(x) for x in given[at:]]
            break
        given[at] = _as_number(kind, given[at])
    kinds = {a.name: a.type.element if isinstance(a.type, OptionalType) else a.type for a in schema.arguments}
    named = {name: _as_number(kinds[name], x) if name in kinds else x for name, x in kwargs.items()}
    return tuple(given), named


def _is_integer(kind: Type) -> bool:
    return isinstance(kind, IntType)


def _alone(x: Any) -> bool:
    return isinstance(x, int) or (isinstance(x, torch.Tensor) and not x._layout.ndim)


def _as_number(kind: Type, x: Any) -> Any:
    if isinstance(kind, (IntType, NumberType, FloatType)):
        return _number(x)
    if isinstance(kind, ListType) and _is_integer(kind.element) and isinstance(x, (list, tuple)):
        return [_number(item) for item in x]
    if isinstance(kind, ListType) and _is_integer(kind.element) and isinstance(x, torch.Tensor):
        return _number(x)
    return x


def _number(x: Any) -> Any:
    if isinstance(x, torch.Tensor) and not x._layout.ndim and not (x.dtype.is_floating_point or x.dtype.is_complex):
        return TracedNumber.of(x)
    return x


# ---------------------------------------------------------------- which operator a function is


def _is_method(function: FunctionType) -> bool:
    return vars(torch.Tensor).get(function.__name__) is function


@functools.cache
def _is_python(function: FunctionType) -> bool:
    """Whether PyTorch's function is written in Python, so that its parameters name what it calls operators with."""
    names = [name for name, f in vars(F).items() if f is function]
    return any(name not in _NATIVE for name in names) if names else function.__name__ in _PYTHON


def _arguments_of(function: FunctionType, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        return interception.plain_signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return {}


@functools.cache
def _rules_of(function: FunctionType) -> tuple[Callable[..., Any], ...]:
    """The rules for a public function, those of this room first."""
    found = []
    for room, tables in (
        (F, (rules.FUNCTIONAL, FUNCTIONAL)),
        (torch.Tensor, (rules.METHODS, METHODS)),
        (torch, (rules.FUNCTIONS, FUNCTIONS)),
    ):
        for table in tables:
            found += [rule for name, rule in table.items() if vars(room).get(name) is function]
            if found:
                return tuple(found)
    return _rules_of(SAME[function]) if function in SAME else ()


@functools.cache
def _operator_of(function: FunctionType) -> str:
    """The name of the operator that PyTorch calls for a public function; "" for one whose body is to be read."""
    own = dispatch_modes.graph_operator(function)
    if own is not None:
        return own
    names = [name for name, f in vars(F).items() if f is function and not name.startswith("_")]
    names += ["." + name for name, f in vars(torch.Tensor).items() if f is function]
    if not (BODY | rules.BODY).isdisjoint(names):
        return ""
    for name in [name.lstrip(".") for name in [*names, function.__name__]]:
        known = rules.NAMES.get(name) or public_names.NAMES.get(name, name)
        if builtin_schemas.overloads_of(f"aten::{known}"):
            return known
    return dispatch_modes.name_of(function)


def _belongs_into_graphs(overload: OpOverload) -> bool:
    """Whether an operator makes or writes tensors; others say what a tensor is."""
    return overload._schema.is_mutable or any("Tensor" in str(r.type) for r in overload._schema.returns)


def _takes_tensors(args: Any, kwargs: dict[str, Any]) -> bool:
    return bool(calling.flat_tensors([*args, *kwargs.values()]))
