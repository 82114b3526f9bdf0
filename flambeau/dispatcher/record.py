"""What is registered for an operator: `OperatorRecord`, one per overload, and the table of all records.

A record has the schema, the kernels by dispatch key, and what the operator is where no kernel says it: its fake (shapes
and dtypes without values), its gradient, its rule under vmap, its dtype under autocast. Definitions and kernels come in
any order. Stands on schema and keys; used by calling (which answers calls), overloads and torch.library.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.dispatcher.schema import FunctionSchema, qualified
from flambeau.dispatcher.tags import Tag

__all__ = ["RECORDS", "Gradient", "OperatorRecord", "define", "fallthrough_kernel", "record_of", "undefine"]


def fallthrough_kernel() -> None:
    """Registered as a kernel: this key has nothing to say, the next one is asked. Calling it raises
    NotImplementedError.
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Gradient:
    """The derivative of an operator: `backward(ctx, *gradients)`, and what its forward keeps, `setup_context`."""

    __slots__ = ("backward", "setup_context")

    def __init__(self, backward: Callable | None, setup_context: Callable | None) -> None:
        self.backward, self.setup_context = backward, setup_context


class OperatorRecord:
    """One overload of an operator and all that is registered for it."""

    def __init__(self, name: str) -> None:
        self.name = name  #: "ns::name" or "ns::name.overload"
        self.namespace, self.short_name, self.overload = qualified(name)
        self.schema: FunctionSchema | None = None
        self.origin = ""  #: where it was defined, for messages
        self.tags: list[Any] = []
        self.kernels: dict[str, Callable] = {}  #: by the name of a dispatch key
        self.replaced: dict[str, list[tuple[Callable, str]]] = {}  #: kernels that a later one stands for, with their sources
        self.alias_analysis = "FROM_SCHEMA"  #: how TorchScript learns what shares memory
        self.sources: dict[str, str] = {}  #: where each kernel was registered, for messages
        self.fake: Callable | None = None
        self.gradient: Gradient | None = None
        self.function: Any = None  #: the autograd.Function made of `gradient`
        self.vmap: Callable | None = None
        self.autocast: dict[str, Any] = {}  #: dtype by type of device
        self.written: tuple[int, ...] = ()  #: arguments whose version is to be counted up, of a checked custom operator
        self.defined_in_python = False
        self.takes_numbers = self.namespace == "prims"  #: numbers are taken where the schema says Tensor

    @property
    def packet_name(self) -> str:
        """The name without the overload."""
        return f"{self.namespace}::{self.short_name}"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.short_name}.{self.overload or 'default'}"

    def __repr__(self) -> str:
        return f"<record of {self.name}>"

    def set_kernel(self, key: str, kernel: Callable, source: str, override: bool = False) -> None:
        """Register a kernel; one that was there is replaced, with PyTorch's warning (once in a program)."""
        if key in self.kernels and not override:
            _warn_of_override(self, key, source)
        if key in self.kernels:
            self.replaced.setdefault(key, []).append((self.kernels[key], self.sources.get(key, "")))
        self.kernels[key] = kernel
        self.sources[key] = source

    def remove_kernel(self, key: str, kernel: Callable) -> None:
        """Take a kernel back; the one that it replaced is asked for again."""
        before = self.replaced.get(key, [])
        if self.kernels.get(key) is not kernel:
            self.replaced[key] = [each for each in before if each[0] is not kernel]
        elif before:
            self.kernels[key], self.sources[key] = before.pop()
        else:
            del self.kernels[key]
            self.sources.pop(key, None)
            if self.schema is None:
                undefine(self)


RECORDS: dict[str, dict[str, OperatorRecord]] = {}
"""By "ns::name", then by overload ("" for the default), in the order of definition."""

_warned_of_override = False


def _warn_of_override(record: OperatorRecord, key: str, source: str) -> None:
    global _warned_of_override
    if _warned_of_override:
        return
    _warned_of_override = True
    warnings.warn(
        "Warning only once for all operators,  other operators may also be overridden.\n  Overriding a previously "
        "registered "
        f"kernel for the same operator and the same dispatch key\n  operator: {record.schema}\n    {record.origin}\n"
        f"  dispatch key: {key}\n  previous kernel: {record.sources.get(key) or 'no debug info'}\n       new kernel: "
        f"{source}",
        UserWarning,
        stacklevel=4,
    )


def record_of(name: str, make: bool = False) -> OperatorRecord | None:
    """The record of "ns::name.overload"; `make`: a new one where there is none, still without a schema."""
    namespace, short, overload = qualified(name)
    packet = f"{namespace}::{short}"
    found = RECORDS.get(packet, {}).get(overload)
    if found is None and make:
        found = RECORDS.setdefault(packet, {})[overload] = OperatorRecord(name)
    return found


def define(schema: FunctionSchema, tags: Sequence[Any] = (), origin: str = "") -> OperatorRecord:
    """The record of a new operator. RuntimeError if it is defined already."""
    name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    record = record_of(name, make=True)
    assert record is not None
    if record.schema is not None:
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name multiple times. Each "
            "overload's schema should only be registered with a single call to def(). Duplicate registration: "
            f"{origin}. Original registration: {record.origin}"
        )
    record.schema, record.origin = schema, origin
    record.tags = [tag if isinstance(tag, Tag) else Tag[str(tag)] for tag in tags]
    return record


def undefine(record: OperatorRecord) -> None:
    """Forget an operator, but for kernels that others registered."""
    record.schema = None
    if not record.kernels:
        overloads = RECORDS.get(record.packet_name, {})
        if overloads.get(record.overload) is record:
            del overloads[record.overload]
        if not overloads:
            RECORDS.pop(record.packet_name, None)
