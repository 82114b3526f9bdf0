"""A function, or a function with its gradients, as a graph of operators that write to nothing.

What the graph returns is the new values of inputs that are written to outside of it, the results, and the tensors that
results are views of; a joint graph, given tangents of these, returns the gradients of its inputs as well. Writes to inputs
that the graph may do itself are copies at its end. Stands on make_fx and FunctionalTensorMode.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import flambeau as torch
from flambeau._functorch import config
from flambeau._functorch._aot_autograd.fakes import fresh, fresh_leaf
from flambeau._functorch._aot_autograd.schemas import MutationType, OutputType, ViewAndMutationMeta
from flambeau._subclasses.fake_tensor import FakeTensor
from flambeau._subclasses.functional_tensor import FunctionalTensorMode
from flambeau.core.autograd.inplace import base_of
from flambeau.core.tensor.fakes import known_value
from flambeau.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from flambeau.fx.graph_module import GraphModule

__all__ = ["trace_forward", "trace_joint"]

_aten = torch.ops.aten
Table = Mapping[Any, Callable[..., Any]] | None


def trace_forward(
    function: Callable[..., list[Any]], inputs: Sequence[Any], meta: ViewAndMutationMeta, table: Table, dynamic: bool
) -> GraphModule:
    """The graph of what a function gives, for programs that want no gradient of it."""

    def forward(*args: Any) -> tuple[Any, ...]:
        with torch.no_grad():
            return tuple(_Run(function, args, meta, clone_written=False).returned)

    return _traced(forward, [fresh_leaf(x, False) for x in inputs], table, dynamic)


def trace_joint(
    function: Callable[..., list[Any]], inputs: Sequence[Any], meta: ViewAndMutationMeta, table: Table, dynamic: bool
) -> GraphModule:
    """The graph of what a function gives, and of its inputs' gradients: (primals, tangents) -> (returned, gradients)."""

    def joint(primals: list[Any], tangents: list[Any]) -> tuple[list[Any], list[Any]]:
        run = _Run(function, primals, meta, clone_written=True)
        return run.returned, run.gradients(primals, tangents)

    given = [fresh(x) for x in inputs]
    return _traced(joint, [given, [fresh(t) for t in meta.traced_tangents]], table, dynamic)


def _traced(function: Callable[..., Any], args: Sequence[Any], table: Table, dynamic: bool) -> GraphModule:
    made = make_fx(function, decomposition_table=table, tracing_mode="symbolic" if dynamic else "fake")(*args)
    made.graph.eliminate_dead_code()
    made.recompile()
    for node in made.graph.find_nodes(op="get_attr"):
        constant = getattr(made, str(node.target), None)
        if not isinstance(constant, FakeTensor):
            continue
        known = known_value(constant)  # of numbers that the function wrote down
        if known is not None:
            setattr(made, str(node.target), known)
        else:
            raise AssertionError(f"Unexpected fake tensor in a graph, as its attribute {node.target}: pass it as an argument")
    if config.functionalize_rng_ops:
        _refuse_random(made)
    return made


def _refuse_random(module: GraphModule) -> None:
    """RuntimeError for a random operator whose seed is to be an input: the processor's stream is no function of one."""
    for node in module.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise RuntimeError(
                f"You are trying to functionalize a CPU RNG operator ({node.target}) but CPU does not use "
                f"Philox/counter-based RNG. "
                "Therefore, functionalizing a CPU RNG operator is not supported. We are discussing the possibility of a "
                "Philox-based RNG implementation for CPU."
            )


@contextlib.contextmanager
def _as_backward() -> Iterator[None]:
    """Note of the nodes recorded meanwhile that they are of the backward pass, whether they need a tangent or not."""
    recorder = get_proxy_mode()
    assert recorder is not None
    graph = recorder.tracer.graph
    before = len(graph.nodes)
    yield
    for node in list(graph.nodes)[before:]:
        node.meta["partitioner_tag"] = "is_backward"


def _mark_written(x: torch.Tensor) -> None:
    """Note at an input's node that it is written to, by the graph or after it: a backward pass can't have it as it was."""
    recorder = get_proxy_mode()
    found = None if recorder is None else recorder.tracer.known(x)
    if found is not None:
        found.proxy.node.meta["written"] = True


class _Run:
    """A run of a function on tensors that make_fx knows, under functionalization."""

    def __init__(
        self, function: Callable[..., list[Any]], args: Sequence[Any], meta: ViewAndMutationMeta, clone_written: bool
    ) -> None:
        self.meta = meta
        self.mode = FunctionalTensorMode()
        grad_mode = torch.is_grad_enabled()
        with self.mode:
            given = [self._prepared(i, x) for i, x in enumerate(args)] if clone_written else list(args)
            results = function(*given)
            bases = self._bases(results)
        torch.set_grad_enabled(grad_mode)
        self.tensors = [*[given[i] for i in meta.mutated_inp_runtime_indices], *results, *bases]
        values = [self.mode.current(x) for x in self.tensors]
        for i in [*meta.mutated_inp_runtime_indices, *meta.mutated_graph_handled_indices]:
            if isinstance(args[i], torch.Tensor):
                _mark_written(args[i])
        self._write_inside(args, given)
        for at, info in enumerate(meta.output_info):
            if info.output_type is OutputType.is_input and info.base_idx in meta.mutated_graph_handled_indices:
                values[len(meta.mutated_inp_runtime_indices) + at] = args[info.base_idx]
        self.returned = values

    def _prepared(self, i: int, x: Any) -> Any:
        """An input as the function gets it: where the write to it is seen by autograd, the gradient is that of before."""
        info = self.meta.input_info[i]
        if not isinstance(x, torch.Tensor) or info.mutation_type is not MutationType.MUTATED_OUT_GRAPH:
            return x
        if info.mutates_data and (x.requires_grad or info.requires_grad):
            return x.clone()
        return x.view(x.shape) if info.mutates_metadata else x

    def _bases(self, results: Sequence[Any]) -> list[Any]:
        found: dict[int, Any] = {}
        for x, info in zip(results, self.meta.output_info):
            if info.output_type is OutputType.alias_of_intermediate_save_as_output:
                found[info.base_idx or 0] = base_of(x)
        return [found[i] for i in range(self.meta.num_intermediate_bases)]

    def _write_inside(self, args: Sequence[Any], given: Sequence[Any]) -> None:
        """The writes to inputs that the graph does itself."""
        for i in self.meta.mutated_graph_handled_indices:
            value = self.mode.current(given[i])
            if value is not args[i]:
                with torch.no_grad():
                    _aten.copy_.default(args[i], value)

    def gradients(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The gradient of every input, None for those without, from those of what was returned."""
        wanted = [x for x in primals if isinstance(x, torch.Tensor) and x.requires_grad]
        sources = [x for i, x in enumerate(self.tensors) if self.meta.takes_tangent(i)]
        pairs = [(x, t) for x, t in zip(sources, tangents) if x.requires_grad]
        found: Sequence[Any] = [None] * len(wanted)
        if pairs and wanted:
            with _as_backward(), self.mode:
                made = torch.autograd.grad([x for x, _ in pairs], wanted, [t for _, t in pairs], allow_unused=True)
            found = [None if g is None else self.mode.current(g) for g in made]
        rest = iter(found)
        return [next(rest) if isinstance(x, torch.Tensor) and x.requires_grad else None for x in primals]
