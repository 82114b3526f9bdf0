"""From a function to what runs it: analysed, traced, divided, compiled, wrapped.

`compiled(function, leaves, config)` is the whole way for one set of arguments. Stands on the other files of this room.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau as torch
from flambeau._functorch import config as settings
from flambeau._functorch._aot_autograd import fakes, metadata, runtime, synthetic_bases, tracing
from flambeau._functorch._aot_autograd.schemas import AOTConfig, ViewAndMutationMeta
from flambeau.fx.graph_module import GraphModule

__all__ = ["Captured", "capture", "compiled", "context_of_compilation"]


class _Context:
    """Of what a graph is being compiled, for compilers that want to say so."""

    names: list[str] = []
    number = 0


@contextlib.contextmanager
def context_of_compilation(config: AOTConfig, what: str) -> Iterator[None]:
    """While a graph of this kind ("forward", "backward", "inference") is with its compiler."""
    before, _Context.names, _Context.number = _Context.names, [f"{config.aot_id}_{what}"], config.aot_id
    try:
        yield
    finally:
        _Context.names = before


class Captured:
    """A function as a graph: `graph` takes `inputs`, or (inputs, tangents) if it is of gradients too (`joint`)."""

    def __init__(self, graph: GraphModule, inputs: list[Any], meta: ViewAndMutationMeta, joint: bool) -> None:
        self.graph, self.inputs, self.meta, self.joint = graph, inputs, meta, joint


def wants_gradients(leaves: Sequence[Any]) -> bool:
    """Whether a call with these arguments is to be recorded."""
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in leaves)


def capture(function: Callable[..., list[Any]], inputs: list[Any], mode: Any, config: AOTConfig, joint: bool) -> Captured:
    """The graph of a function of a flat list of fake tensors, of gradients too if `joint`."""
    dynamic = mode.shape_env is not None
    keep = config.keep_inference_input_mutations
    meta = metadata.collect(function, inputs, mode, keep_input_mutations=keep, is_train=joint)
    if joint and not any(meta.takes_tangent(at) for at in range(meta.num_forward_returns)):
        joint = False  # nothing that comes out has a gradient
        meta = metadata.collect(function, inputs, mode, keep_input_mutations=keep, is_train=False)
    trace = tracing.trace_joint if joint else tracing.trace_forward
    return Captured(trace(function, inputs, meta, config.decompositions, dynamic), inputs, meta, joint)


def compiled(
    function: Callable[..., list[Any]], leaves: Sequence[Any], config: AOTConfig
) -> Callable[[Sequence[Any]], list[Any]]:
    """What does the same as `function`, which takes the leaves one by one and gives a flat list, for arguments like these: a
    function of a list of them.
    """
    mode = fakes.mode_of(leaves, config.dynamic_shapes)
    joint = wants_gradients(leaves)
    given = fakes.as_fakes(leaves, mode)
    plan = synthetic_bases.plan(function, leaves, given, mode, joint)
    captured = capture(plan.function, plan.inputs, mode, config, joint)
    run = _training(captured, config) if captured.joint else _inference(captured, config)
    meta = captured.meta

    def call(args: Sequence[Any]) -> list[Any]:
        given = plan.given(args)
        return plan.results(args, runtime.finished(meta, given, run(given)))

    return call


def _inference(captured: Captured, config: AOTConfig) -> Callable[[Sequence[Any]], Sequence[Any]]:
    compiler = config.inference_compiler or config.fw_compiler
    assert compiler is not None
    with context_of_compilation(config, "inference"), torch.no_grad():
        made = runtime.boxed(compiler(captured.graph, captured.inputs))

    def call(args: Sequence[Any]) -> Sequence[Any]:
        with torch.no_grad():
            return made(list(args))  # type: ignore[no-any-return]

    return call


class _WhenAsked:
    """A backward graph, which goes to its compiler when the first gradient is asked for."""

    _boxed_call = True

    def __init__(self, graph: GraphModule, config: AOTConfig) -> None:
        self.graph, self.config = graph, config
        self.run: Callable[[list[Any]], Any] | None = None

    def prepare(self) -> Callable[[list[Any]], Any]:
        """What the compiler made of it."""
        if self.run is None:
            compiler = self.config.bw_compiler or self.config.fw_compiler
            assert compiler is not None
            values = [n.meta.get("val") for n in self.graph.graph.find_nodes(op="placeholder")]
            with context_of_compilation(self.config, "backward"), torch.no_grad():
                self.run = runtime.boxed(compiler(self.graph, values))
        return self.run

    def __call__(self, args: list[Any]) -> Any:
        """The gradients."""
        return self.prepare()(args)


def _training(captured: Captured, config: AOTConfig) -> Callable[[Sequence[Any]], Sequence[Any]]:
    meta = captured.meta
    assert config.partition_fn is not None and config.fw_compiler is not None
    joint_inputs = (captured.inputs, meta.traced_tangents)
    forward, backward = config.partition_fn(captured.graph, joint_inputs, num_fwd_outputs=meta.num_forward)
    with context_of_compilation(config, "forward"), torch.no_grad():
        run = runtime.boxed(config.fw_compiler(forward, captured.inputs))
    run_backward = _WhenAsked(backward, config)
    if settings.force_non_lazy_backward_lowering:
        run_backward.prepare()
    wants = [isinstance(x, torch.Tensor) and x.requires_grad for x in captured.inputs]
    return runtime.training(run, run_backward, meta, wants)
