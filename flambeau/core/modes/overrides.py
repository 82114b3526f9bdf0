"""Classes and modes that take part in operator calls: `__torch_function__`.

A tensor of a class that overrides calls carries a layout of its own flavor, so that it misses every plan found by
layout and comes here; plain tensors and Parameters never do. Methods and properties that are no declared operators
don't look for overrides at all: an overriding class gets forms of them that do, so that Tensor's own cost nothing.
Stands on core.tensor.tensor and core.modes.modes; used by every generated variant and by the face `flambeau.overrides`.
"""

from __future__ import annotations

import copyreg
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any

from flambeau.base import device as devices
from flambeau.base.dtype import get_default_dtype
from flambeau.base.layout import Layout, contiguous_strides, strided
from flambeau.base.naming import public_module
from flambeau.base.tracebacks import filter_traceback
from flambeau.core.modes.autocast import autocasting, cast_arguments
from flambeau.core.modes.dispatching import dispatching, not_below
from flambeau.core.modes.modes import active, local
from flambeau.core.operator import arguments
from flambeau.core.operator.facets import record_of
from flambeau.core.operator.methods import same
from flambeau.core.tensor.nested_data import type_name
from flambeau.core.tensor.storage import empty_without_memory, without_memory
from flambeau.core.tensor.tensor import Tensor, launch, tensor_from

PLAIN: set[type] = {Tensor, type(None), bool, int, float, complex}
"""Classes whose instances never override anything; Parameter joins them, and subclasses that switch overriding off."""

_overriding: dict[type, bool] = {}


def overriding(cls: type) -> bool:
    """Whether instances of `cls` answer operator calls themselves."""
    found = _overriding.get(cls)
    if found is None:
        found = cls not in PLAIN and getattr(cls, "__torch_function__", disabled) is not disabled
        _overriding[cls] = found
        if not found and issubclass(cls, Tensor) and not dispatching(cls):
            PLAIN.add(cls)
    return found


def any_override(operands: Iterable[Any]) -> bool:
    """Whether one of the operands is an instance whose class overrides calls, and overriding is on in this thread."""
    if local.overrides:
        for x in operands:
            if x.__class__ not in PLAIN and overriding(x.__class__):
                return True
    return False


def overriding_arguments(arguments: Iterable[Any]) -> list[Any]:
    """The arguments, and the items of those that are lists or tuples, whose classes override calls."""
    found: list[Any] = []
    if local.overrides:
        for x in arguments:
            if x.__class__ in PLAIN:
                continue
            if isinstance(x, (list, tuple)):
                found += [y for y in x if y.__class__ not in PLAIN and overriding(y.__class__)]
            elif overriding(x.__class__):
                found.append(x)
    return found


def in_order(candidates: Iterable[Any]) -> list[Any]:
    """One instance of each overriding class: as they come, but subclasses before their bases."""
    found: list[Any] = []
    for x in candidates:
        if x.__class__ not in PLAIN and overriding(x.__class__) and type(x) not in [type(y) for y in found]:
            found.insert(next((i for i, y in enumerate(found) if issubclass(type(x), type(y))), len(found)), x)
    return found


def dispatch(
    function: Callable, operands: Sequence[Any], keywords: dict[str, Any] | None = None, tensors: Sequence[Any] | None = None
) -> Any:
    """Ask the overriding classes in turn, subclasses before their bases; `tensors`: who is asked, if not the operands."""
    found = in_order(operands if tensors is None else tensors)
    types = tuple(type(x) for x in found)
    for x in found:
        result = type(x).__torch_function__(function, types, tuple(operands), keywords)
        if result is not NotImplemented:
            for y in found:
                keep_flavor(y)
            return result
    raise TypeError(
        f"Multiple dispatch failed for 'torch.{getattr(function, '__qualname__', function)}'; all __torch_function__ "
        "handlers returned NotImplemented:\n\n" + "".join(f"  - tensor subclass {cls}\n" for cls in types)
    )


def asked_first(slow: Any, call_of: Callable, seen: Callable[[], Any]) -> Callable:
    """A form of what generated functions call on their slow way (core.modes.looking) that asks overriding classes first, for the
    function `seen()`.
    """

    def asking(slow: Callable) -> Any:
        def ask(*given: Any) -> Any:
            if overriding_arguments(given):
                call = call_of(*given)
                found = [] if call is None else overriding_arguments([*call[1], *call[2].values()])
                if found:
                    return dispatch(seen(), call[1], call[2], found)
            return slow(*given)

        return ask

    made = asking(slow)
    made.own, made.call_of = asking(slow.own), call_of
    return made  # type: ignore[no-any-return]


