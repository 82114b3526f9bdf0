"""What changes the meaning of an operator call: grad mode, inference mode, autocast, and stacks of special modes.

Everything here is per thread. Operators read `local.grad` only when an input requires grad, and test `active.count` once
per call: it is zero while no thread uses autocast or a special mode (fake tensors, tracing, function modes, profiling), so
those cost nothing when unused. Stands on base and on the runtime's state words; core.operator.pointwise and autograd use
it.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from flambeau.base import device as devices
from flambeau.base.dtype import bfloat16, dtype, float16, float32
from flambeau.base.locks import short_lock
from flambeau.base.naming import public_module
from flambeau.base.warn import called_by_program
from flambeau.codegen.runtime import launch, state, weight_cache

__all__ = [
    "active",
    "autocast",
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "local",
    "no_grad",
    "set_grad_enabled",
    "special",
]

F = TypeVar("F", bound=Callable[..., Any])


class Count:
    """How many there are of something, in all threads together."""

    __slots__ = ("_lock", "count")

    def __init__(self) -> None:
        self.count = 0
        self._lock = short_lock()

    def __bool__(self) -> bool:
        return self.count != 0

    def enter(self) -> None:
        """One more."""
        with self._lock:
            self.count += 1

    def leave(self) -> None:
        """One less."""
        with self._lock:
            self.count -= 1


class Active(Count):
    """The special modes that are on. The hot path tests `active.count`, of all threads together, and where that isn't zero
    whether this thread is concerned: `special(None)`, a native function that knows the threads by their states.
    """

    __slots__ = ("_crowded", "_threads")

    def __init__(self) -> None:
        super().__init__()
        self._threads: list[int] = []  # as the native list has them
        self._crowded: set[int] = set()  # that found it full: all are taken for special while there are some

    def enter(self, everywhere: bool = False) -> None:
        """A special mode of this thread starts, or one that concerns every thread."""
        own = local.__dict__
        with self._lock:
            self.count += 1
            if everywhere:
                state.words[state.SPECIAL_EVERYWHERE] += 1
                return
            own["special"] += 1
            if own["special"] > 1:
                return
            at = len(self._threads)
            if at == state.MAX_SPECIAL_THREADS:
                self._crowded.add(own["thread_state"])
                state.words[state.SPECIAL_EVERYWHERE] += 1
                return
            self._threads.append(own["thread_state"])
            state.words[state.SPECIAL_THREADS + at] = own["thread_state"]
            state.words[state.SPECIAL] = at + 1

    def leave(self, everywhere: bool = False) -> None:
        """A special mode of this thread ends, or one that concerns every thread."""
        own = local.__dict__
        with self._lock:
            self.count -= 1
            if everywhere:
                state.words[state.SPECIAL_EVERYWHERE] -= 1
                return
            own["special"] -= 1
            if not own["special"]:
                self.forget(own["thread_state"])

    def forget(self, thread_state: int) -> None:
        """A thread is in no special mode any more."""
        with self._lock:
            if thread_state in self._crowded:
                self._crowded.remove(thread_state)
                state.words[state.SPECIAL_EVERYWHERE] -= 1
            elif thread_state in self._threads:
                at, last = self._threads.index(thread_state), self._threads.pop()
                if last != thread_state:
                    self._threads[at] = state.words[state.SPECIAL_THREADS + at] = last
                state.words[state.SPECIAL] = len(self._threads)

    def only(self, thread_state: int) -> None:
        """All other threads are gone."""
        for other in {*self._threads, *self._crowded} - {thread_state}:
            self.forget(other)


active = Active()
special: Callable[[Any], bool] = launch.special
observed = Count()  # how many observers are on (core.modes.observing), which change nothing
deferring: list[Any] = []  # those of all threads that put off what calls compute; another thread's calls tell them
told_of_data = Count()  # of those that `local.of_data` tells


_thread_state = ctypes.pythonapi.PyThreadState_Get
_thread_state.restype, _thread_state.argtypes = ctypes.c_void_p, []


class _End:
    """Goes with its thread and takes along what that has left open: the address of its thread state will be another thread's."""

    __slots__ = ("autocast_enabled", "dispatch_modes", "modes", "thread_state")

    def __init__(self, thread_state: int, modes: list[Any], dispatch_modes: list[Any], autocast_enabled: dict[str, bool]) -> None:
        self.thread_state, self.modes, self.autocast_enabled = thread_state, modes, autocast_enabled
        self.dispatch_modes = dispatch_modes

    def __del__(self) -> None:
        for forget in at_thread_end:
            forget(self.thread_state)
        for _ in range(len(self.modes) + len(self.dispatch_modes) + sum(self.autocast_enabled.values())):
            Count.leave(active)


