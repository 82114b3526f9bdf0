"""What modules of devices are made of that are not there: functions that refuse, classes without instances, contexts of streams.

Stands on base.naming; used by flambeau.cuda, xpu, mtia, mps and accelerator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flambeau.base.naming import called, public_module

__all__ = ["refusing", "streams", "without_instances"]


def refusing(room: str, names: Iterable[str], error: Callable[[str], Exception], docs: str) -> dict[str, Callable[..., Any]]:
    """Functions `torch.<room>.<name>` that raise error(name). docs: of each, or of the name where `names` is a dict of them."""

    def refuser(name: str) -> Callable[..., Any]:
        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise error(name)

        refuse.__name__ = refuse.__qualname__ = name
        refuse.__module__ = public_module(room)
        refuse.__doc__ = f"{names[name]} {docs}" if isinstance(names, dict) else docs
        return refuse

    return {name: refuser(name) for name in names}


def without_instances(room: str, names: str, words: str) -> dict[str, type]:
    """Classes `torch.<room>.<name>`; making one raises RuntimeError in these words, in which `{}` is the name."""

    def made(name: str) -> type:
        def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError(words.format(name))

        doc = f"Needs {room.upper()}: making one raises RuntimeError."
        return type(name, (), {"__new__": refuse, "__module__": public_module(room), "__doc__": doc})

    return {name: made(name) for name in names.split()}


def streams(room: str) -> dict[str, Any]:
    """`torch.<room>.StreamContext`, and `stream`, which makes one: contexts that do nothing."""

    @called(room, "StreamContext")
    class StreamContext:
        """Context in which a stream is current; does nothing without the device."""

        def __init__(self, stream: Any):
            self.stream = stream

        def __enter__(self) -> None:
            return None

        def __exit__(self, *exception: object) -> None:
            return None

    @called(room, "stream")
    def stream(stream: Any) -> StreamContext:
        """Context in which a stream is current; does nothing without the device."""
        return StreamContext(stream)

    return {"StreamContext": StreamContext, "stream": stream}
