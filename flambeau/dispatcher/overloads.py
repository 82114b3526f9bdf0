"""The objects of torch.ops: `OpOverloadPacket` (torch.ops.aten.add) and `OpOverload` (torch.ops.aten.add.Tensor).

Both are callable, print as PyTorch's, and serve as keys of tables: an operator's overload is always the same object. An
operator defined by a program is answered from its record; a built-in one is the function itself. Stands on calling and
builtin; hung into torch.ops by namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from flambeau.base.naming import public_module
from flambeau.dispatcher import calling
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

    def __init__(
        self,
        packet: OpOverloadPacket,
        overload: str,
        record: OperatorRecord | None,
        function: Callable[..., Any] | None,
    ) -> None:
        self._overloadpacket, self._overloadname, self._record = packet, overload, record
        self._namespace, self._opname = packet._namespace, packet.__name__
        self.__name__ = self.__qualname__ = f"{packet.__name__}.{overload}"
        self.__module__ = packet.__module__
        self._name = packet._qualified_op_name + ("" if overload == "default" else f".{overload}")
        self.__doc__ = getattr(function, "__doc__", None)
        self._op: Any = partial(calling.call, record, self) if record is not None else function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._record is None:
            return self._op(*args, **kwargs)
        return calling.call(self._record, self, args, kwargs)

    @property
    def _schema(self) -> FunctionSchema:
        """The schema. NotImplementedError for a built-in operator, whose arguments its function's signature tells."""
        if self._record is None or self._record.schema is None:
            raise NotImplementedError(
                f"flambeau keeps no schemas of built-in operators such as {self}; inspect.signature of the public "
                "function says what the arguments are"
            )
        return self._record.schema

    @property
    def tags(self) -> list[Any]:
        """What is known of the operator besides its schema; empty for built-in ones."""
        return [] if self._record is None else self._record.tags

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
        schema = None if self._record is None else self._record.schema
        return schema is not None and any(a.alias_info is not None and not a.is_write for a in schema.arguments)

    def has_kernel_for_dispatch_key(self, key: DispatchKey | str) -> bool:
        """Whether a kernel is registered under this very key."""
        name = key if isinstance(key, str) else key.name
        return name == "CPU" if self._record is None else name in self._record.kernels

    def has_kernel_for_any_dispatch_key(self, keyset: DispatchKeySet) -> bool:
        """Whether a kernel is registered under one of these keys."""
        return any(self.has_kernel_for_dispatch_key(key) for key in keyset)

    def py_impl(self, key: Any) -> Callable[[Callable], Callable]:
        """Decorator: a kernel for a dispatch key. NotImplementedError for a built-in operator."""

        def register(function: Callable) -> Callable:
            if self._record is None or not isinstance(key, DispatchKey):
                raise NotImplementedError(
                    f"{self}: built-in operators take no kernels; use a TorchFunctionMode to change them"
                )
            self._record.set_kernel(key.name, function, "registered by py_impl", override=True)
            return function

        return register

    def redispatch(self, /, keyset: DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        """The call as the keys of `keyset` answer it, without those in front of them."""
        if self._record is None:
            return self._op(*args, **kwargs)
        return calling.redispatch(self._record, keyset, args, kwargs)

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """The result by the operator's body in other operators; NotImplemented if it has none."""
        body = None if self._record is None else self._record.kernels.get("CompositeImplicitAutograd")
        return NotImplemented if body is None else body(*args, **kwargs)

    def _can_decompose(self) -> bool:
        return self._record is not None and "CompositeImplicitAutograd" in self._record.kernels

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


class OpOverloadPacket(OperatorBase):
    """One operator; its overloads are attributes, and a call finds the one that its arguments fit."""

    __module__ = public_module("_ops")
    __file__ = "torch.ops"

    def __init__(
        self, namespace: str, name: str, overloads: Sequence[str], function: Callable[..., Any] | None
    ) -> None:
        self._namespace, self.__name__, self._function = namespace, name, function
        self._qualified_op_name = self._name = f"{namespace}::{name}"
        self.__module__ = public_module(f"_ops.{namespace}")
        self.__doc__ = getattr(function, "__doc__", None)
        self._overloads = tuple(overloads)

    @property
    def _overload_names(self) -> list[str]:
        return ["" if name == "default" else name for name in self.overloads()]

    @property
    def op(self) -> Callable[..., Any]:
        """What answers a call."""
        return self._function or self.__call__

    _op = op

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        if self._function is not None:
            return list(self._overloads)
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
        if self._function is None:
            record = RECORDS[self._qualified_op_name]["" if name == "default" else name]
        made = OpOverload(self, name, record, self._function)
        setattr(self, name, made)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.overloads()]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._function is not None:
            return self._function(*args, **kwargs)
        names = self.overloads()
        if len(names) == 1:
            return calling.call(getattr(self, names[0])._record, self, args, kwargs)
        failures = []
        for name in names:
            record = getattr(self, name)._record
            try:
                calling.bind(record.schema, args, kwargs)
            except RuntimeError as failure:
                failures.append(f"{failure}\n")
            else:
                return calling.call(record, self, args, kwargs)
        raise RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n" + "\n".join(failures) + "\n"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _resolve, (self._namespace, self.__name__, None)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"


_CPU_KEYS = [DispatchKey[name] for name in ("AutogradCPU", "Autograd", "CompositeImplicitAutograd", "CPU",
                                            "CompositeExplicitAutograd")]


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

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        answer = self._function or next((self.py_kernels[key] for key in _CPU_KEYS if key in self.py_kernels), None)
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
