"""Compiled functions: what torch.compile gives back for a backend that takes graphs, and the graphs that were compiled for one.

A call runs under a segment tracer; each segment is looked up among those that were compiled, or becomes a graph for the backend.
Stands on segments, config and exc; used by eval_frame.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
import traceback
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

import flambeau as torch
from flambeau._dynamo import config, exc, utils
from flambeau._dynamo.backends.registry import lookup_backend
from flambeau._dynamo.segments import tables
from flambeau._dynamo.segments.graphs import Input, graph_of
from flambeau._dynamo.segments.places import ROOTS, variables_of
from flambeau._dynamo.segments.segment import Segment
from flambeau._dynamo.segments.sizes import SizeInt
from flambeau._dynamo.segments.sources import Sources
from flambeau._dynamo.segments.tracer import Tracer, tracing
from flambeau._dynamo.segments.varying import Varying
from flambeau.base.device import stand_ins_in_use
from flambeau.core.modes.modes import local
from flambeau.core.modes.overrides import filter_traceback
from flambeau.fx.experimental.size_errors import ConstraintViolationError

__all__ = ["Compiled", "reset", "stance"]

log = logging.getLogger("torch._dynamo")
_breaks_log = logging.getLogger("torch._dynamo.graph_breaks")
_recompiles_log = logging.getLogger("torch._dynamo.recompiles")
for _name_of_log in os.environ.get("TORCH_LOGS", "").split(","):
    if _name_of_log.strip("+-") in ("graph_breaks", "recompiles"):
        _shown = logging.getLogger(f"torch._dynamo.{_name_of_log.strip('+-')}")
        _shown.setLevel(logging.DEBUG)
        _shown.addHandler(logging.StreamHandler())
units: weakref.WeakSet[Any] = weakref.WeakSet()  # what torch.compile made, which `reset` has forget


class Stance:
    """How compiled functions behave: torch.compiler.set_stance; breaks_are_errors: _dynamo.error_on_graph_break, None outside."""

    name = "default"
    force_backend: Any = None
    breaks_are_errors: bool | None = None


stance = Stance()


def reset() -> None:
    """Forget all graphs that were compiled."""
    for unit in list(units):
        unit.forget()
    utils.counters.clear()


class Compiled:
    """A function whose graphs go to a backend, a callable that takes a GraphModule and example inputs and gives a callable.

    fullgraph: Unsupported is raised where PyTorch would need a second graph. dynamic: accepted. told(reason, frames):
    is told where a graph ends before the function does.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        backend: Callable[..., Any],
        *,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        told: Callable[[str, list[Any]], None] | None = None,
    ) -> None:
        self.function, self.backend, self.fullgraph, self.dynamic, self.told = function, backend, fullgraph, dynamic, told
        self.forget()
        units.add(self)

    def forget(self) -> None:
        """Forget the graphs."""
        self.graphs: dict[Any, Callable[..., Any]] = {}  # call(*inputs) gives the results of a segment
        self.starts: Counter[Any] = Counter()  # how many graphs begin at a place
        self.numbers_only: set[Any] = set()  # keys of segments whose sizes can't be symbols
        self.sizes: dict[str, Any] = {}  # of arguments in calls so far, by the expressions for them: see Varying

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if config.disable or stance.name == "force_eager" or not _traceable():
            return self._eagerly(args, kwargs)
        if tracing() is not None:  # inside a compiled function it is a part of that
            return self.function(*args, **kwargs)
        before, local.exporting = local.exporting, "dynamo"
        try:
            return _Run(self, args, kwargs).result()
        except exc.TorchDynamoException as error:
            filter_traceback(error)
            raise
        finally:
            local.exporting = before

    def _eagerly(self, args: Any, kwargs: dict[str, Any]) -> Any:
        before, local.exporting = local.exporting, ""
        try:
            return self.function(*args, **kwargs)
        finally:
            local.exporting = before

    def broke(self, reason: str) -> None:
        """A graph ends before the function does, as it would in PyTorch."""
        refused = self.fullgraph if stance.breaks_are_errors is None else stance.breaks_are_errors
        if refused and reason not in tables.FORGIVEN:
            raise exc.Unsupported(f"{reason}\n  Explanation: a graph would end here, which fullgraph=True forbids.")
        utils.counters["graph_break"][reason] += 1
        if self.told is not None or _breaks_log.isEnabledFor(logging.DEBUG):
            frames = _program_frames()
            _breaks_log.debug("graph break in %s: %s\n%s", _name(self.function), reason, "\n".join(map(str, frames)))
            if self.told is not None:
                self.told(reason, frames)


