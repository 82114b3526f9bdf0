"""torch.utils.checkpoint: forget what a stretch of the program would save for backward, and compute it again there.

Two ways. With use_reentrant=True the stretch runs without a graph inside an autograd Function, whose backward runs it again and
differentiates that. With use_reentrant=False the graph is recorded as usual, but saved tensors are replaced by places
(saved-tensor hooks) that are filled by running the stretch again when backward asks for the first of them.
Stands on the tensor API.
"""

from __future__ import annotations

import contextlib
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import flambeau as torch
from flambeau.core.autograd import node as graph
from flambeau.core.autograd.saved_tensors import PACKED, pack
from flambeau.core.modes.modes import local, observed
from flambeau.core.operator import unsupported as _unsupported
from flambeau.utils.selective_checkpoint import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

GraphExecGroup = _unsupported.kind(
    "utils.checkpoint.GraphExecGroup", "it serves pipelines over several devices; flambeau has one"
)


class CheckpointError(RuntimeError):
    """Running a checkpointed function again did not save what it saved the first time."""


class DefaultDeviceType:
    """The type of device whose random numbers are preserved besides the CPU's."""

    _default = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Choose the type."""
        DefaultDeviceType._default = device

    @staticmethod
    def get_device_type() -> str:
        """The type."""
        return DefaultDeviceType._default


_state = {"early_stop": True, "debug": None}


@contextlib.contextmanager
def _setting(name: str, value: Any) -> Iterator[None]:
    before, _state[name] = _state[name], value
    try:
        yield
    finally:
        _state[name] = before


def set_checkpoint_early_stop(enable: bool) -> Any:
    """Context in which running a stretch again stops, or doesn't stop, once everything that is missing has been computed."""
    return _setting("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """Context in which all checkpoints have, or have not, debug=True; None leaves it to each."""
    return _setting("debug", enabled)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with each tensor taken out of its graph, requiring grad as before. Raises RuntimeError if it is no tuple."""
    if not isinstance(inputs, tuple):
        raise RuntimeError("Only tuple of tensors is supported. Got Unsupported input type: ", type(inputs).__name__)
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no input requires grad."""
    if not any(x.requires_grad for x in inputs if isinstance(x, torch.Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=1)


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """(devices, states) of the accelerators the tensors are on: none."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Restore states of get_device_states."""


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing: for the first run and for the second."""
    return contextlib.nullcontext(), contextlib.nullcontext()


class _Conditions:
    """Random state and autocast of the first run, to be restored for the second."""

    def __init__(self, preserve_rng_state: bool):
        self.rng = torch.get_rng_state() if preserve_rng_state else None
        self.autocast = {
            "device_type": "cpu",
            "enabled": torch.is_autocast_enabled("cpu"),
            "dtype": torch.get_autocast_dtype("cpu"),
            "cache_enabled": torch.is_autocast_cache_enabled(),
        }

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """The block in which the function runs again."""
        with torch.random.fork_rng(enabled=self.rng is not None), torch.autocast(**self.autocast):
            if self.rng is not None:
                torch.set_rng_state(self.rng)
            yield


# ---------------------------------------------------------------- reentrant


class CheckpointFunction(torch.autograd.Function):
    """The stretch as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.conditions = _Conditions(preserve_rng_state)
        ctx.inputs = [None if isinstance(x, torch.Tensor) else x for x in args]
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, torch.Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        with torch.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        run = graph.running.run
        if run is not None and run.needed is not None:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.inputs)
        for place, tensor in zip(ctx.places, ctx.saved_tensors):
            inputs[place] = tensor
        detached = detach_variable(tuple(inputs))
        with ctx.conditions.restored(), torch.enable_grad():
            outputs = ctx.run_function(*detached)
        outputs = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        pairs = [(out, g) for out, g in zip(outputs, gradients) if isinstance(out, torch.Tensor) and out.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        torch.autograd.backward([out for out, _ in pairs], [g for _, g in pairs])
        return (None, None, *[x.grad if isinstance(x, torch.Tensor) else None for x in detached])


# ---------------------------------------------------------------- not reentrant


class _Stop(Exception):
    """Everything that was missing has been computed."""


class _Place:
    """What the graph keeps instead of a saved tensor: the how-many-eth it was."""

    __slots__ = ("__weakref__", "index")

    def __init__(self, index: int):
        self.index = index


class _Frame:
    """One checkpointed call: what its tensors looked like, and those computed again, by the backward pass that asked for them."""

    def __init__(self, early_stop: bool, check: Callable[[Any], Any] | None):
        self.early_stop, self.check = early_stop, check
        self.again: Callable[[], None] = lambda: None
        self.places: list[weakref.ref[_Place]] = []
        self.metadata: list[Any] = []
        self.values: dict[int, dict[int, Any]] = {}
        self.finished = False  # whether the first run is over; a backward pass inside of it knows no more than what it saved

    def pack(self, tensor: Any) -> _Place:
        """Called for each tensor the graph would save in the first run."""
        place = _Place(len(self.places))
        self.places.append(weakref.ref(place))
        self.metadata.append(None if self.check is None else self.check(tensor))
        return place

    def unpack(self, place: _Place) -> Any:
        """The tensor, from running the function again unless this backward pass has.

        CheckpointError if the pass got it before.
        """
        run = graph.running.run
        if run is None:
            return self.recompute()[place.index]
        number = run.number
        if number not in self.values:
            self.values[number] = self.recompute()
            run.callbacks.append(lambda: self.values.pop(number, None))
        if place.index not in self.values[number]:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If you are "
                "calling ctx.saved_tensors in backward, make sure to do so only once. Otherwise please open an issue with "
                "details on your use case."
            )
        return self.values[number].pop(place.index)

    def recompute(self) -> dict[int, Any]:
        """Run the function again and collect what its graph saves."""
        count, total = 0, len(self.metadata)
        values: dict[int, Any] = {}
        found: list[Any] = []

        def keep(tensor: Any) -> Any:
            nonlocal count
            if count < total and self.places[count]() is not None:
                values[count] = tensor
            found.append(None if self.check is None else self.check(tensor))
            count += 1
            if self.early_stop and count == total:
                raise _Stop
            return tensor

        with (
            torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
            torch.enable_grad(),
            contextlib.suppress(_Stop),
        ):
            self.again()
        if count > total and self.finished:
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original forward pass."
                + _TIP
            )
        if count < total:
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {total}\n"
                f"Number of tensors saved during recomputation: {count}.{_TIP}"
            )
        differing = [i for i in range(total) if self.metadata[i] != found[i]]
        if differing:
            lines = "".join(
                f"tensor at position {i}:\nsaved metadata: {self.metadata[i]}\nrecomputed metadata: {found[i]}\n"
                for i in differing
            )
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass.\n{lines}.{_TIP}"
            )
        return values


