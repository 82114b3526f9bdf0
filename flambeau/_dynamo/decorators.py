"""torch._dynamo.decorators: marks for functions and tensors that PyTorch's graph capture obeys.

A traced function runs as Python, so most marks of functions have nothing to do, and give them back. Marks of tensors' dimensions
are kept on the tensors, under PyTorch's names. Stands on eval_frame.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from flambeau._dynamo.compiled import stance as _stance
from flambeau._dynamo.eval_frame import Disabled, wrapped
from flambeau._dynamo.segments.tables import disallowed
from flambeau._dynamo.segments.tracer import tracing
from flambeau.core.operator import unsupported as _unsupported

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "disable",
    "disallow_in_graph",
    "dont_skip_tracing",
    "disable_nested_graph_breaks",
    "error_on_graph_break",
    "forbid_in_graph",
    "graph_break",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "patch_dynamo_config",
    "run",
    "set_stance",
    "skip_frame",
    "step_unsupported",
    "substitute_in_graph",
]

leaf_function = _unsupported.function("_dynamo.leaf_function", "graphs have the operators of functions; call the function itself")


def _as_it_is(name: str, meaning: str) -> Callable[..., Any]:
    def mark(fn: Any) -> Any:
        return fn

    mark.__name__ = mark.__qualname__ = name
    mark.__doc__ = f"Mark a function {meaning}; gives it back."
    return mark


assume_constant_result = _as_it_is("assume_constant_result", "whose result is taken as constant: here it is called each time")
forbid_in_graph = _as_it_is("forbid_in_graph", "that no captured graph may call")
nonstrict_trace = _as_it_is("nonstrict_trace", "that is captured by calling it")
dont_skip_tracing = _as_it_is("dont_skip_tracing", "that is captured in any case")
disable_nested_graph_breaks = _as_it_is("disable_nested_graph_breaks", "that is captured whole or not at all")


_allowed: weakref.WeakSet[Any] = weakref.WeakSet()


def allow_in_graph(fn: Any) -> Any:
    """Mark a function, or several, that PyTorch takes as one operator of a graph: here its operators are part of it. Gives it
    back.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(x) for x in fn]
    disallowed.discard(fn)
    _allowed.add(fn)
    return fn


def disallow_in_graph(fn: Any) -> Any:
    """Mark a function of torch's, or several, that no graph has: graphs end before it, and it runs eagerly. Gives it back.
    RuntimeError for other functions, which graphs have the operators of: see `disable`.
    """
    if isinstance(fn, (list, tuple)):
        return [disallow_in_graph(x) for x in fn]
    own = ("torch", "flambeau", "_operator", "math", "builtins")
    if fn not in _allowed and str(getattr(fn, "__module__", None)).partition(".")[0] not in own:
        raise RuntimeError(
            "disallow_in_graph is expected to be used on an already allowed callable (like torch.* ops). Allowed callables means "
            "callables that TorchDynamo puts as-is in the extracted graph."
        )
    disallowed.add(fn)
    return fn