def _program_frames() -> list[Any]:
    """The frames of the traced program, the outermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in ROOTS:
        if frame.f_globals.get("__name__", "").partition(".")[0] != torch.__name__:
            found.append(traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found[::-1]


def _traceable() -> bool:
    """Whether calls of this thread can be seen: no mode answers them below autograd."""
    return not local.dispatch_modes and stand_ins_in_use() is None


class _Run:
    """One call of a compiled function."""

    def __init__(self, unit: Compiled, args: Any, kwargs: dict[str, Any]) -> None:
        self.unit, self.args, self.kwargs = unit, args, kwargs
        self.named = _named(unit.function)
        self.root = _code(self.named)
        self.computed = 0  # how many segments were
        self.varying = Varying(unit.sizes, unit.dynamic)
        self.names: dict[int, str] = {}  # of tensors, as the program's variables were called at the last break

    def result(self) -> Any:
        """What the function gives."""
        tracer = Tracer(self.compute, lambda reason, tracer: self.unit.broke(reason), self._dynamic, self.varying.ints)
        args, kwargs = self.varying.arguments(self.unit.function, self.args, self.kwargs)
        if self.varying.found or self.varying.ints:
            tracer.look()
        return tracer.run(self.unit.function, args, kwargs)

    def _dynamic(self, tensor: Any) -> frozenset[int]:
        """The dimensions of a tensor from outside whose sizes may differ between calls."""
        name = self.names.get(id(tensor))
        return self.varying.of(tensor) if name is None else self.varying.variable(tensor, f"{self.computed}: {name}")

    def compute(self, segment: Segment, results: Sequence[int], tracer: Tracer) -> list[Any]:
        """The values of a segment, by its graph."""
        unit = self.unit
        key = self._key(segment, tuple(results))
        found = unit.graphs.get(key)
        if found is None:
            if stance.name in ("eager_on_recompile", "fail_on_recompile") and unit.graphs:
                self.varying.forget()
            if stance.name == "eager_on_recompile" and unit.graphs:
                return segment.run(segment.inputs(), results)
            if stance.name == "fail_on_recompile" and unit.graphs:
                raise RuntimeError(
                    "Detected recompile when torch.compile stance is 'fail_on_recompile'. "
                    f"function: {_name(unit.function)!r}: a graph that wasn't compiled before"
                )
            found = self._compiled(segment, results)
            unit.graphs[self._key(segment, tuple(results))] = found
        given = found(*segment.inputs())
        made = [given[at] for at in range(len(results))]
        self.names, self.computed = variables_of(sys._getframe(1), self.root), self.computed + 1
        return made

    def _key(self, segment: Segment, results: tuple[int, ...]) -> Any:
        """What a graph of a segment is kept under: one that holds for it, if there is one."""
        where = stance.force_backend, _start(segment), results
        key = where, segment.key()
        if (segment.dynamic or segment.ints) and key not in self.unit.graphs:
            general = where, segment.key(distinct=True)
            if general in self.unit.graphs:
                return general
            if general in self.unit.numbers_only:
                segment.specialize()
                return where, segment.key()
        return key

    def _compiled(self, segment: Segment, results: Sequence[int]) -> Callable[..., Any]:
        unit = self.unit
        start = _start(segment)
        alike = unit.starts[start]
        if alike:
            self._recompiles(start, alike)
            if alike >= config.recompile_limit:
                return functools.partial(_by_hand, segment, results)
        order, names = self._names(segment)
        try:
            gm, wanted = graph_of(segment, order, names, self._sources.of, results)
        except ConstraintViolationError:
            raise
        except Exception as error:
            if not segment.dynamic and not segment.ints:
                raise
            log.debug("a graph for each size: %s", error)  # an operator has no rule for symbols
            unit.numbers_only.add(((stance.force_backend, start, tuple(results)), segment.key(distinct=True)))
            segment.specialize()
            order, names = self._names(segment)
            gm, wanted = graph_of(segment, order, names, self._sources.of, results)
        inputs = segment.inputs()
        ordered = [_example(gm, place, x, inputs) for place, x in enumerate(wanted)]
        utils.counters["stats"]["calls_captured"] += len(segment.calls)
        utils.counters["stats"]["unique_graphs"] += 1
        unit.starts[start] += 1
        call = self._by_backend(gm, ordered)
        if call is None:
            return functools.partial(_by_hand, segment, results)
        if wanted == [Input(at) for at in range(len(wanted))]:
            return call
        return lambda *given: call(*[given[at] if dim is None else given[at]._layout.shape[dim] for at, dim in wanted])

    def _by_backend(self, gm: Any, inputs: list[Any]) -> Callable[..., Any] | None:
        """What the backend makes of a graph; None where it fails and failures are suppressed."""
        backend = self.unit.backend if stance.force_backend is None else lookup_backend(stance.force_backend)
        try:
            made = backend(gm, inputs)
            if not callable(made):
                raise TypeError("compiler_fn did not return callable")
            return made
        except exc.TorchDynamoException:
            raise
        except Exception as error:
            if config.suppress_errors:
                log.warning("the backend %r failed (%s); the graph runs eagerly", _name(backend), error)
                return None
            raise exc.BackendCompilerFailed(backend, error) from error

    def _recompiles(self, start: Any, alike: int) -> None:
        """A place from which graphs begin has one more."""
        said = f"{_name(self.unit.function)}: another graph from the same place, as sizes, numbers or what the program did differ"
        _recompiles_log.debug(said)
        if config.error_on_recompile:
            self.varying.forget()
            raise exc.RecompileError(said)
        if alike < config.recompile_limit:
            return
        if self.unit.fullgraph or config.fail_on_recompile_limit_hit:
            raise exc.FailOnRecompileLimitHit(
                f"{config.recompile_limit} graphs were compiled for {_name(self.unit.function)}; its numbers or sizes go on "
                "changing: see torch._dynamo.config.recompile_limit"
            )
        warnings.warn(
            f"torch._dynamo hit config.recompile_limit ({config.recompile_limit})\n   function: "
            f"{_name(self.unit.function)!r}; further graphs run eagerly", stacklevel=2,
        )  # fmt: skip

    def _names(self, segment: Segment) -> tuple[list[int], list[str]]:
        """The order of the graph's inputs, tensors before numbers, and the expressions for them."""
        sources = self._sources
        found = []
        outside = [*[(number, tensor) for number, tensor, _, _ in segment.outside], *segment.ints]
        for at, (number, tensor) in enumerate(outside):
            source = self.names.get(id(tensor)) or sources.of(tensor) or f"L['stack{at}']"
            if isinstance(tensor, SizeInt) and isinstance(tensor.origin, str):
                source = tensor.origin
            of_module = "_parameters[" in source or "_buffers[" in source
            first = next(i for i, call in enumerate(segment.calls) if _uses(call, number))
            found.append((first, not of_module, at, source))
        found.sort()
        return [at for _, _, at, _ in found], [source for *_, source in found]

    @functools.cached_property
    def _sources(self) -> Sources:
        return Sources(self.named, self.args, self.kwargs)


