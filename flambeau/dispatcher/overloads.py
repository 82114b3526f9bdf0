"""The objects of torch.ops: `OpOverloadPacket` (torch.ops.aten.add) and `OpOverload` (torch.ops.aten.add.Tensor).

Both are callable, print as PyTorch's, and serve as keys of tables: an operator's overload is always the same object. An
operator defined by a program is answered from its record; a built-in one by what builtin finds for its schema. Stands on calling
and builtin; hung into torch.ops by namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flambeau.base.lazy_import import kept
from flambeau.base.naming import public_module
from flambeau.core.modes import interception
from flambeau.core.modes.interception import overriding, watching
from flambeau.core.modes.modes import active, local
from flambeau.core.modes.overrides import dispatch, dispatch_to_mode
from flambeau.core.operator import schema_index
from flambeau.core.operator.facets import OpDef
from flambeau.dispatcher import builtin, builtin_schemas, calling, handlers, registered
from flambeau.dispatcher.aten.composites.registry import body_of
from flambeau.dispatcher.keys import DispatchKey, DispatchKeySet
from flambeau.dispatcher.record import RECORDS, OperatorRecord
from flambeau.dispatcher.schema import FunctionSchema

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket", "OperatorBase"]


class OperatorBase:
    """What overloads, packets and higher-order operators are."""

    __module__ = public_module("_ops")
    __name__: str
    _name: str

    def name(self) -> str:
        """The dispatcher's name."""
        return self._name

    def answer_level(self, level: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a call whose innermost tensor belongs to this level of a transform."""
        from flambeau.dispatcher import batching

        return batching.answer(self, level, args, kwargs)

    def __deepcopy__(self, memo: Any = None) -> Any:
        return self


class OpOverload(OperatorBase):
    """One overload of an operator."""

    __module__ = public_module("_ops")
    with_python_kernels: list[OpOverload] = []  #: PyTorch's own that `py_impl` gave kernels, for enable_python_dispatcher

    def __init__(self, packet: OpOverloadPacket, overload: str, record: OperatorRecord | None) -> None:
        self.py_kernels: dict[Any, Callable[..., Any]] = {}
        self._overloadpacket, self._overloadname, self._record = packet, overload, record
        self._namespace, self._opname = packet._namespace, packet.__name__
        self.__name__ = self.__qualname__ = f"{packet.__name__}.{overload}"
        self.__module__ = packet.__module__
        self._name = packet._qualified_op_name + ("" if overload == "default" else f".{overload}")

    @kept
    def _op(self) -> Callable[..., Any]:
        record = self._record
        if record is not None:
            return lambda *args, **kwargs: calling.call(record, self, args, kwargs)
        made = builtin.answer_of(self._namespace, self._opname, self._overloadname)
        if not getattr(made, "missing", False):
            return made
        from flambeau.dispatcher.aten import composites

        return composites.body_of(self) or made

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if active.count and local.modes and self._record is None:
            return dispatch_to_mode(self, args, kwargs)
        asked = local.dispatch_modes or watching() or interception.replaced()
        if self._record is None and asked and not self._composite and handlers.answers(args, kwargs):
            return self._handed_over(args, kwargs)
        body = body_of(self) if local.dispatch_modes else None
        if body is not None:
            if local.dispatch_modes[-1]._before_composites is not None:  # a tracer's, which records it as it is
                return self._handed_over(args, kwargs)
            made = body(*args, **kwargs)
            if made is not NotImplemented:
                return made
        found = overriding(args, kwargs)
        if found:
            return dispatch(self, args, kwargs, found)
        try:
            return self._op(*args, **kwargs)
        except TypeError:
            if self._record is None:  # in the words of the schema, if it is what refuses these arguments
                calling.bind(self._schema, args, kwargs, numbers=self._overloadpacket.takes_numbers)
            raise

    def unasked(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The call as its kernels answer it; classes among the arguments that override calls were asked before."""
        if self._record is None:
            return self._op(*args, **kwargs)
        return calling.answer_unasked(self._record, args, kwargs)

    def _handed_over(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        from flambeau.dispatcher import graphs

        values = calling.bind(self._schema, args, kwargs, numbers=self._overloadpacket.takes_numbers)
        return graphs.run(self, *calling.split(self._schema, values))

    @kept
    def _composite(self) -> bool:
        """Whether it is answered by other operators, which modes below autograd see in its place."""
        if self._record is None:
            return builtin_schemas.is_composite(self._overloadpacket._qualified_op_name, self._overloadname)
        return "CompositeImplicitAutograd" in self._record.kernels

    @kept
    def _schema(self) -> FunctionSchema:
        """What the arguments and results are."""
        if self._record is None:
            return builtin_schemas.schema_of(self._overloadpacket._qualified_op_name, self._overloadname)
        assert self._record.schema is not None
        return self._record.schema

    @property
    def tags(self) -> list[Any]:
        """What is known of the operator besides its schema."""
        if self._record is None:
            return list(builtin_schemas.tags_of(self._overloadpacket._qualified_op_name, self._overloadname))
        return self._record.tags

    @kept
    def declaration(self) -> OpDef | None:
        """The record of the declaration that the operator has, or whose form in place it is; None for what isn't declared."""
        return None if self._record is not None else schema_index.declaration_of(self._overloadpacket._qualified_op_name)

    @property
    def _defined_in_python(self) -> bool:
        return self._record is not None

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operator that this is an overload of."""
        return self._overloadpacket

    @property
    def op(self) -> Callable[..., Any]:
        """What answers a call."""
        return self._op

    @property
    def namespace(self) -> str:
        """The part of the name in front of "::"."""
        return self._namespace

    @property
    def is_view(self) -> bool:
        """Whether the schema says that a result is a view of an argument."""
        return any(a.alias_info is not None and not a.is_write for a in self._schema.arguments)

    def has_kernel_for_dispatch_key(self, key: DispatchKey | str) -> bool:
        """Whether a kernel is registered under this very key."""
        name = key if isinstance(key, str) else key.name
        return registered.under(self._name, name) if self._record is None else name in self._record.kernels

    def has_kernel_for_any_dispatch_key(self, keyset: DispatchKeySet) -> bool:
        """Whether a kernel is registered under one of these keys."""
        return any(self.has_kernel_for_dispatch_key(key) for key in keyset)

    def py_impl(self, key: Any) -> Callable[[Callable], Callable]:
        """Decorator: a kernel for a dispatch key, or a rule for a class of modes or tensors.

        Kernels of PyTorch's own operators are asked under torch._dispatch.python.enable_python_dispatcher. RuntimeError where
        there is one for the key.
        """

        def register(function: Callable) -> Callable:
            if key in self.py_kernels:
                raise RuntimeError(f"Trying to override a python impl for {key} on operator {self.name()}")
            self.py_kernels[key] = function
            if isinstance(key, type):
                handlers.RULES[self._name, key] = function
            elif self._record is not None:
                self._record.set_kernel(key.name, function, "registered by py_impl", override=True)
            elif self not in OpOverload.with_python_kernels:
                OpOverload.with_python_kernels.append(self)
            return function

        return register

    def redispatch(self, /, keyset: DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        """The call as the keys of `keyset` answer it, without those in front of them."""
        if self._record is None:
            return self(*args, **kwargs)
        return calling.redispatch(self._record, keyset, args, kwargs)

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """The result by the operator's body in other operators; NotImplemented if it has none."""
        if self._record is None:
            return self._op(*args, **kwargs) if self._composite else NotImplemented
        body = self._record.kernels.get("CompositeImplicitAutograd")
        return NotImplemented if body is None else body(*args, **kwargs)

    def _can_decompose(self) -> bool:
        return self._composite

    def __reduce__(self) -> tuple[Any, ...]:
        return _resolve, (self._namespace, self._opname, self._overloadname)

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._namespace}.{self._opname}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self._opname}.{self._overloadname}"


