"""Where tensors live: the interned `device` objects.

Every type PyTorch knows parses; tensors exist on "cpu" and, without data, on "meta". A fake tensor, which is on a device but
has no data, lies on a stand-in: an object of type "meta", so that whatever computes takes it for a tensor on meta, that is
`shown` as the real device. Each fake tensor mode has stand-ins of its own (`StandIns`). Used by every layer.
"""

from __future__ import annotations

import re
import threading
from typing import Any

from flambeau.base.errors import no_accelerator
from flambeau.base.naming import PACKAGE
from flambeau.base.tracebacks import filter_traceback

__all__ = [
    "COMPUTING",
    "StandIns",
    "beside",
    "cpu",
    "default_device",
    "device",
    "get_default_device",
    "in_block",
    "meta",
    "require",
    "set_default_device",
    "stand_ins_in_use",
    "use_stand_ins",
    "without_index",
]

_TYPES = (
    "cpu",
    "cuda",
    "ipu",
    "xpu",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "ve",
    "fpga",
    "maia",
    "xla",
    "lazy",
    "vulkan",
    "mps",
    "meta",
    "hpu",
    "mtia",
    "privateuseone",
)

#: The types on which tensors can be made.
COMPUTING = frozenset(("cpu", "meta"))

_PATTERN = re.compile(r"([a-z_A-Z]+)(?::(0|[1-9][0-9]*))?")


class device:
    """device("cpu"), device("cuda:1"), device("cuda", 1), device(another): a device type and an optional index.

    Equal devices are the same object. Raises RuntimeError for strings that name no device.
    """

    __slots__ = ("__weakref__", "index", "shown", "stand_ins", "type")
    type: str
    index: int | None
    shown: device  # what programs see: the device itself, unless it is a stand-in
    stand_ins: StandIns | None  # whose stand-in it is
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
                raise TypeError(
                    f"device() received an invalid combination of arguments - got ({names}), but expected one "
                    "of:\n * (torch.device device)\n * (str type, int index = -1)\n"
                )
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
        shown = self.shown
        return f"device(type='{shown.type}'" + (")" if shown.index is None else f", index={shown.index})")

    def __str__(self) -> str:
        shown = self.shown
        return shown.type if shown.index is None else f"{shown.type}:{shown.index}"

    def __reduce__(self) -> tuple[Any, ...]:
        shown = self.shown
        return (device, (shown.type,) if shown.index is None else (shown.type, shown.index))

    def __copy__(self) -> device:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> device:
        return self

    def __lt__(self, other: object) -> bool:
        raise TypeError("comparison not implemented")

    __le__ = __gt__ = __ge__ = __lt__

    def __enter__(self) -> device:
        _enter(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _leave()


class StandIns:
    """The stand-ins that the fake tensors of one mode lie on. mode: the mode; tensor_class: the class of these tensors."""

    __slots__ = ("_known", "mode", "tensor_class")

    def __init__(self, mode: Any, tensor_class: type) -> None:
        self.mode, self.tensor_class = mode, tensor_class
        self._known: dict[device, device] = {}

    def of(self, where: device) -> device:
        """The stand-in for a device."""
        shown = where.shown
        if shown.index is None and shown.type not in COMPUTING:  # an accelerator's first
            shown = _intern(shown.type, 0)
        elif shown.type in COMPUTING:
            shown = without_index(shown)
        found = self._known.get(shown)
        if found is None:
            found = object.__new__(device)
            found.type, found.index, found.shown, found.stand_ins = "meta", None, shown, self
            found = self._known.setdefault(shown, found)
        return found


class _Blocks(threading.local):
    """The blocks that this thread is in: `with device(...)`, innermost last, and a fake tensor mode's stand-ins."""

    stand_ins: StandIns | None = None

    def __init__(self) -> None:
        self.devices: list[device] = []


_blocks = _Blocks()
_count = 0  # of the blocks that all threads are in, or a little more: zero while factories need not look


def _enter(where: device) -> None:
    global _count
    _count += 1
    _blocks.devices.append(where)


def _leave() -> None:
    global _count
    _count -= 1
    _blocks.devices.pop()


def use_stand_ins(wanted: StandIns | None) -> StandIns | None:
    """From now on this thread's factories make fake tensors on these stand-ins; None: ordinary tensors. Returns what it was."""
    global _count
    before = _blocks.stand_ins
    _count += (wanted is not None) - (before is not None)
    _blocks.stand_ins = wanted
    return before


def stand_ins_in_use() -> StandIns | None:
    """The stand-ins on which this thread's factories make fake tensors; None outside of a fake tensor mode."""
    return _blocks.stand_ins if _count else None


def in_block(where: device) -> device:
    """The device that a factory that was asked for a device uses: inside a fake tensor mode its stand-in."""
    if not _count or _blocks.stand_ins is None or where.stand_ins is not None:
        return where
    return _blocks.stand_ins.of(where)


def beside(where: device, other: device) -> device:
    """A device as what lies on `other` would be moved there: a fake tensor stays one."""
    return where if other.stand_ins is None or where.stand_ins is not None else other.stand_ins.of(where)


def _intern(kind: str, index: int | None) -> device:
    found = device._interned.get((kind, index))
    if found is None:
        made = object.__new__(device)
        made.type, made.index, made.shown, made.stand_ins = kind, index, made, None
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


def default_device() -> device:
    """The device on which factories put new tensors, which inside a fake tensor mode is a stand-in."""
    if not _count:
        return _default[0]
    return in_block(_blocks.devices[-1] if _blocks.devices else _default[0])


def get_default_device() -> device:
    """The device on which factories put new tensors."""
    return default_device().shown


def set_default_device(where: device | str | None) -> None:
    """Set the device on which factories put new tensors; None restores the CPU."""
    _default[0] = cpu if where is None else device(where)


def require(where: device) -> device:
    """The device a tensor asked for on `where` gets (the CPU has no index), or the exception of PyTorch's CPU build. Fake tensors
    may be on any.
    """
    if where.type not in COMPUTING:
        if stand_ins_in_use() is not None:
            return where
        raise no_accelerator(where.type)
    return without_index(where)


def without_index(where: device) -> device:
    """The device of a tensor that is made on `where`: the CPU, and meta, are one device, whatever index they were given."""
    return where if where.index is None else _intern(where.type, None)
