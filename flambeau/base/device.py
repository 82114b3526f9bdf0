"""Where tensors live: the interned `device` objects.

Every type PyTorch knows parses; tensors exist on "cpu" and, without data, on "meta". Used by every layer.
"""

from __future__ import annotations

import re
from typing import Any

from flambeau.base.errors import no_accelerator
from flambeau.base.naming import PACKAGE
from flambeau.base.tracebacks import filter_traceback

__all__ = ["COMPUTING", "cpu", "device", "get_default_device", "meta", "require", "set_default_device"]

_TYPES = ("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy",
          "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone")

#: The types on which tensors can be made.
COMPUTING = frozenset(("cpu", "meta"))

_PATTERN = re.compile(r"([a-z_A-Z]+)(?::(0|[1-9][0-9]*))?")


class device:
    """device("cpu"), device("cuda:1"), device("cuda", 1), device(another): a device type and an optional index.

    Equal devices are the same object. Raises RuntimeError for strings that name no device.
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None
    __module__ = PACKAGE
    _interned: dict[tuple[str, int | None], device] = {}

    def __new__(cls, *args: Any, **kwargs: Any) -> device:
        try:
            if not kwargs and len(args) == 1:
                first = args[0]
                if isinstance(first, device):
                    return first
                if isinstance(first, str):
                    return _parse(first)
                if isinstance(first, int) and not isinstance(first, bool):
                    raise RuntimeError("Cannot access accelerator device when none is available.")
            given = dict(zip(("type", "index"), args, strict=False)) | kwargs
            kind, index = given.get("type"), given.get("index", None)
            known = len(args) + len(kwargs) == len(given) and set(given) <= {"type", "index"}
            if not known or not isinstance(kind, str) or not (index is None or isinstance(index, int)):
                names = ", ".join([type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()])
                raise TypeError(f"device() received an invalid combination of arguments - got ({names}), but expected one "
                            "of:\n * (torch.device device)\n * (str type, int index = -1)\n")
            parsed = _parse(kind)
            if index is None:
                return parsed
            if index < 0:
                raise RuntimeError("Device index must not be negative")
            if parsed.index is not None:
                raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {kind}")
            return _intern(parsed.type, index)
        except Exception as error:
            filter_traceback(error)
            raise

    def __init_subclass__(cls) -> None:
        raise TypeError("type 'torch.device' is not an acceptable base type")

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (")" if self.index is None else f", index={self.index})")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.type,) if self.index is None else (self.type, self.index))

    def __copy__(self) -> device:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> device:
        return self

    def __lt__(self, other: object) -> bool:
        raise TypeError("comparison not implemented")

    __le__ = __gt__ = __ge__ = __lt__

    def __enter__(self) -> device:
        _default_stack.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _default_stack.pop()


#: Devices of the `with device(...)` blocks we are in, innermost last; factories look here.
_default_stack: list[device] = []


def _intern(kind: str, index: int | None) -> device:
    found = device._interned.get((kind, index))
    if found is None:
        made = object.__new__(device)
        made.type, made.index = kind, index
        found = device._interned.setdefault((kind, index), made)
    return found


_PARSED: dict[str, device] = {}


def _parse(text: str) -> device:
    found = _PARSED.get(text)
    if found is not None:
        return found
    if not text:
        raise RuntimeError("Device string must not be empty")
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise RuntimeError(f"Invalid device string: '{text}'")
    kind, index = match.groups()
    if kind not in _TYPES:
        raise RuntimeError(f"Expected one of {', '.join(_TYPES)} device type at start of device string: {kind}")
    if index is not None and int(index) > 127:
        raise RuntimeError(f"Could not parse device index '{index}' in device string '{text}'")
    found = _PARSED[text] = _intern(kind, None if index is None else int(index))
    return found


cpu = _intern("cpu", None)
meta = _intern("meta", None)
_default: list[device] = [cpu]


def get_default_device() -> device:
    """The device on which factories put new tensors."""
    return _default_stack[-1] if _default_stack else _default[0]


def set_default_device(where: device | str | None) -> None:
    """Set the device on which factories put new tensors; None restores the CPU."""
    _default[0] = cpu if where is None else device(where)


def require(where: device) -> device:
    """The device a tensor asked for on `where` gets (the CPU has no index), or the exception of PyTorch's CPU build."""
    if where.type not in COMPUTING:
        raise no_accelerator(where.type)
    return where if where.index is None else _intern(where.type, None)
