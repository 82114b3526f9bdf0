"""Writes values of a program as the pickles of a TorchScript archive: protocol 2, each container with its type.

Stands on jit's types and the storage markers; used by saving. Nothing of Python's own pickling is asked: a value is written by
the type that the program gives it, and what has none is refused.
"""

from __future__ import annotations

import enum
import pickle
import struct
from collections.abc import Callable
from typing import Any

from flambeau.base.device import device
from flambeau.base.dtype import dtype
from flambeau.base.layout import layout, memory_format
from flambeau.core.tensor import storage_io
from flambeau.core.tensor.lazy_conjugate import resolved
from flambeau.core.tensor.storage_types import BY_DTYPE, StorageType
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.schema_types import DictType, ListType, OptionalType, TupleType, Type
from flambeau.jit.archive.unpickler import STORAGE_OF
from flambeau.jit.execution.run import run
from flambeau.jit.ir.codes import code_of
from flambeau.jit.ir.constants import type_of_value
from flambeau.jit.ir.types import ClassType, EnumType, InterfaceType, UnionType

__all__ = ["ArchivePickler", "Storages"]

_LISTS = {"int": "build_intlist", "float": "build_doublelist", "bool": "build_boollist", "Tensor": "build_tensorlist"}


class Storages:
    """The memories that pickles of one folder refer to, by number."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[str, Any]] = {}

    def key(self, storage: Any) -> str:
        """The number of a memory."""
        return self.found.setdefault(id(storage), (str(len(self.found)), storage))[0]

    def contents(self) -> list[tuple[str, memoryview]]:
        """(number, bytes) of each."""
        return [(key, storage_io.memory_of(storage)) for key, storage in self.found.values()]


class ArchivePickler:
    """One pickle. attributes(object): the values of a program's object, by name, in the order of its class."""

    def __init__(self, storages: Storages, attributes: Callable[[Any, ClassType], list[tuple[str, Any, Type]]]) -> None:
        self.storages, self.attributes = storages, attributes
        self.out = bytearray(pickle.PROTO + b"\x02")
        self.count = 0
        self.words: dict[tuple[str, str], int] = {}
        self.objects: dict[int, tuple[Any, int]] = {}
        self.classes: dict[int, ClassType] = {}  # that objects were written of, in order

    def finished(self) -> bytes:
        """The pickle."""
        return bytes(self.out + pickle.STOP)

    # ---- words

    def remember(self) -> int:
        """Give the value on the stack a number."""
        number, self.count = self.count, self.count + 1
        self.out += pickle.BINPUT + bytes([number]) if number < 256 else pickle.LONG_BINPUT + struct.pack("<I", number)
        return number

    def recall(self, number: int) -> None:
        """Put the value of a number on the stack."""
        self.out += pickle.BINGET + bytes([number]) if number < 256 else pickle.LONG_BINGET + struct.pack("<I", number)

    def named(self, module: str, name: str) -> None:
        """A function or class of a module."""
        number = self.words.get((module, name))
        if number is not None:
            self.recall(number)
            return
        self.out += pickle.GLOBAL + f"{module}\n{name}\n".encode()
        self.words[module, name] = self.remember()

    def text(self, value: str) -> None:
        """A text."""
        number = self.words.get(("", value))
        if number is not None:
            self.recall(number)
            return
        content = value.encode("utf-8", "surrogatepass")
        self.out += pickle.BINUNICODE + struct.pack("<I", len(content)) + content
        self.words["", value] = self.remember()

    def integer(self, value: int) -> None:
        """An integer of 64 bits."""
        if 0 <= value < 256:
            self.out += pickle.BININT1 + bytes([value])
        elif 0 <= value < 65536:
            self.out += pickle.BININT2 + struct.pack("<H", value)
        elif -(2**31) <= value < 2**31:
            self.out += pickle.BININT + struct.pack("<i", value)
        else:
            self.out += pickle.LONG1 + b"\x08" + struct.pack("<q", value)

    def integers(self, values: Any) -> None:
        """A tuple of integers."""
        self.out += pickle.MARK
        for value in values:
            self.integer(value)
        self.out += pickle.TUPLE

    # ---- values

    def value(self, x: Any, kind: Type | None) -> None:
        """A value of a type. RuntimeError for what no archive can hold."""
        if isinstance(kind, OptionalType):
            kind = kind.getElementType()
        elif isinstance(kind, UnionType) or (kind is not None and kind.written == "Any"):
            kind = type_of_value(x) if not _is_object(x) else None
        if x is None:
            self.out += pickle.NONE
        elif isinstance(x, bool):
            self.out += pickle.NEWTRUE if x else pickle.NEWFALSE
        elif isinstance(x, (dtype, layout, memory_format)):
            self.integer(code_of(x))
        elif isinstance(x, Tensor):
            self.once(x, lambda: self.tensor(x))
        elif isinstance(kind, EnumType) or isinstance(x, enum.Enum):
            self.member(x, kind)
        elif isinstance(x, int):
            self.float(float(x)) if kind is not None and kind.written == "float" else self.integer(x)
        elif isinstance(x, float):
            self.float(x)
        elif isinstance(x, complex):
            self.called("builtins", "complex", [x.real, x.imag])
        elif isinstance(x, str):
            self.text(x)
        elif isinstance(x, device):
            self.place(x)
        elif isinstance(kind, ListType):
            self.once(x, lambda: self.list_(x, kind))
        elif isinstance(kind, DictType):
            self.once(x, lambda: self.dict_(x, kind))
        elif isinstance(x, tuple):
            self.tuple_(x, kind)
        elif isinstance(kind, InterfaceType) and isinstance(getattr(x, "script_type", None), ClassType):
            self.once(x, lambda: self.object_(x, x.script_type))
        elif isinstance(kind, ClassType):
            self.once(x, lambda: self.object_(x, kind))
        else:
            raise RuntimeError(
                f"Can't save a value of type {kind if kind is not None else type(x).__name__} in a TorchScript archive"
            )

    def once(self, x: Any, write: Callable[[], None]) -> None:
        """Write an object, or refer to it if that was done."""
        found = self.objects.get(id(x))
        if found is not None:
            self.recall(found[1])
            return
        write()
        self.objects[id(x)] = x, self.remember()

    def float(self, x: float) -> None:
        """A float."""
        self.out += pickle.BINFLOAT + struct.pack(">d", x)

    def called(self, module: str, name: str, arguments: list[Any]) -> None:
        """The result of a function of plain arguments."""
        self.named(module, name)
        for argument in arguments:
            self.value(argument, None)
        self.out += (pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)[len(arguments) - 1] + pickle.REDUCE

    def place(self, x: device) -> None:
        """A device."""
        self.called("torch", "device", [x.type] if x.index is None else [x.type, x.index])

    def list_(self, x: Any, kind: ListType) -> None:
        """A list."""
        builder = _LISTS.get(kind.element.written if not isinstance(kind.element, OptionalType) else "")
        if builder is not None:
            self.named("torch.jit._pickle", builder)
            self.out += pickle.MARK + pickle.EMPTY_LIST + pickle.MARK
            for item in x:
                self.value(item, kind.element)
            self.out += pickle.APPENDS + pickle.TUPLE + pickle.REDUCE
            return
        self.named("torch.jit._pickle", "restore_type_tag")
        self.out += pickle.EMPTY_LIST + pickle.MARK
        for item in x:
            self.value(item, kind.element)
        self.out += pickle.APPENDS
        self.tag(kind)

    def dict_(self, x: Any, kind: DictType) -> None:
        """A dict."""
        self.named("torch.jit._pickle", "restore_type_tag")
        self.out += pickle.EMPTY_DICT + pickle.MARK
        for key, item in x.items():
            self.value(key, kind.key)
            self.value(item, kind.value)
        self.out += pickle.SETITEMS
        self.tag(kind)

    def tag(self, kind: Type) -> None:
        """The type of the container on the stack."""
        self.text(str(kind))
        self.out += pickle.TUPLE2 + pickle.REDUCE

    def tuple_(self, x: Any, kind: Type | None) -> None:
        """A tuple."""
        kinds: list[Any] = list(kind.elements()) if isinstance(kind, TupleType) else [type_of_value(item) for item in x]
        if len(x) > 3:
            self.out += pickle.MARK
        for item, each in zip(x, kinds):
            self.value(item, each)
        self.out += (pickle.EMPTY_TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)[len(x)] if len(x) < 4 else pickle.TUPLE

    def member(self, x: Any, kind: Type | None) -> None:
        """A member of an enum."""
        assert isinstance(kind, EnumType)
        module, _, name = kind.qualified_name.rpartition(".")
        self.named(module, name)
        self.value(x.value, kind.value_type)
        self.out += pickle.REDUCE

    def object_(self, x: Any, kind: ClassType) -> None:
        """An object of a class of the program: its attributes."""
        self.classes.setdefault(id(kind), kind)
        module, _, name = kind.qualified_name.rpartition(".")
        self.named(module, name)
        self.out += pickle.EMPTY_TUPLE + pickle.NEWOBJ
        state = kind.methods.get("__getstate__")
        if state is not None:
            self.value(run(state, [x]), state.schema.returns[0].type)
        else:
            self.out += pickle.EMPTY_DICT + pickle.MARK
            for name, item, each in self.attributes(x, kind):
                self.text(name)
                self.value(item, each)
            self.out += pickle.SETITEMS
        self.out += pickle.BUILD

    def tensor(self, x: Tensor) -> None:
        """A tensor: a part of a memory."""
        x = resolved(x) if x._layout.pending else x
        storage, offset, shape, strides, kind = storage_io.parts(x)
        marker: StorageType | None = BY_DTYPE.get(kind) or STORAGE_OF.get(kind)
        if x.is_quantized:  # type: ignore[attr-defined]
            raise NotImplementedError(
                "quantized tensors in TorchScript archives are not implemented in flambeau: save the module's state dict by "
                "torch.save, or keep x.int_repr() and the scale"
            )
        if marker is None:
            raise RuntimeError(f"Can't save a tensor of {kind} in a TorchScript archive")
        self.named("torch._utils", "_rebuild_tensor_v2")
        self.out += pickle.MARK + pickle.MARK
        self.text("storage")
        self.named(marker.module, marker.name)
        self.text(self.storages.key(storage))
        self.text("cpu")
        self.integer(storage.capacity // marker.itemsize)
        self.out += pickle.TUPLE + pickle.BINPERSID
        self.remember()
        self.integer(offset)
        self.integers(shape)
        self.integers(strides)
        self.out += pickle.NEWTRUE if x.requires_grad else pickle.NEWFALSE
        self.named("collections", "OrderedDict")
        self.out += pickle.EMPTY_TUPLE + pickle.REDUCE + pickle.TUPLE + pickle.REDUCE


def _is_object(x: Any) -> bool:
    return not isinstance(x, (Tensor, str, int, float, complex, list, dict, tuple, device, type(None)))