at_thread_end: list[Callable[[int], None]] = []  # what is to be done for the state of a thread that ends


class _Local(threading.local):
    """The state of the current thread; class attributes are the defaults of a fresh thread."""

    grad: bool = True
    inference: bool = False
    autocast_cache_enabled: bool = True
    autocast_nesting: int = 0
    multithreading: bool = True
    view_replay: bool = False
    mutation_allowed: Any = None  # the block that lets saved tensors be written to
    overrides: bool = True
    below: bool = False  # whether a handler below autograd is at work
    classes_answer: bool = True  # whether classes with a __torch_dispatch__ answer operators
    unasked: bool = False  # whether the next question for overriding arguments is to be answered with no
    guard: int = 0  # the oldest epoch of memory that a function being differentiated may write to
    forward_grad: bool = True  # whether dual tensors move what is computed from them
    draws: Any = None  # who answers for random operators: the innermost vmap of the thread
    own_kernels: bool = False  # whether an operator is computed as it is, whatever kernels a program has put in place
    exporting: str = ""  # what runs a program to record it: "export", or "dynamo" where that is strict
    of_data: Any = None  # told of each tensor that is made of Python's or NumPy's numbers
    observer: Any = None  # who sees the calls of public functions (core.modes.observing)

    def __init__(self) -> None:
        self.thread_state: int = _thread_state()
        self.special = 0  # how many special modes are on
        self.modes: list[Any] = []  # those of __torch_function__, innermost last
        self.dispatch_modes: list[Any] = []  # those below autograd, innermost last
        self.autocast_enabled: dict[str, bool] = {}
        self.autocast_dtype: dict[str, dtype] = {"cpu": bfloat16, "cuda": float16}
        self.autocast_cache: dict[int, tuple[weakref.ref[Any], Any]] = {}
        self.end = _End(self.thread_state, self.modes, self.dispatch_modes, self.autocast_enabled)
        self.saved_tensors_hooks: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = []
        self.saved_tensors_disabled: str | None = None


local = _Local()
weight_cache.wants_gradient = lambda x: x._node is not None and local.grad

# ---------------------------------------------------------------- grad mode


class _Decorator:
    """A context manager that also decorates functions, generators and methods: each call runs inside a fresh copy."""

    def clone(self) -> Any:
        return type(self)()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exception: object) -> None:
        raise NotImplementedError

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
            constructor = function

            def function(*args: Any, **kwargs: Any) -> Any:  # type: ignore[no-redef]
                return constructor(*args, **kwargs)

        clone = self.clone
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(clone, function)  # type: ignore[return-value]

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with clone():
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