def _start(segment: Segment) -> Any:
    """Where the program stands when a segment begins: another place is another graph, though it computed the same."""
    return next((tuple([place[:2] for place in call.places]) for call in segment.calls if call.places), None)


def _example(gm: Any, place: int, wanted: Input, inputs: Sequence[Any]) -> Any:
    """An input as backends are shown it: a size is its symbol."""
    if wanted.dim is None and isinstance(inputs[wanted.at], torch.Tensor):
        return inputs[wanted.at]
    return gm.graph.find_nodes(op="placeholder")[place].meta["example_value"]


def _uses(call: Any, number: int) -> bool:
    from flambeau._dynamo.segments.values import values_in

    return number in values_in(call.args) or number in values_in(call.kwargs)


def _by_hand(segment: Segment, results: Sequence[int], *inputs: Any) -> list[Any]:
    return segment.run(inputs, results)


def _named(function: Any) -> Any:
    """The function whose arguments and variables name a graph's inputs: a module's forward."""
    module = function if isinstance(function, torch.nn.Module) else getattr(function, "__self__", None)
    if isinstance(module, torch.nn.Module) and (
        function is module or getattr(function, "__name__", "") in ("_call_impl", "__call__")
    ):
        return module.forward
    return function


def _code(function: Any) -> CodeType | None:
    plain = getattr(function, "__func__", function)
    return getattr(inspect.unwrap(plain), "__code__", None) if callable(plain) else None


def _name(thing: Any) -> str:
    return getattr(thing, "__name__", None) or type(thing).__name__


ROOTS.add(Tracer.run.__code__)