class _Log(torch.overrides.TorchFunctionMode):
    """Writes down which functions are called, and from where."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, list[str]]] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", str(function))
        self.calls.append((name, traceback.format_stack()[:-2]))
        return function(*args, **(kwargs or {}))

    def names(self) -> str:
        """One line per call."""
        return "".join(f"{number}: {name}\n" for number, (name, _) in enumerate(self.calls))

    def traces(self) -> str:
        """Where each call came from."""
        return "\n".join(f"{number}: {name}\n{''.join(stack)}" for number, (name, stack) in enumerate(self.calls))


def _explained(error: CheckpointError, first: _Log, second: _Log) -> CheckpointError:
    """The error that debug=True makes of another: with the functions that both runs called."""
    return CheckpointError(
        f"Calls of the original forward, and where they came from:\n{first.traces()}\n"
        f"Calls of the recomputation, and where they came from:\n{second.traces()}\n"
        f"Original forward:\n{first.names()}\nRecomputation:\n{second.names()}\n{error}\n\n"
        "You are seeing this error because you passed `debug=True` to checkpoint and the tensors saved during the original "
        "forward differ from those saved during recomputation: compare the two lists of calls above."
    )


_TIP = (
    "\n\nTip: the function has to save the same tensors both times; look for state that the first run changed (counters, caches, "
    "modules in train mode) and for random numbers while preserve_rng_state=False."
)


def _metadata(tensor: Any) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


_CHECKS: dict[str, Callable[[Any], Any] | None] = {"default": _metadata, "none": None}


def _checkpoint_without_reentry(
    function: Callable[..., Any],
    preserve_rng_state: bool,
    context_fn: Callable[[], Any],
    determinism_check: str,
    debug: bool,
    early_stop: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    logs = (_Log(), _Log()) if debug else None
    if logs is not None:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
    if determinism_check not in _CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_CHECKS)} but got {determinism_check}")
    first, second = context_fn() if logs is None else logs
    if not torch.is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    conditions = _Conditions(preserve_rng_state)
    # An outer checkpoint, or other hooks, keep the arguments too.
    places = [place for place, argument in enumerate(args) if isinstance(argument, torch.Tensor)]
    tensors, versions = pack(tuple(args[place] for place in places), tuple(args[place]._storage.version for place in places))
    rest = [None if isinstance(argument, torch.Tensor) else argument for argument in args]

    def again() -> None:
        given = list(rest)
        for place, tensor, version in zip(places, tensors, versions, strict=True):
            given[place] = tensor.unpacked() if version == PACKED else tensor
        with conditions.restored(), second:
            function(*given, **kwargs)

    frame = _Frame(early_stop, _CHECKS[determinism_check])
    frame.again = again

    def unpack(place: _Place) -> Any:
        try:
            return frame.unpack(place)
        except CheckpointError as error:
            raise error if logs is None else _explained(error, *logs) from None

    with torch.autograd.graph.saved_tensors_hooks(frame.pack, unpack), first:
        result = function(*args, **kwargs)
    frame.finished = True
    return result


# ---------------------------------------------------------------- the public functions

_UNSAID = (
    "the use_reentrant parameter should be passed explicitly. {when}use_reentrant=False is recommended, but if you need to "
    "preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on the differences "
    "between the two variants."
)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Any] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args), of which backward keeps the arguments only and computes the rest again.

    use_reentrant: which of the two ways (give it; None warns and means True). preserve_rng_state (keyword, default True): random
    numbers are the same both times. context_fn, determinism_check, early_stop: only for use_reentrant=False, and
    debug, with which errors list the functions that both runs called.
    Raises ValueError for keyword arguments with use_reentrant=True, CheckpointError if the second run saves other
    tensors than the first.
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: "
            + _UNSAID.format(when="Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an exception. "),
            stacklevel=2,
        )
        use_reentrant = True
    settings = {"use_reentrant": use_reentrant, **{key: kwargs[key] for key in ("preserve_rng_state",) if key in kwargs}}
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")

        def run() -> Any:
            return CheckpointFunction.apply(function, preserve, *args)

    else:
        debug = debug if _state["debug"] is None else _state["debug"]
        early_stop = early_stop and bool(_state["early_stop"])

        def run() -> Any:
            return _checkpoint_without_reentry(function, preserve, context_fn, determinism_check, debug, early_stop, args, kwargs)

    if observed.count and local.observer is not None and context_fn is noop_context_fn and not debug:
        return local.observer.higher_order(
            "tag_activation_checkpoint", run, lambda: function(*args, **kwargs), (*args, *kwargs.values()), settings
        )
    return run()


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """A Sequential (or list of functions) run as `segments` checkpointed stretches, but for the last, which is kept."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: "
            + _UNSAID.format(when="In version 2.9 we will raise an exception if use_reentrant is not passed. "),
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if isinstance(functions, torch.nn.Sequential) else list(functions)

    def stretch(start: int, end: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for step in steps[start:end]:
                value = step(value)
            return value

        return run

    size, end = len(steps) // segments, 0
    for start in range(0, size * (segments - 1), size or 1):
        end = start + size
        input = checkpoint(stretch(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return stretch(end, len(steps))(input)