def answered_by(function: Callable, args: Sequence[Any], tensors: Iterable[Any] | None = None) -> Any:
    """In an except clause: what overriding classes say of a call that failed because an argument is no tensor; where there are
    none, the exception goes on. tensors: who may answer, if not the arguments.
    """
    found = overriding_arguments(args if tensors is None else tensors)
    if not found:
        raise
    return dispatch(function, args, {}, found)


# ---------------------------------------------------------------- switching it off


class DisableTorchFunctionSubclass:
    """Context: classes don't override calls; modes still do."""

    __module__ = public_module("_C")

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = local.overrides
        local.overrides = False

    def __exit__(self, *exception: object) -> None:
        local.overrides = self.before


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Context: neither classes nor modes override calls."""

    __module__ = public_module("_C")

    __slots__ = ("modes",)

    def __enter__(self) -> None:
        super().__enter__()
        self.modes, local.modes = local.modes, []

    def __exit__(self, *exception: object) -> None:
        super().__exit__()
        local.modes = self.modes


class DisableTorchDispatch:
    """Context: neither modes below autograd nor classes answer operators."""

    __module__ = public_module("_C")

    __slots__ = ("classes", "modes")

    def __enter__(self) -> None:
        self.classes, self.modes = local.classes_answer, local.dispatch_modes[:]
        local.classes_answer, local.dispatch_modes[:] = False, []

    def __exit__(self, *exception: object) -> None:
        local.classes_answer, local.dispatch_modes[:] = self.classes, self.modes


def disabled(function: Callable, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """`__torch_function__ = disabled` in a class: its tensors behave as plain ones, and results are plain tensors."""
    with DisableTorchFunctionSubclass():
        return function(*args, **(kwargs or {}))


_CALLED_BY_PYTHON = (MethodWrapperType, MethodDescriptorType, WrapperDescriptorType)


def redispatch(function: Callable, types: Any, args: Sequence[Any], kwargs: dict[str, Any] | None) -> Any:
    """The call as it is without being overridden, while the calls that its body makes may be."""
    keywords = kwargs or {}
    declared = getattr(function, "operator", None)
    if getattr(declared, "composite", False) and not hasattr(function, "__self__"):
        return declared.implementation(*args, **keywords)
    method = vars(Tensor).get(getattr(function, "__name__", ""))
    if (
        declared is not None
        or isinstance(function, _CALLED_BY_PYTHON)
        or looks_first(function)
        or (method is not None and (method is function or same(method, function)))
    ):
        with DisableTorchFunction():
            return function(*args, **keywords)
    if hasattr(function, "__wrapped__"):
        return function.__wrapped__(*args, **keywords)
    local.unasked = True  # a function that asks by itself, has_torch_function: the next question is answered with no
    try:
        return function(*args, **keywords)
    finally:
        local.unasked = False


# ---------------------------------------------------------------- what a subclass does unless it says otherwise


#: Called with every tensor that becomes one of a class with `__torch_dispatch__`: the public functions are to look out for it.
watch: Callable[[Tensor], None] = None  # type: ignore[assignment]
attention: Callable[[], Any] = None  # type: ignore[assignment]  # while one lives, public functions ask the modes first
looks_first: Callable[[Any], bool] = None  # type: ignore[assignment]  # whether a function is one of them


def keep_flavor(tensor: Any) -> None:
    """Give a tensor of an overriding class the layout that belongs to the class."""
    if isinstance(tensor, Tensor) and tensor._layout.answering is not type(tensor):
        tensor._layout = tensor._layout.with_flavor(type(tensor))


def become(tensor: Tensor, cls: type) -> Any:
    """Turn a fresh tensor into an instance of a subclass."""
    try:
        tensor.__class__ = cls
    except TypeError:  # a class with slots of its own: another object
        made = object.__new__(cls)
        for name in ("_storage", "_offset", "_layout", "_node", "_index"):
            setattr(made, name, getattr(tensor, name))
        tensor = made
    if dispatching(cls):
        tensor._layout = tensor._layout.with_flavor(cls)
        watch(tensor)
    elif overriding(cls):
        tensor._layout = tensor._layout.with_flavor(cls)
    return tensor


def slots_of(tensor: Tensor) -> dict[str, Any]:
    """What lies in the slots that the tensor's class has beside those of Tensor."""
    cls = type(tensor)
    if cls is Tensor:
        return {}
    own = set(copyreg._slotnames(cls)) - set(Tensor.__slots__)  # type: ignore[attr-defined]
    return {name: getattr(tensor, name) for name in sorted(own) if hasattr(tensor, name)}


