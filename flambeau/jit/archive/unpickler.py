"""The pickles of a TorchScript archive, read into plain records: an object of a class of the archive's code is an `Instance`.

Stands on the safe unpickler of torch.load. No name of such a pickle is looked up anywhere but in the table below; objects of
`__torch__.*` are made by nobody: they are their class's name and their state. Used by container.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import IO, Any

from flambeau.base import device as devices
from flambeau.base.dtype import all_dtypes
from flambeau.core.tensor.rebuild import rebuild_tensor_v2
from flambeau.core.tensor.storage_types import BY_NAME, StorageType
from flambeau.serialize.safe import Refused, SafeUnpickler

__all__ = ["ArchiveUnpickler", "ClassName", "Instance", "Member", "Tagged"]


class ClassName:
    """The qualified name of a class, as a pickle has it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Instance:
    """An object: the qualified name of its class, and its attributes (or what its `__getstate__` gave)."""

    __slots__ = ("name", "state")

    def __init__(self, name: str) -> None:
        self.name, self.state = name, None


class Member:
    """A member of an enum: the qualified name of its class, and its value."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value


class Tagged:
    """A container with the text of its type."""

    __slots__ = ("type", "value")

    def __init__(self, value: Any, type: str) -> None:
        self.value, self.type = value, type


def _list_of(*kinds: type) -> Callable[[Any], list[Any]]:
    def build(items: Any) -> list[Any]:
        """The list, whose items must be of one type."""
        if type(items) is not list or any(type(item) not in kinds for item in items):
            raise UnpicklingError(f"expected a list of {kinds[0].__name__}")
        return items

    return build


def _tensors(items: Any) -> list[Any]:
    from flambeau.core.tensor.tensor import Tensor

    if type(items) is not list or not all(isinstance(item, Tensor) for item in items):
        raise UnpicklingError("expected a list of tensors")
    return items


def _tagged(value: Any, type_text: Any) -> Tagged:
    if not isinstance(value, list | dict) or not isinstance(type_text, str):
        raise UnpicklingError("restore_type_tag takes a container and the text of its type")
    return Tagged(value, type_text)


def _complex(real: Any, imaginary: Any) -> complex:
    if not (isinstance(real, int | float) and isinstance(imaginary, int | float)):
        raise UnpicklingError("complex takes two numbers")
    return complex(real, imaginary)


def _device(name: Any, index: Any = None) -> Any:
    if not isinstance(name, str) or not (index is None or type(index) is int):
        raise UnpicklingError("device takes a text")
    return devices.device(name) if index is None else devices.device(name, index)


def _rebuilt(*arguments: Any) -> Any:
    """A tensor, of which the last argument may say that it is a conjugate."""
    if len(arguments) == 7 and type(arguments[6]) is Tagged:
        arguments = (*arguments[:6], arguments[6].value)
    return rebuild_tensor_v2(*arguments)


def _ordered() -> OrderedDict[Any, Any]:
    """What is written in the place of hooks."""
    return OrderedDict()


#: What a pickle may call.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": _rebuilt,
    "torch.jit._pickle.build_intlist": _list_of(int),
    "torch.jit._pickle.build_doublelist": _list_of(float, int),
    "torch.jit._pickle.build_boollist": _list_of(bool),
    "torch.jit._pickle.build_tensorlist": _tensors,
    "torch.jit._pickle.restore_type_tag": _tagged,
    "builtins.complex": _complex,
    "torch.device": _device,
    "collections.OrderedDict": _ordered,
}
_SCALARS = {
    "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "float8_e4m3fn": "Float8_e4m3fn", "float8_e5m2": "Float8_e5m2",
    "float8_e4m3fnuz": "Float8_e4m3fnuz", "float8_e5m2fnuz": "Float8_e5m2fnuz", "complex32": "ComplexHalf",
}  # fmt: skip
#: Storages of dtypes that torch.save writes without a type.
LATER_STORAGES = {
    f"torch.{word}Storage": StorageType("torch", f"{word}Storage", all_dtypes()[name])
    for name, word in _SCALARS.items()
    if name in all_dtypes()
}
STORAGE_OF = {marker.dtype: marker for marker in LATER_STORAGES.values()}


class ArchiveUnpickler(SafeUnpickler):
    """Reads one pickle of an archive."""

    def __init__(self, file: IO[bytes], persistent_load: Callable[[Any], Any]) -> None:
        super().__init__(file, persistent_load, "utf-8")

    def global_(self) -> None:
        """A name: of a class of the archive, or of the table."""
        module, name = self.line(), self.line()
        full_name = f"{module}.{name}"
        if module == "__torch__" or module.startswith("__torch__."):
            self.stack.append(ClassName(full_name))
            return
        found = FUNCTIONS.get(full_name) or BY_NAME.get(full_name) or LATER_STORAGES.get(full_name)
        if found is None:
            raise Refused(f"Unsupported global: GLOBAL {full_name} is not a part of TorchScript archives", "blocked")
        self.stack.append(found)

    def reduce(self) -> None:
        """A call of a function of the table, or the member of an enum."""
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(function) is ClassName:
            if type(arguments) is tuple:
                if len(arguments) != 1:
                    raise Refused(f"a member of {function.name} has one value")
                arguments = arguments[0]
            self.stack.append(Member(function.name, arguments))
            return
        if not any(function is known for known in FUNCTIONS.values()):
            raise Refused(f"Trying to call reduce for unrecognized function {type(function).__name__}")
        if type(arguments) is not tuple:
            raise Refused(f"The arguments of a call must be a tuple, but got {type(arguments)}")
        self.stack.append(function(*arguments))

    def new_object(self) -> None:
        """An object, whose state comes later."""
        arguments, cls = self.stack.pop(), self.stack.pop()
        if type(cls) is not ClassName or arguments != ():
            raise Refused("Only objects of the archive's own classes can be made")
        self.stack.append(Instance(cls.name))

    def build(self) -> None:
        """The state of an object."""
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is not Instance:
            raise Refused("Only objects of the archive's own classes have a state")
        target.state = state

    INSTRUCTIONS: dict[bytes, Callable[[Any], Any]] = {     # type: ignore[assignment]
        **SafeUnpickler.INSTRUCTIONS, b"c": global_, b"R": reduce, b"\x81": new_object, b"b": build,
    }  # fmt: skip