# Operators that take numbers where their schemas say Tensor.
_TAKES_NUMBERS = frozenset("add sub mul div divide multiply subtract true_divide floor_divide".split())


def _kind_of(value: Any) -> Any:
    """What the choice of an overload depends on of an argument."""
    if isinstance(value, (list, tuple)):
        return type(value), _kind_of(value[0]) if value else None
    return type(value)


class OpOverloadPacket(OperatorBase):
    """One operator; its overloads are attributes, and a call finds the one that its arguments fit."""

    __module__ = public_module("_ops")
    __file__ = "torch.ops"

    def __init__(self, namespace: str, name: str, overloads: Sequence[str] = ()) -> None:
        self._namespace, self.__name__ = namespace, name
        self._qualified_op_name = self._name = f"{namespace}::{name}"
        self.__module__ = public_module(f"_ops.{namespace}")
        self._builtin = tuple(overloads)  # those of PyTorch's own operator; none of a program's
        self._chosen: dict[Any, OpOverload] = {}

    @property
    def _overload_names(self) -> list[str]:
        return ["" if name == "default" else name for name in self.overloads()]

    @kept
    def _op(self) -> Callable[..., Any]:
        def op(*args: Any, **kwargs: Any) -> Any:
            return self(*args, **kwargs)

        op.__name__ = op.__qualname__ = self.__name__
        op.__module__ = self.__module__
        return op

    @property
    def op(self) -> Callable[..., Any]:
        """What answers a call, as a function."""
        return self._op

    @property
    def takes_numbers(self) -> bool:
        """Whether numbers are taken where the schemas say Tensor."""
        return self._namespace == "prims" or self.__name__.rstrip("_") in _TAKES_NUMBERS

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        if self._builtin:
            return list(self._builtin)
        records = RECORDS.get(self._qualified_op_name, {})
        return [overload or "default" for overload, record in records.items() if record.schema is not None]

    @property
    def _schemas(self) -> dict[str, FunctionSchema]:
        return {"" if name == "default" else name: getattr(self, name)._schema for name in self.overloads()}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in self.overloads():
            raise AttributeError(
                f"'{self}' can't have an overload name beginning with '__' and the underlying op {self.op} has no "
                f"attribute {name} either."
            )
        if name not in self.overloads():
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
        record = None
        if not self._builtin:
            record = RECORDS[self._qualified_op_name]["" if name == "default" else name]
        made = OpOverload(self, name, record)
        setattr(self, name, made)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.overloads()]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if active.count and local.modes:  # which see the call before its arguments are looked at
            return dispatch_to_mode(self, args, kwargs)
        names = self.overloads()
        proxies = overriding(args, kwargs)
        if proxies:
            return dispatch(self, args, kwargs, proxies)
        if self._builtin:
            key = tuple(map(_kind_of, args)), tuple([(name, _kind_of(value)) for name, value in kwargs.items()])
            found = self._chosen.get(key)
            if found is None:
                found = self._chosen[key] = self._fitting(names, args, kwargs)
            return found(*args, **kwargs)
        found = self._fitting(names, args, kwargs)
        assert found._record is not None
        return calling.call(found._record, self, args, kwargs)

    def unasked(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The call as the kernels of the overload that its arguments fit answer it."""
        return self._fitting(self.overloads(), args, kwargs).unasked(args, kwargs)

    def _fitting(self, names: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]) -> OpOverload:
        """The first overload whose schema takes these arguments, or the only one. RuntimeError if none does."""
        if len(names) == 1:
            only: OpOverload = getattr(self, names[0])
            return only
        failures = []
        for name in names:
            overload: OpOverload = getattr(self, name)
            try:
                calling.bind(overload._schema, args, kwargs, numbers=self.takes_numbers)
            except RuntimeError as failure:
                failures.append(f"{failure}\n")
            else:
                return overload
        raise RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n" + "\n".join(failures) + "\n"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _resolve, (self._namespace, self.__name__, None)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"


_CPU_KEYS = [
    DispatchKey[name] for name in ("AutogradCPU", "Autograd", "CompositeImplicitAutograd", "CPU", "CompositeExplicitAutograd")
]


class HigherOrderOperator(OperatorBase):
    """An operator whose arguments are functions, `torch.ops.higher_order.cond`: `function`, or what is registered for a
    device's keys with `py_impl`; NotImplementedError without either.
    """

    __module__ = public_module("_ops")

    def __init__(self, name: str, function: Callable[..., Any] | None = None, *, cacheable: bool = False) -> None:
        self.__module__ = public_module("ops.higher_order")
        self.__name__ = self._name = name
        self._function, self._ns = function, "higher_order"
        self.py_kernels: dict[Any, Callable[..., Any]] = {}

    @property
    def namespace(self) -> str:
        """ "higher_order"."""
        return self._ns

    def py_impl(self, key: Any) -> Callable[[Callable], Callable]:
        """Decorator: what answers for a dispatch key, of which those of CPU tensors are asked."""

        def register(function: Callable) -> Callable:
            self.py_kernels[key] = function
            return function

        return register

    def _answer(self) -> Callable[..., Any] | None:
        return self._function or next((self.py_kernels[key] for key in _CPU_KEYS if key in self.py_kernels), None)

    @property
    def answered(self) -> bool:
        """Whether there is something to answer a call."""
        return self._answer() is not None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        answer = self._answer()
        if answer is None:
            raise NotImplementedError(
                f"torch.ops.higher_order.{self.__name__} is not implemented in flambeau: call the functions among "
                "its arguments from Python"
            )
        return answer(*args, **kwargs)

    def __repr__(self) -> str:
        return self._name

    __str__ = __repr__


def _resolve(namespace: str, name: str, overload: str | None) -> Any:
    from flambeau.dispatcher.namespaces import ops

    packet = getattr(getattr(ops, namespace), name)
    return packet if overload is None else getattr(packet, overload)