def converted(result: Any, cls: type) -> Any:
    """The tensors of a result as instances of `cls`."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else as_subclass(result, cls)
    if isinstance(result, (tuple, list)):
        return type(result)([converted(item, cls) for item in result])
    return result


def torch_function(cls: type, func: Callable, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """The override every subclass of Tensor inherits: compute as for plain tensors, results become instances of the subclass.

    NotImplemented where an argument is of an unrelated class.
    """
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return result if cls is Tensor or func in nowrap_functions() else converted(result, cls)


@functools.cache
def nowrap_functions() -> frozenset[Any]:
    """Getters whose results stay as they are."""
    return frozenset(
        vars(Tensor)[name].__get__ for name in ("grad", "_base", "_grad") if hasattr(vars(Tensor).get(name), "__get__")
    )


def as_subclass(self: Tensor, cls: type) -> Any:
    """The same tensor seen as an instance of a subclass of Tensor; a node in the graph if it requires grad."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass(): argument 'cls' must be a subclass of Tensor, not {cls!r}")
    _refuse_other(cls, self)
    if cls is Tensor and without_memory(self._storage):  # there is nothing but the tensor itself that could be seen otherwise
        return self.alias()
    with DisableTorchFunctionSubclass():
        made = (
            self.alias()
            if self._node is not None
            else launch.tensor_from(self._storage, self._offset, self._layout.with_flavor(None))
        )
    return become(made, cls)


def _refuse_other(cls: type, data: Tensor) -> None:
    """RuntimeError where a tensor whose class answers operators is to be one of another class, NotImplementedError where it has
    no memory of its own that it could be seen by."""
    answering = data._layout.answering
    if answering is None or issubclass(type(data), cls) or not without_memory(data._storage):
        return
    if dispatching(type(data)):
        raise RuntimeError(
            f"Creating a new Tensor subclass {cls.__name__} but the raw Tensor object is already associated to a "
            f"python object of type {type(data).__name__}"
        )
    raise NotImplementedError(
        f"{cls.__name__} over a nested, sparse or masked tensor is not implemented in flambeau: keep the tensor in an attribute"
    )


def _ask_for_geometry(made: Tensor, policy: str | None, device: bool, layout: bool) -> None:
    if policy not in (None, "sizes", "strides"):
        raise ValueError(f"Unknown sizes_strides_policy: {policy}; expected 'strides' or 'sizes'")
    if policy is not None or device or layout:
        answer_for_geometry(made, policy, device, layout)


