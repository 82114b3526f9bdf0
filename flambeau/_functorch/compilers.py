"""torch._functorch.compilers: what may be given to aot_function as a compiler of graphs. Stands on aot_autograd and torch.jit."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import flambeau as torch
from flambeau import fx, nn
from flambeau._decomp import get_decompositions
from flambeau._functorch.aot_autograd import aot_function, aot_module, make_boxed_compiler
from flambeau._functorch.compile_utils import strip_overloads
from flambeau._functorch.partitioners import draw_graph, min_cut_rematerialization_partition

__all__ = [
    "debug_compile", "debug_nop", "default_decompositions", "draw_graph_compile", "memory_efficient_fusion", "nnc_jit", "nop",
    "print_compile", "simple_ts_compile", "ts_compile",
]  # fmt: skip

aten = torch.ops.aten


@make_boxed_compiler
def nop(fx_g: fx.GraphModule, _: Any) -> fx.GraphModule:
    """The graph itself."""
    return fx_g


def ts_compile(fx_g: fx.GraphModule, inps: Sequence[Any]) -> Any:
    """The graph by TorchScript: scripted and frozen."""
    for node in fx_g.graph.find_nodes(op="call_function", target=aten._to_copy.default):
        if len(node.args) == 1 and set(node.kwargs) == {"dtype"}:
            node.target = aten.to.dtype
            node.args, node.kwargs = (node.args[0], node.kwargs["dtype"]), {}
    for node in fx_g.graph.nodes:
        kwargs = {k: v.type if isinstance(v, torch.device) else v for k, v in node.kwargs.items()}
        node.kwargs = kwargs
    fx_g.graph.lint()
    fx_g.recompile()
    strip_overloads(fx_g)
    script = torch.jit.script(fx_g)
    script = torch.jit.freeze(script.eval())
    if not any(isinstance(x, torch._subclasses.FakeTensor) for x in inps):
        script(*inps)
    return script


def simple_ts_compile(fx_g: fx.GraphModule, _: Any) -> Any:
    """The graph by TorchScript, scripted and frozen without more."""
    strip_overloads(fx_g)
    return torch.jit.freeze(torch.jit.script(fx_g).eval())


def nnc_jit(f: Callable[..., Any]) -> Callable[..., Any]:
    """f by TorchScript's graphs."""
    return aot_function(f, simple_ts_compile)


def _draw_graph_compile(fx_g: fx.GraphModule, _: Any, name: str, clear_meta: bool = True) -> fx.GraphModule:
    print(fx_g.code)
    draw_graph(fx_g, name, clear_meta=clear_meta)
    return fx_g


def draw_graph_compile(name: str) -> Callable[[fx.GraphModule, list[Any]], fx.GraphModule]:
    """A compiler that prints graphs, draws them into a file, and runs them as they are."""
    return make_boxed_compiler(partial(_draw_graph_compile, name=name))


@make_boxed_compiler
def print_compile(fx_g: fx.GraphModule, _: Any) -> fx.GraphModule:
    """The graph itself, which is printed."""
    print(fx_g.code)
    return fx_g


class DebugInterpreter(fx.Interpreter):
    """Runs a graph and compares each value's geometry with what its tracing said. AssertionError where they differ."""

    def run_node(self, n: fx.Node) -> Any:
        """The value of a node."""
        made = super().run_node(n)
        said = n.meta.get("val")
        flat, expected = torch.utils._pytree.tree_leaves(made), torch.utils._pytree.tree_leaves(said)
        for x, y in zip(flat, expected):
            if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
                assert x.dtype == y.dtype and x.dim() == y.dim(), f"{n}: {x.dtype}, {x.shape} instead of {y.dtype}, {y.shape}"
                sizes = [(a, b) for a, b in zip(x.shape, y.shape) if isinstance(b, int)]
                assert all(a == b for a, b in sizes), f"{n}: shape {tuple(x.shape)} instead of {tuple(y.shape)}"
        return made


@make_boxed_compiler
def debug_nop(fx_g: fx.GraphModule, _: Any) -> Callable[..., Any]:
    """What runs a graph and checks what its tracing said of every value."""
    return DebugInterpreter(fx_g).run


#: What a fusing compiler does better with: operators written in simpler ones.
_DECOMPOSED = [
    aten.detach, aten.gelu_backward, aten.leaky_relu_backward, aten.sigmoid_backward, aten.threshold_backward,
    aten.hardtanh_backward, aten.hardsigmoid_backward, aten.hardswish_backward, aten.tanh_backward, aten.silu_backward,
    aten.elu_backward, aten.cudnn_batch_norm_backward, aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.elu,
    aten.leaky_relu, aten.hardtanh, aten.hardswish, aten.hardsigmoid, aten.conj_physical, aten.is_same_size,
]  # fmt: skip
default_decompositions: Any = get_decompositions(_DECOMPOSED)


@make_boxed_compiler
def debug_compile(fx_g: fx.GraphModule, inps: Sequence[torch.Tensor]) -> Any:
    """ts_compile, after the graph was run and its module was written to the folder foo."""
    fx_g.to_folder("foo")
    print(f"the graph's module is in the folder foo; its inputs: {[(tuple(i.shape), i.dtype) for i in inps]}")
    return ts_compile(fx_g, inps)


def memory_efficient_fusion(fn: Any, **kwargs: Any) -> Any:
    """A function or module whose backward pass computes again what is cheap, so that less is saved; by TorchScript's graphs.

    Further arguments go to aot_function.
    """
    config: dict[str, Any] = {
        "fw_compiler": make_boxed_compiler(ts_compile),
        "bw_compiler": make_boxed_compiler(ts_compile),
        "partition_fn": min_cut_rematerialization_partition,
        "decompositions": default_decompositions,
    }
    config.update(kwargs)
    return (aot_module if isinstance(fn, nn.Module) else aot_function)(fn, **config)


@contextlib.contextmanager
def pythonkey_decompose(decomposition_table: Mapping[Any, Callable[..., Any]]) -> Iterator[Any]:
    """Have make_fx record these functions in the place of operators until the end of the block."""
    from flambeau.fx.experimental.proxy_tensor import decompose

    with decompose(decomposition_table) as table:
        yield table


def get_inputs(input_data_path: str) -> list[Any]:
    """Random inputs of the shapes that a file has, a pickle of (shape, stride, dtype, device) or numbers."""
    import pickle

    with open(input_data_path, "rb") as f:
        described = pickle.load(f)
    made: list[Any] = []
    for what in described:
        if not isinstance(what, tuple):
            made.append(random.uniform(-1, 1) if what is float else 1)
            continue
        shape, _, dtype, device = what
        integral = not (dtype.is_floating_point or dtype.is_complex)
        made.append(
            torch.randint(0, 1, shape, dtype=dtype, device=device) if integral else torch.rand(shape, dtype=dtype, device=device)
        )
    return made