def _wrap_generator(clone: Callable[[], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The generator function with every stretch between two yields inside the context, and the yields outside."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        try:
            with clone():
                response = generator.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with clone():
                        generator.close()
                    raise
                except BaseException:
                    with clone():
                        response = generator.throw(*sys.exc_info())
                else:
                    with clone():
                        response = generator.send(request)
        except StopIteration as stop:
            return stop.value

    return inside


class _BareDecorator(_Decorator):
    """May also be applied without parentheses: `@no_grad`."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return object.__new__(cls) if function is None else object.__new__(cls)(function)


class no_grad(_BareDecorator):
    """Context and decorator: operators record no graph."""

    __module__ = public_module("autograd.grad_mode")
    __slots__ = ("prev",)

    def __enter__(self) -> None:
        self.prev = local.grad
        local.grad = False
        if local.dispatch_modes:
            _tell_of_grad()

    def __exit__(self, *exception: object) -> None:
        local.grad = self.prev
        if local.dispatch_modes:
            _tell_of_grad()


class enable_grad(_BareDecorator):
    """Context and decorator: operators record their graph; not in inference mode."""

    __module__ = public_module("autograd.grad_mode")
    __slots__ = ("prev",)

    def __enter__(self) -> None:
        self.prev = local.grad
        local.grad = not local.inference
        if local.dispatch_modes:
            _tell_of_grad()

    def __exit__(self, *exception: object) -> None:
        local.grad = self.prev
        if local.dispatch_modes:
            _tell_of_grad()


class set_grad_enabled(_Decorator):
    """set_grad_enabled(mode): switch at once; as context or decorator, only there."""

    __module__ = public_module("autograd.grad_mode")

    def __init__(self, mode: bool) -> None:
        self.prev = local.grad
        self.mode = mode
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}")
        local.grad = mode and not local.inference
        if local.dispatch_modes:
            _tell_of_grad()

    def __call__(self, function: F) -> F:
        local.grad = self.prev
        if local.dispatch_modes:
            _tell_of_grad()
        return super().__call__(function)

    def __enter__(self) -> None:
        local.grad = self.mode and not local.inference
        if local.dispatch_modes:
            _tell_of_grad()

    def __exit__(self, *exception: object) -> None:
        local.grad = self.prev
        if local.dispatch_modes:
            _tell_of_grad()

    def __str__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"

    __repr__ = __str__

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)


def switch_grad(enabled: bool) -> None:
    """torch._C._set_grad_enabled: record gradients, or don't, from here on. TypeError for what is no bool."""
    set_grad_enabled(enabled)


switch_grad.__name__, switch_grad.__module__ = "_set_grad_enabled", public_module("_C")  # as graphs show it


def _tell_of_grad() -> None:
    """Tell the innermost mode below autograd, if it wants to know, that a program has switched gradients."""
    told = local.dispatch_modes[-1]._switched_grad
    if told is not None and called_by_program(__file__):
        told(local.grad)


_marking = short_lock()


def _set_inference(wanted: bool) -> None:
    """Switch this thread's inference mode: the runtime marks the memory that it allocates meanwhile."""
    if wanted == local.inference:
        return
    local.inference = wanted
    words, first, mine = state.words, state.INFERENCE_THREADS, local.thread_state
    with _marking:
        count = words[state.INFERENCE]
        if wanted:
            if count == state.MAX_INFERENCE_THREADS:
                raise RuntimeError(f"more than {count} threads in inference mode")
            words[first + count] = mine
            words[state.INFERENCE] = count + 1
        else:
            _leave_inference(mine)


def _leave_inference(thread_state: int) -> None:
    """Strike a thread off those in inference mode, if it is one."""
    words, first = state.words, state.INFERENCE_THREADS
    with _marking:
        count = words[state.INFERENCE]
        at = next((i for i in range(first, first + count) if words[i] == thread_state), None)
        if at is not None:
            words[at] = words[first + count - 1]
            words[state.INFERENCE] = count - 1


def _in_child() -> None:
    for thread_state in state.words[state.INFERENCE_THREADS : state.INFERENCE_THREADS + state.words[state.INFERENCE]]:
        if thread_state != local.thread_state:
            _leave_inference(thread_state)
    active.only(local.thread_state)


at_thread_end.append(active.forget)
at_thread_end.append(_leave_inference)
os.register_at_fork(after_in_child=_in_child)


class inference_mode(_Decorator):
    """Context and decorator: no graph, and none wanted later; `inference_mode(False)` switches it off again."""

    __module__ = public_module("autograd.grad_mode")

    def __new__(cls, mode: Any = True) -> Any:
        return object.__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self.prev = (local.grad, local.inference)
        local.grad = not self.mode
        _set_inference(self.mode)

    def __exit__(self, *exception: object) -> None:
        local.grad, wanted = self.prev
        _set_inference(wanted)

    def clone(self) -> inference_mode:
        return type(self)(self.mode)


def is_grad_enabled() -> bool:
    """Whether operators in this thread record their graph."""
    return local.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return local.inference


# ---------------------------------------------------------------- autocast

_AUTOCAST_DEVICES = ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "maia", "xla", "ipu", "privateuseone")


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast exists for this type of device."""
    return devices.device(device_type).type in _AUTOCAST_DEVICES


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on for a type of device; without one, for "cuda" (the older meaning of the call)."""
    return local.autocast_enabled.get("cuda" if device_type is None else device_type, False)


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off for a type of device in this thread."""
    if enabled is None:
        device_type, enabled = "cuda", bool(device_type)
    before = local.autocast_enabled.get(str(device_type), False)
    local.autocast_enabled[str(device_type)] = enabled
    if enabled and not before:
        active.enter()
    elif before and not enabled:
        active.leave()


def get_autocast_dtype(device_type: str) -> dtype:
    """The type autocast computes in on a type of device."""
    if devices.device(device_type).type not in _AUTOCAST_DEVICES:
        raise RuntimeError(f"unknown device type for autocast in get_autocast_dtype: {device_type}")
    return local.autocast_dtype.get(device_type, float16)


def set_autocast_dtype(device_type: str, to: dtype) -> None:
    """Set the type autocast computes in on a type of device."""
    if not isinstance(to, dtype):
        raise TypeError(f"set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {type(to).__name__}")
    local.autocast_dtype[device_type] = to


def is_autocast_cache_enabled() -> bool:
    """Whether the casts of parameters are kept until the outermost autocast block ends."""
    return local.autocast_cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Keep, or don't keep, the casts of parameters."""
    local.autocast_cache_enabled = enabled


def autocast_increment_nesting() -> int:
    """Enter one more autocast block; returns the depth."""
    local.autocast_nesting += 1
    return local.autocast_nesting


def autocast_decrement_nesting() -> int:
    """Leave an autocast block; returns the depth."""
    local.autocast_nesting -= 1
    return local.autocast_nesting


def clear_autocast_cache() -> None:
    """Forget the kept casts."""
    local.autocast_cache.clear()


def autocast_cast(tensor: Any, to: dtype) -> Any:
    """`tensor` in the type an autocast rule asks for; casts of float32 leaves that require grad are kept.

    Only floating-point tensors that aren't float64 are cast.
    """
    own = tensor._layout.dtype
    if own is to or not own.is_floating_point or own.itemsize > 4:
        return tensor
    keep = (
        local.autocast_cache_enabled
        and own is float32
        and to.itemsize < 4
        and tensor._node is not None
        and tensor.is_leaf
        and local.grad
    )
    if not keep:
        return tensor.to(to)
    found = local.autocast_cache.get(id(tensor))
    if found is not None and found[0]() is tensor and found[1]._layout.dtype is to:
        return found[1]
    cast = tensor.to(to)
    local.autocast_cache[id(tensor)] = (weakref.ref(tensor), cast)
    return cast


class autocast:
    """Context and decorator: operators of the autocast list compute in `dtype` on devices of type `device_type`.

    dtype: bfloat16 or float16 (None: the device's autocast dtype). cache_enabled: keep casts of parameters inside the
    block. On "cuda" without CUDA it warns and does nothing, as PyTorch does.
    """

    __module__ = public_module("amp.autocast_mode")

    def __init__(
        self, device_type: str, dtype: dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = self.device_type = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = local.autocast_cache_enabled if cache_enabled is None else cache_enabled
        if device_type == "cuda":
            if enabled:
                warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2)
            enabled = False
        elif device_type == "cpu" and self.fast_dtype not in (bfloat16, float16) and enabled:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU Autocast "
                "only supports dtypes of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._before: list[tuple[bool, bool, Any]] = []

    def __enter__(self) -> autocast:
        kind = self.device
        self._before.append((local.autocast_cache_enabled, local.autocast_enabled.get(kind, False), get_autocast_dtype(kind)))
        set_autocast_enabled(kind, self._enabled)
        set_autocast_dtype(kind, self.fast_dtype)
        autocast_increment_nesting()
        local.autocast_cache_enabled = self._cache_enabled
        self._tell(True)
        return self

    def _tell(self, entered: bool) -> None:
        """Tell the innermost mode below autograd, if it wants to know, that a block begins or ends."""
        told = local.dispatch_modes[-1]._switched_autocast if local.dispatch_modes else None
        if told is not None and called_by_program(__file__):
            told(self if entered else None)

    def __exit__(self, *exception: object) -> None:
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        local.autocast_cache_enabled, enabled, fast_dtype = self._before.pop()
        set_autocast_enabled(self.device, enabled)
        local.autocast_dtype[self.device] = fast_dtype
        self._tell(False)

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]
