"""Looks at attributes and changes of them: as Python's own, with guards on what of the environment decides them.

Stands on gradients.py and kinds.py.
"""

from __future__ import annotations

import collections
import enum
import functools
import threading
from collections.abc import Callable
from types import FunctionType, MappingProxyType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from flambeau.capture.builtins import CONTAINERS, OF_CONTEXTS, SCALARS
from flambeau.capture.gradients import Gradients
from flambeau.capture.kinds import (
    ABSENT,
    ATTRIBUTES,
    C_FUNCTIONS,
    FIELDS,
    GENERIC_READERS,
    IMMUTABLE,
    SLOTS,
    TENSORS,
    in_class,
    is_a,
    is_made_by_class_statement,
)
from flambeau.codegen.runtime.cpython import slot_offset
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Attributes"]


_OF_THREADS = vars(threading.local)["__getattribute__"]
_OF_FUNCTIONS = frozenset("__module__ __doc__ __annotations__ __class__ __dict__ __globals__ __type_params__".split())


class Attributes(Gradients):
    """The hooks for attributes; `call` is that of the whole recorder."""

    call: Callable[..., Any]

    def attribute(self, o: Any, name: str) -> Any:
        cls = type(o)
        if name == "default_factory" and cls is collections.defaultdict and self.of_environment(o):
            self.refuse("the default_factory of a defaultdict is read")
        if self.reason is not None or cls in IMMUTABLE or cls in CONTAINERS:
            return getattr(o, name)
        if is_a(o, enum.Enum):
            self.reach(o)
        if cls is MethodType and name not in ("__self__", "__func__"):
            return self.attribute(self.reach(o.__func__), name)
        if is_a(o, Tensor):
            return self._attribute_of_tensor(o, name)
        if cls is ModuleType:
            return self._attribute_of_module(o, name)
        if is_a(o, type):
            return self._attribute_of_class(o, name)
        if cls is super:
            return self._attribute_of_super(o, name)
        if cls in OF_CONTEXTS:
            if name == "old_value":
                self.refuse("the value of a context variable is read from a token")
            return getattr(o, name)
        if cls is FunctionType or cls is MethodType or cls is functools.partial or is_a(o, C_FUNCTIONS):
            if cls is FunctionType and name in _OF_FUNCTIONS and self.of_environment(o):
                return self._attribute_of_function(o, name)
            if self.of_environment(o) and name not in ("__self__", "__func__", "__name__", "__qualname__", "func", "args"):
                if cls is FunctionType and name in ("__code__", "__defaults__", "__kwdefaults__"):
                    self.guards.function(o, f"the function {o.__qualname__}")
                    return self.reach(getattr(o, name))
                if cls is not FunctionType or hasattr(FunctionType, name):
                    self.refuse(f"the attribute {name} of a function is read")
                else:
                    self.guards.dict_of(o, o.__dict__)
                    self.guards.item(o.__dict__, name, f"the attribute {name} of a function", self._kept(o.__dict__.get(name)))
                    return self.reach(getattr(o, name))
                return getattr(o, name)
            if self.of_environment(o) and name in ("__name__", "__qualname__"):
                value = getattr(o, name)
                self.guards.asked(lambda: getattr(o, name) == value, "the name of a function")
            value = getattr(o, name)
            if cls is functools.partial and self.of_environment(o):
                self.guards.hold(value)
                self.guards.asked(lambda: getattr(o, name) is value, "the parts of a partial")
            return self.reach(value) if self.of_environment(o) else value
        if not is_made_by_class_statement(cls):
            if self.of_environment(o):
                self.refuse(f"the attribute {name} of a {cls.__module__}.{cls.__qualname__} is read")
            return getattr(o, name)
        self._pinned_class(o)
        reader = in_class(cls, "__getattribute__")
        if reader is _OF_THREADS and self.of_environment(o) and hasattr(o, name):
            return self._attribute_of_local(o, name)
        if type(reader) is not FunctionType:
            if reader not in GENERIC_READERS:
                self.refuse(f"{cls.__qualname__} has a __getattribute__ in C")
                return getattr(o, name)
        try:
            return self.call(reader, o, name) if type(reader) is FunctionType else self._generic(o, name)
        except AttributeError:
            other = in_class(cls, "__getattr__")
            if type(other) is not FunctionType:
                raise
        return self.call(self.reach(other), o, name)

    def _generic(self, o: Any, name: str) -> Any:
        """object.__getattribute__(o, name)."""
        cls, mine = type(o), self.of_environment(o)
        found = in_class(cls, name)
        kind = type(found)
        if found is not ABSENT and type(kind) is type and is_made_by_class_statement(kind):
            self._pinned_class(self.reach(found))  # which says whether it is a descriptor
        if (
            found is not ABSENT
            and in_class(kind, "__get__") is not ABSENT
            and (in_class(kind, "__set__") is not ABSENT or in_class(kind, "__delete__") is not ABSENT)
        ):
            if kind is property:
                if found.fget is None:
                    return object.__getattribute__(o, name)
                return self.call(self.reach(found.fget), o)
            if kind in SLOTS:
                if mine and kind is MemberDescriptorType:
                    self.guards.is_set(o, slot_offset(cls, name), f"whether the attribute {name} is set")
                value = found.__get__(o, cls)
                if mine and id(o) in self.arguments:
                    return value  # whose structure is in the key
                if mine and name == "__dict__":
                    self.guards.dict_of(o, value)
                elif mine and kind is MemberDescriptorType:
                    self.guards.slot(o, slot_offset(cls, name), value, f"the attribute {name}", self._kept(value))
                elif mine and name != "__class__":
                    self.refuse(f"the attribute {name} of a {cls.__qualname__} is read")
                return self.reach(value) if mine else value
            if kind is FIELDS:  # of a named tuple
                return self.part_of(o, found.__get__(o, cls)) if mine else found.__get__(o, cls)
            getter = in_class(kind, "__get__")
            if type(getter) is FunctionType:
                return self.call(self.reach(getter), self.reach(found), o, cls)
            self.refuse(f"the attribute {name} of a {cls.__qualname__} is read by code in C")
            return found.__get__(o, cls)
        try:
            own = object.__getattribute__(o, "__dict__")
        except AttributeError:
            own = None
        if own is not None:
            if self.is_written(own, name):
                mine = False
            if mine and id(o) not in self.arguments:  # whose structure is in the key
                self.guards.dict_of(o, own)
                self.guards.item(own, name, f"the attribute {name}", self._kept(own.get(name)))
            if name in own:
                return self.part_of(o, own[name]) if mine else own[name]
        if found is not ABSENT:
            return self._bound(found, o, cls)
        return object.__getattribute__(o, name)

    def _bound(self, found: Any, o: Any, cls: type) -> Any:
        """A class's attribute, as an instance gives it."""
        kind = type(found)
        if kind is FunctionType:
            return MethodType(self.reach(found), o)
        if kind in (staticmethod, classmethod):
            self.reach(found.__func__)
            return found.__get__(o, cls)
        if in_class(kind, "__get__") is ABSENT:
            return self.reach(found)
        if kind in C_FUNCTIONS or kind in SLOTS:
            return found.__get__(o, cls)
        getter = in_class(kind, "__get__")
        if type(getter) is FunctionType and kind is not functools.cached_property:
            return self.call(self.reach(getter), self.reach(found), o, cls)
        self.refuse(f"an attribute of {cls.__qualname__} is a {kind.__qualname__}")
        return found.__get__(o, cls)

    def _attribute_of_function(self, o: FunctionType, name: str) -> Any:
        """What every function has, and may be given anew."""
        value = getattr(o, name)
        if name == "__dict__":
            self.guards.dict_of(o, value)
        elif name != "__class__" and name != "__globals__":
            scalar = type(value) is str
            self.guards.asked(
                lambda: getattr(o, name) is value or (scalar and getattr(o, name) == value), f"the {name} of a function"
            )
        return self.reach(value)

    def _attribute_of_local(self, o: Any, name: str) -> Any:
        """What a thread has for itself; in another one guards are asked anew."""
        self._pinned_class(o)
        value = getattr(o, name)
        scalar = type(value) in SCALARS

        def ask() -> bool:
            found = getattr(o, name, ABSENT)
            return found is value or (scalar and type(found) is type(value) and found == value and repr(found) == repr(value))

        self.guards.asked(ask, f"the attribute {name} of a thread")
        return self.reach(value)

    def _attribute_of_tensor(self, o: Tensor, name: str) -> Any:
        self.touch(o)
        found = in_class(type(o), name)
        if found is ABSENT:
            if id(o) in self.arguments:
                if o.__dict__:
                    self.refuse(f"the attribute {name} of an argument is read")
                self.bare.add(id(o))
            elif self.of_environment(o):
                self.guards.dict_of(o, o.__dict__)
                self.guards.item(o.__dict__, name, f"the attribute {name} of a tensor", False)
                return self.reach(getattr(o, name))
            return getattr(o, name)
        if type(found) is FunctionType:
            return MethodType(found, o)
        if name == "grad":
            return self.gradient(o)
        if name == "__class__":
            return self.reach(type(o))
        if name not in ATTRIBUTES and not (name == "grad_fn" and o._node is None):
            self.refuse(f"the attribute {name} of a tensor is read")
        return getattr(o, name)

    def _attribute_of_module(self, o: ModuleType, name: str) -> Any:
        mine = self.of_environment(o) and not self.is_written(o.__dict__, name)
        if mine:
            self.guards.class_of(o, f"the class of the module {o.__name__}")
        try:
            value = getattr(o, name)  # which may make it
        except AttributeError:
            if mine:
                self.guards.item(o.__dict__, name, f"{o.__name__}.{name}")
                self.guards.item(o.__dict__, "__getattr__", f"{o.__name__}.__getattr__")
            raise
        if mine:
            if name not in o.__dict__:
                self.refuse(f"{o.__name__}.{name} is computed when it is asked for")
                return value
            self.guards.item(o.__dict__, name, f"{o.__name__}.{name}", self._kept(value))
        return self.reach(value)

    def _attribute_of_class(self, o: type, name: str) -> Any:
        if not self.guards.class_state(o, f"attributes of {o.__qualname__}"):
            self.refuse(f"the class {o.__qualname__} changed too often")
        self.guards.class_state(type(o), f"attributes of the class of {o.__qualname__}")
        if type(in_class(type(o), "__getattribute__")) is FunctionType:
            self.refuse(f"the class {o.__qualname__} has a __getattribute__ of its own")
        found = in_class(o, name)
        other = in_class(type(o), "__getattr__")
        if found is ABSENT and type(other) is FunctionType and in_class(type(o), name) is ABSENT:
            return self.call(self.reach(other), o, name)
        value = getattr(o, name)
        if name in ("__name__", "__qualname__"):  # for which some interpreters give a class no new number
            self.guards.asked(lambda: getattr(o, name) == value, f"the name of {o.__qualname__}")
        if is_a(value, MappingProxyType):
            self.refuse(f"the dict of the class {o.__qualname__} is read")
        if found is not ABSENT and is_made_by_class_statement(type(found)):
            self._pinned_class(self.reach(found))  # which says whether it is a descriptor
        if found is not ABSENT and type(found) is classmethod:
            self.reach(found.__func__)
        elif type(found) is staticmethod or type(value) is FunctionType or in_class(type(found), "__get__") is ABSENT:
            self.reach(value)
        return value

    def _attribute_of_super(self, o: Any, name: str) -> Any:
        this, start = o.__self__, o.__thisclass__
        cls = this if is_a(this, type) and issubclass(this, start) else type(this)
        self.guards.class_state(cls, f"attributes of {cls.__qualname__}")
        order = cls.__mro__
        for base in order[order.index(start) + 1 :]:
            if name in base.__dict__:
                found = base.__dict__[name]
                if type(found) is FunctionType:
                    self.reach(found)
                    return found if is_a(this, type) else MethodType(found, this)
                if type(found) is property and found.fget is not None:
                    return self.call(self.reach(found.fget), this)
                if type(found) is staticmethod or in_class(type(found), "__get__") is ABSENT:
                    return self.reach(getattr(o, name))
                if not is_a(found, (classmethod, *C_FUNCTIONS)):
                    self.refuse(f"super() of a {cls.__qualname__} is asked for a {type(found).__qualname__}")
                break
        return getattr(o, name)

    # ---- changes
    def set_attribute(self, o: Any, name: str, value: Any) -> None:
        if self.reason is None:
            writer = in_class(type(o), "__setattr__")
            if not is_a(o, (Tensor, type)) and type(writer) is FunctionType:
                self._pinned_class(o)
                self.call(self.reach(writer), o, name, value)
                return
            found = in_class(type(o), name)
            if type(found) is property and not is_a(o, Tensor) and found.fset is not None:
                self._pinned_class(o)
                self.call(self.reach(found.fset), o, value)
                return
            if name == "grad" and type(o) in TENSORS:
                self.touch(o)
                self.set_gradient(o, value)
                return
            if type(writer) is not FunctionType and self._set_own(o, name):
                object.__setattr__(o, name, value)
                return
            self._written(o, f"the attribute {name} of a {type(o).__qualname__} is set")
        setattr(o, name, value)

    def _set_own(self, o: Any, name: str) -> bool:
        """Whether an attribute of an object of the environment, that is to be set, is an entry of the object's dict."""
        cls = type(o)
        if not self.of_environment(o) or is_a(o, (Tensor, type, ModuleType)) or not is_made_by_class_statement(cls):
            return False
        if is_a(o, threading.local):
            return False
        kind = type(in_class(cls, name))
        if kind is not type(ABSENT) and (in_class(kind, "__set__") is not ABSENT or in_class(kind, "__delete__") is not ABSENT):
            return False
        try:
            own = object.__getattribute__(o, "__dict__")
        except AttributeError:
            return False
        self._pinned_class(o)
        if id(o) not in self.arguments:
            self.guards.dict_of(o, own)
        self.write(own, name)
        return True

    def delete_attribute(self, o: Any, name: str) -> None:
        if self.reason is None:
            writer = in_class(type(o), "__delattr__")
            if type(writer) is FunctionType:
                self._pinned_class(o)
                self.call(self.reach(writer), o, name)
                return
            self._written(o, f"the attribute {name} of a {type(o).__qualname__} is deleted")
        delattr(o, name)

    def _written(self, o: Any, what: str) -> None:
        if self.of_environment(o) or is_a(o, (type, ModuleType)):
            self.refuse(what)