def make_subclass(
    cls: type,
    data: Tensor,
    require_grad: bool = False,
    *,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    device_for_backend_keys: Any = None,
) -> Any:
    """A tensor of class `cls` over the same memory, a leaf of its own. The others are those of `make_wrapper_subclass`. TypeError
    for a require_grad that is no bool, ValueError for another policy.
    """
    if require_grad.__class__ is not bool:
        raise TypeError(f"_make_subclass(): argument 'require_grad' (position 3) must be bool, not {type_name(require_grad)}")
    _refuse_other(cls, data)
    made = become(launch.tensor_from(data._storage, data._offset, data._layout.with_flavor(None)), cls)
    if require_grad:
        with DisableTorchFunctionSubclass():
            made.requires_grad = True
    if dispatching(cls):
        _ask_for_geometry(made, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
    return made


def _device(given: Any) -> Any:
    return devices.get_default_device() if given is None else devices.device(given)


def make_wrapper_subclass(
    cls: type,
    size: Any,
    strides: Any = None,
    storage_offset: Any = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: Any = None,
    storage_size: Any = None,
) -> Any:
    """A tensor of class `cls` with this geometry and no memory, whose `__torch_dispatch__` answers every operator.

    dispatch_sizes_strides_policy: "strides", or "sizes" for both, where the class also answers what these are, as aten.sym_size
    and its kin; dispatch_device, dispatch_layout: likewise. TypeError for a class without `__torch_dispatch__`, ValueError for
    another policy.
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"_make_wrapper_subclass(): argument 'cls' must be a subclass of Tensor, not {cls!r}")
    if not dispatching(cls):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    if layout is not strided:
        raise NotImplementedError(f"_make_wrapper_subclass() with layout={layout}: wrap a strided tensor")
    shape = tuple([operator.index(n) for n in size])
    steps = contiguous_strides(shape) if strides is None else tuple([operator.index(n) for n in strides])
    if len(steps) != len(shape):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(steps)} strides for {len(shape)} sizes")
    place = Layout.of(shape, steps, get_default_dtype() if dtype is None else dtype, _device(device))
    made = tensor_from(empty_without_memory(place.nbytes), 0 if storage_offset is None else storage_offset, place)
    made = become(made, cls)
    _ask_for_geometry(made, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
    if requires_grad:
        with DisableTorchFunctionSubclass():
            made.requires_grad = True
    return made


#: Has a wrapper's class answer for sizes and strides, device, layout (dispatcher.wrapper_geometry, loaded by `watch`).
answer_for_geometry: Callable[[Tensor, str | None, bool, bool], None] = None  # type: ignore[assignment]

#: Methods whose code is never exchanged (core.modes.interception).
NEVER_EXCHANGED = frozenset(
    """__init__ __new__ __init_subclass__ __setattr__ __delattr__ __getattribute__ __hash__ __del__
    __reduce__ __reduce_ex__ __setstate__ __dir__ __torch_function__""".split()
)
_NOT_WRAPPED = frozenset(
    (
        "__class__",
        "__dict__",
        "__doc__",
        "__getattribute__",
        "__hash__",
        "__init__",
        "__init_subclass__",
        "__module__",
        "__new__",
        "__setattr__",
        "__delattr__",
        "__slots__",
        "__torch_dispatch__",
        "__torch_function__",
        "__weakref__",
        "__array_priority__",
        "as_subclass",
        "new_tensor",
        "__subclasshook__",
        "__iter__",
        "__class_getitem__",
        "__dlpack_device__",
        "__reduce__",
        "reinforce",
        "__setstate__",
    )
)


@functools.cache
def _asking_method(function: Callable) -> Callable:
    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not local.overrides or not overriding(self.__class__):
            return function(self, *args, **kwargs)
        return dispatch(function, (self, *args), kwargs or None)

    return method


@functools.cache
def _asking_property(own: property) -> property:
    def get(self: Any) -> Any:
        return own.fget(self) if not local.overrides or not overriding(self.__class__) else dispatch(own.__get__, (self,))  # type: ignore[misc]

    def put(self: Any, value: Any) -> None:
        if not local.overrides or not overriding(self.__class__):
            own.fset(self, value)  # type: ignore[misc]
            keep_flavor(self)
        else:
            dispatch(own.__set__, (self, value))

    def delete(self: Any) -> None:
        own.fdel(self) if not local.overrides or not overriding(self.__class__) else dispatch(own.__delete__, (self,))  # type: ignore[misc]

    return property(get, own.fset and put, own.fdel and delete, own.__doc__)


def init_subclass(cls: type, **_: Any) -> None:
    """Give an overriding subclass the asking forms of the methods and properties that it inherits from Tensor itself."""
    below = dispatching(cls)  # operators, and so functions themselves, look out for tensors of such a class
    if below and getattr(cls.__torch_function__, "__func__", None) is torch_function:  # type: ignore[attr-defined]
        cls.__torch_function__ = disabled  # type: ignore[attr-defined]     # what its operators give is given, as in PyTorch
    if getattr(cls, "__torch_function__", disabled) is disabled:
        for name, own in _asking_forms(cls):
            setattr(cls, name, own)
        return
    inherited = getattr(cls.__torch_function__, "__func__", None) is torch_function  # type: ignore[attr-defined]
    for name, own in list(vars(Tensor).items()):
        if name in _NOT_WRAPPED or (name.startswith("_") and not name.startswith("__")):
            continue
        giver = next(base for base in cls.__mro__ if name in vars(base))
        if isinstance(own, property):
            form: Any = own if below and inherited else _asking_property(own)
        elif isinstance(own, (FunctionType, MethodDescriptorType, WrapperDescriptorType)) and not hasattr(own, "operator"):
            exchanged = isinstance(own, FunctionType) and name not in NEVER_EXCHANGED
            form = own if below and exchanged else _asking_method(own)  # type: ignore[arg-type]
        else:
            continue
        if vars(giver)[name] is not form and (giver is Tensor or vars(giver)[name] is _asking_form(own)):
            setattr(cls, name, form)


def _asking_forms(cls: type) -> list[tuple[str, Any]]:
    """Methods and properties of Tensor that a class inherits from one that asks, and Tensor's own."""
    if cls.__bases__ == (Tensor,):
        return []
    found = []
    for name, own in vars(Tensor).items():
        if isinstance(own, (property, FunctionType, MethodDescriptorType, WrapperDescriptorType)):
            giver = next(base for base in cls.__mro__ if name in vars(base))
            if giver is not Tensor and vars(giver)[name] is _asking_form(own):
                found.append((name, own))
    return found


def _asking_form(own: Any) -> Any:
    return _asking_property(own) if isinstance(own, property) else _asking_method(own)


Tensor.__torch_function__ = classmethod(torch_function)  # type: ignore[attr-defined]
Tensor.__init_subclass__ = classmethod(init_subclass)  # type: ignore[assignment, method-assign]
Tensor.__torch_dispatch__ = not_below  # type: ignore[attr-defined]
Tensor._make_subclass = staticmethod(make_subclass)  # type: ignore[method-assign]
Tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)  # type: ignore[attr-defined]
Tensor.as_subclass = as_subclass  # type: ignore[method-assign]