def run(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that isn't compiled anew: the function itself."""
    return fn


def graph_break(msg: str = "") -> None:
    """Break the graph that is traced: what was asked for so far is computed here. Unsupported inside fullgraph=True."""
    tracer = tracing()
    if tracer is not None:
        tracer.broke("Call to `torch._dynamo.graph_break()`")
        tracer.settle()


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
    """A function or module of which no graph has anything: inside a compiled function it runs eagerly. Without one, a decorator.

    recursive=False: what it calls may be in graphs, as may here all it does: the function itself. reason: for messages.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason, wrapping=wrapping)
    if not callable(fn):
        raise AssertionError(f"fn must be callable, got {type(fn)}")
    return wrapped(fn, Disabled(reason)) if recursive else fn


_STANCES = ("default", "eager_then_compile", "aot_eager_then_compile", "force_eager", "eager_on_recompile", "fail_on_recompile")


class set_stance:
    """How compiled functions behave from here on, or inside the context or the decorated function.

    stance: "default"; "force_eager": they run eagerly; "eager_on_recompile": as does what isn't compiled yet;
    "fail_on_recompile": RuntimeError there. force_backend: the backend of all that is compiled meanwhile.
    RuntimeError for other stances; AssertionError inside a compiled function.
    """

    _dynamo_forbidden = True

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        if tracing() is not None:
            raise AssertionError(f"Attempt to trace forbidden callable {type(self)}: call it outside of the compiled function")
        self.wanted, self.before = (stance, force_backend), (_stance.name, _stance.force_backend)
        _stance.name, _stance.force_backend = self.wanted

    def __enter__(self) -> None:
        _stance.name, _stance.force_backend = self.wanted

    def __exit__(self, *exception: object) -> None:
        _stance.name, _stance.force_backend = self.before

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        _stance.name, _stance.force_backend = self.before
        stance, backend = self.wanted

        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with set_stance(stance, force_backend=backend):
                return fn(*args, **kwargs)

        return inside


def skip_frame(msg: str = "") -> None:
    """Leave the surrounding function to Python, which runs it anyway."""


def step_unsupported(msg: str = "") -> None:
    """Leave the rest of the surrounding function to Python, which runs it anyway."""


def error_on_graph_break(error_on_graph_break: bool) -> Any:
    """A context, or a decorator, in which breaks of graphs are errors, or are none even with fullgraph=True."""
    return _breaks(error_on_graph_break)


@contextlib.contextmanager
def _breaks(are_errors: bool) -> Iterator[None]:
    before, _stance.breaks_are_errors = _stance.breaks_are_errors, are_errors
    try:
        yield
    finally:
        _stance.breaks_are_errors = before


def patch_dynamo_config(arg1: Any = None, arg2: Any = None, **kwargs: Any) -> Any:
    """A context, or a decorator, in which settings have other values: `torch._dynamo.config.patch`."""
    from flambeau._dynamo import config

    return config.patch(arg1, arg2, **kwargs)  # type: ignore[attr-defined]


def substitute_in_graph(original_fn: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
    """Decorator of a function that captured graphs call instead of original_fn; gives it back."""
    return lambda traceable_fn: traceable_fn


# ---------------------------------------------------------------- marks of tensors


class _DimRange(NamedTuple):
    dim: int
    min: int | None
    max: int | None


def _indices(index: int | Iterable[int]) -> list[int]:
    return [index] if isinstance(index, int) else list(index)


def _mark(t: Any, attribute: str, index: int | Iterable[int]) -> None:
    marked = t.__dict__.setdefault(attribute, set())
    for dim in _indices(index):
        if not 0 <= dim < t.dim():
            raise AssertionError(f"Dimension {dim} is out of range for a tensor of {t.dim()} dimensions")
        marked.add(dim)
    t._has_dynamo_dim_marking = True


def mark_dynamic(
    t: Any,
    index: int | list[int] | tuple[int, ...],
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: list[Any] | None = None,
) -> None:
    """Mark dimensions of a tensor whose sizes vary between calls, from min to max."""
    _mark(t, "_dynamo_dynamic_indices", index)
    ranges = t.__dict__.setdefault("_dynamo_dynamic_range", set())
    ranges.update(_DimRange(dim, min, max) for dim in _indices(index))


def maybe_mark_dynamic(t: Any, index: int | list[int] | tuple[int, ...]) -> None:
    """Mark dimensions of a tensor whose sizes may vary between calls."""
    _mark(t, "_dynamo_weak_dynamic_indices", index)


def mark_unbacked(t: Any, index: int | list[int] | tuple[int, ...], *args: Any, **kwargs: Any) -> None:
    """Mark dimensions of a tensor whose sizes a captured graph may not look at."""
    _mark(t, "_dynamo_unbacked_indices", index)


def mark_static(t: Any, index: int | list[int] | tuple[int, ...] | None = None) -> Any:
    """Mark dimensions of a tensor whose sizes don't vary; all of them by default. Also a decorator of modules' classes."""
    if isinstance(t, type):
        t._dynamo_marked_static = True  # type: ignore[attr-defined]
        return t
    _mark(t, "_dynamo_static_indices", range(t.dim()) if index is None else index)
    return None


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Mark a tensor whose memory stays where it is. Raises TypeError for what is no tensor."""
    import flambeau as torch

    if not isinstance(t, torch.Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t)}")
    t._dynamo_static_input_type = "guarded" if guard else "unguarded"  # type: ignore[attr-defined]
