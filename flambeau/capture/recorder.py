"""The recorder: runs a call of an instrumented function as it is, and notes what that depends on.

Looks at the environment become guards; whatever isn't known (a function without source, an object of a class written in C, a
write to the environment) sets `reason`: the call goes on as Python has it, and was right, but later ones can't be skipped. A
profile function, `_net`, sees every Python frame that was reached by other ways than the hooks. Stands on calls.py, which has
the hooks.
"""

from __future__ import annotations

import builtins
import collections
import enum
import functools
import gc
import importlib.util
import sys
import warnings
from collections.abc import Callable
from types import CellType, FunctionType, ModuleType
from typing import Any

from flambeau.capture.arguments import Arguments
from flambeau.capture.calls import Calls
from flambeau.capture.instrument import Instrumented, NotInstrumented, instrumented, looks_at_frames
from flambeau.capture.kinds import (
    OF_ABSENT_DEVICES,
    OWN,
    READERS,
    is_of_a_library,
    is_of_namedtuple,
    is_trusted,
    is_written_for_trusted,
)
from flambeau.capture.source import source_of
from flambeau.codegen.runtime.call_watch import CallWatch

__all__ = ["Recorder"]


_OF_MODULES = {collections.namedtuple}  # look at the frame that calls them for its module alone, which instrumented code has
_HASH_OF_MEMBERS = enum.Enum.__hash__.__code__  # that of their names, which stay


def _loaded(name: str) -> ModuleType:
    """A module that the program imports."""
    if name not in sys.modules:
        __import__(name)
    return sys.modules[name]


class Recorder(Calls):
    """One call's record: see Provenance for what it gives."""

    def run(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], given: Arguments | None = None
    ) -> Any:
        """function(*args, **kwargs), recorded. Its exceptions are the call's. given: the arguments, if their key was made."""
        if given is None:
            given = Arguments({})
            given.key(args, kwargs)
        self._given(given)
        self.reach(function)
        self.guards.hold(function)
        outer = sys.getprofile()
        if outer is not None:
            self.refuse("a profiler or debugger is on")
            return function(*args, **kwargs)
        self.net = CallWatch(self._net, warnings.warn)
        self.collects = gc.isenabled()
        if self.reason is None:
            gc.disable()  # it would run callbacks of objects that have nothing to do with the call
        self.watch()
        try:
            return self.call(function, *args, **kwargs)
        except BaseException:
            self.refuse("it raises an error")  # functions that it made may outlive it, and its record
            raise
        finally:
            if self.reason is None:
                self.end_watch()
            self.net = None

    def _net(self, frame: Any, event: str, argument: Any) -> None:
        if event != "call":
            self.refuse("a warning is given")
            return
        code = frame.f_code
        name = code.co_filename
        trusted = is_trusted(code)
        if trusted and code in READERS:
            self.refuse(f"a tensor's value is read ({code.co_name})")
            return
        if trusted or code in self.codes or name.startswith(OWN):
            if self.net is not None:
                self.net.know(code)
            return
        if (
            name == "<frozen abc>"
            or (name in OF_ABSENT_DEVICES and is_trusted(frame.f_back.f_code))
            or code is _HASH_OF_MEMBERS
            or is_of_namedtuple(frame.f_globals)
            or is_written_for_trusted(frame)
        ):
            return
        while is_of_a_library(frame.f_code):  # as a trusted room may use it
            frame = frame.f_back
            if is_trusted(frame.f_code):
                return
        self.refuse(f"{code.co_qualname} is called by code that isn't seen ({code.co_filename}:{code.co_firstlineno})")

    def _followed(self, f: FunctionType) -> Instrumented | None:
        """A function's instrumented code; None, refused, where there is none. The net is down meanwhile."""
        with self.unwatched():
            source = source_of(f.__code__)
            if isinstance(source, str):
                self.refuse(f"{f.__qualname__} can't be followed: {source}")
                return None
            named = (f.__globals__.get(name) for name in f.__code__.co_names)
            if any(type(each) is FunctionType and looks_at_frames(each.__code__) and each not in _OF_MODULES for each in named):
                self.refuse(f"{f.__qualname__} can't be followed: it calls what looks at frames")
                return None
            try:
                return instrumented(f.__code__, source)
            except NotInstrumented as reason:
                self.refuse(f"{f.__qualname__} can't be followed: {reason}")
                return None

    def _instance(self, f: FunctionType, made: Instrumented) -> FunctionType:
        """The instrumented form of a function: its globals, defaults and cells, and this recorder's hooks."""
        if made.code not in self.codes:
            self.codes.update(made.codes)
        cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        hooks: dict[str, Any] = {
            "global_": functools.partial(self._global, f.__globals__),
            "free": functools.partial(self._free, cells),
            "set_global": functools.partial(self._set_global, f.__globals__),
            "imported": functools.partial(self._imported, f.__globals__),
        }
        if CellType() in cells.values():  # cells are compared by what they hold
            self.refuse(f"a variable around {f.__qualname__} has no value yet")
        closure = []
        for name, hook in made.free:
            closure.append(cells[name] if hook is None else CellType(hooks.get(hook) or getattr(self, hook)))
        instance = FunctionType(made.code, f.__globals__, f.__name__, f.__defaults__, tuple(closure))
        instance.__kwdefaults__ = f.__kwdefaults__
        return instance

    # ---- names
    def _global(self, names: dict[str, Any], name: str) -> Any:
        known = builtins.__dict__
        if name in names:
            value = names[name]
            if self.is_written(names, name):
                return value
            if self.reason is None:
                self.guards.item(names, name, f"the global {name}", self._kept(value))
        else:
            if self.reason is None:
                self.guards.item(names, name, f"the global {name}")
                self.guards.item(known, name, f"the builtin {name}")
            if name not in known:
                raise NameError(f"name '{name}' is not defined", name=name)
            value = known[name]
        return self.reach(value)

    def _free(self, cells: dict[str, CellType], name: str, value: Any) -> Any:
        if self.reason is None:
            self.guards.cell(cells[name], f"the variable {name} of a function around", self._kept(value))
        return self.reach(value)

    def _set_global(self, names: dict[str, Any], name: str, value: Any) -> None:
        if self.reason is None:
            self.write(names, name)
        names[name] = value

    def set_free(self, name: str) -> None:
        self.refuse(f"the variable {name} of a function around is set")

    def module(self, name: str, whole: bool) -> Any:
        found = _loaded(name)
        shown = name if whole else name.split(".")[0]
        if self.reason is None:
            self.guards.item(sys.modules, shown, f"the module {shown}")
            self.reach(found)
        return self.reach(sys.modules[shown])

    def _imported(self, names: dict[str, Any], path: str, level: int, name: str) -> Any:
        absolute = importlib.util.resolve_name("." * level + path, names.get("__package__")) if level else path
        found = _loaded(absolute)
        if self.reason is None:
            self.guards.item(sys.modules, absolute, f"the module {absolute}")
            self.reach(found)
        try:
            return self.attribute(found, name)
        except AttributeError:
            try:
                return self.module(f"{absolute}.{name}", True)
            except ModuleNotFoundError:
                raise ImportError(f"cannot import name {name!r} from {absolute!r} ({found.__file__})") from None