# ---------------------------------------------------------------- functions that don't look for overrides themselves


def asking(function: Callable) -> Callable:
    """A form of `function` that asks the overriding classes among its arguments, and obeys autocast."""
    record = record_of(function.__name__)

    @functools.wraps(function)
    def ask(*args: Any, **kwargs: Any) -> Any:
        try:
            if not active.count and (not args or args[0].__class__ in PLAIN):
                return function(*args, **kwargs)
            found = overriding_arguments([*args, *kwargs.values()])
            if found:
                return dispatch(ask, args, kwargs, found)
            if autocasting(record):
                with cast_arguments(record, args, kwargs) as (given, named):
                    return function(*given, **named)
            return function(*args, **kwargs)
        except arguments.CAUGHT as error:
            # perhaps an argument other than the first overrides: the body came upon it
            found = overriding_arguments([*args, *kwargs.values()]) if isinstance(error, RuntimeError) else []
            if not found or (args and found[0] is args[0]):
                arguments.explain_call(error, function, args, kwargs)
                filter_traceback(error)
                raise
        return dispatch(ask, args, kwargs, found)

    return ask


def ask_everywhere(namespace: dict[str, Any], never: Iterable[str] = (), only: Iterable[str] | None = None) -> None:
    """Replace the functions of a namespace that are no declared operators by forms that ask.

    never: names to leave alone; only: the names to consider (default: all).
    """
    skipped = frozenset(never)
    for name in list(namespace) if only is None else only:
        function = namespace.get(name)
        if (
            isinstance(function, FunctionType)
            and name not in skipped
            and not hasattr(function, "operator")
            and not hasattr(function, "__wrapped__")
        ):
            namespace[name] = asking(function)


# ---------------------------------------------------------------- modes


class TorchFunctionMode:
    """A mode whose `__torch_function__(func, types, args, kwargs)` answers every call of a public function or of a method of
    Tensor made inside `with mode:`.

    What it calls goes to the mode outside of it, and at last to the function.
    """

    __module__ = public_module("overrides")

    def __enter__(self) -> Any:
        self.__dict__.setdefault("_attention", []).append(attention())
        local.modes.append(self)
        active.enter()
        return self

    def __exit__(self, *exception: object) -> None:
        local.modes.pop()
        active.leave()
        self.__dict__["_attention"].pop()

    def __torch_function__(
        self, func: Callable, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise NotImplementedError

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance; `with Mode.push(...)` is `with Mode(...)`."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """The mode that changes nothing."""

    __module__ = public_module("overrides")

    def __torch_function__(
        self, func: Callable, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def dispatch_to_mode(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the innermost mode of this thread answers to a call of a function; what it calls belongs to the modes outside."""
    mode = local.modes.pop()
    try:
        types = tuple(type(x) for x in in_order(overriding_arguments([*args, *kwargs.values()])))
        result = mode.__torch_function__(function, types, args, kwargs)
        if result is NotImplemented:
            raise TypeError(
                f"Multiple dispatch failed for 'torch.{getattr(function, '__qualname__', function)}'; "
                f"all __torch_function__ handlers returned NotImplemented:\n\n  - mode object {mode!r}\n"
            )
        return result
    finally:
        local.modes.append(mode)


def mode_on() -> bool:
    """Whether a mode of this thread sees operator calls."""
    return bool(active.count and local.modes)
