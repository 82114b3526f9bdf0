"""torch.fx.experimental.proxy_tensor: graphs of operators, recorded below autograd.

    make_fx(function)(*inputs)      # a GraphModule of torch.ops.aten calls

The function runs on real (or fake) tensors under a mode that is handed every operator; each tensor that it makes is tracked with
the proxy of the node that makes it. Numbers, sizes among them, are constants of the graph. Stands on proxy_mode.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.core.operator import unsupported
from flambeau.fx import traceback as fx_traceback
from flambeau.fx._lazy_graph_module import _make_graph_module
from flambeau.fx._symbolic_trace import PH, Tracer
from flambeau.fx.experimental.proxy_mode import (
    CONSTANT_NUMEL_LIMIT,
    ProxyTorchDispatchMode,
    PythonKeyTracer,
    TensorTracker,
    track_tensor,
    track_tensor_tree,
    without_modes,
)
from flambeau.fx.experimental.size_nodes import SizeNodes
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.proxy import GraphAppendingTracer, Proxy
from flambeau.nn import Module
from flambeau.utils._python_dispatch import _get_current_dispatch_mode_stack

__all__ = [
    "CONSTANT_NUMEL_LIMIT",
    "DecompositionInterpreter",
    "ProxyTorchDispatchMode",
    "PythonKeyTracer",
    "dispatch_trace",
    "get_isolated_graphmodule",
    "get_proxy_mode",
    "handle_sym_dispatch",
    "make_fx",
    "maybe_disable_fake_tensor_mode",
    "maybe_enable_thunkify",
    "py_sym_types",
    "track_tensor",
    "track_tensor_tree",
]

globals().update(
    unsupported.all_of(
        "fx.experimental.proxy_tensor.",
        "use make_fx, whose graphs have the sizes of the inputs as numbers",
        "wrapper_and_args_for_make_fx proxy_call set_proxy_slot get_proxy_slot get_innermost_proxy_mode_of selective_decompose",
        "PreDispatchTorchFunctionMode",
    )
)

py_sym_types = (torch.SymInt, torch.SymFloat, torch.SymBool)
_MODES = ("real", "fake", "symbolic")


# ------------------------------------------------------------ tracing


def fake_signature(fn: Callable[..., Any], nargs: int) -> Callable[..., Any]:
    """A function that calls fn with nargs positional arguments, arg0 to arg<nargs - 1>."""
    names = ", ".join(f"arg{i}" for i in range(nargs))
    return eval(f"lambda {names}: fn({names})", {"fn": fn})


def dispatch_trace(
    root: Module | Callable[..., Any], tracer: Tracer, concrete_args: tuple[Any, ...] | None = None
) -> GraphModule:
    """The module of what `root` does, recorded by a tracer."""
    graph = tracer.trace(root, concrete_args)  # type: ignore[arg-type]
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return _make_graph_module(tracer.root, graph, name)


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
    proxy_module_inputs: bool = False,
    _disable_torch_fn_metadata_mode: bool = False,
    _post_tracing_script_object_unlift: bool = False,
) -> Callable[..., GraphModule]:
    """A function of the same arguments that returns a GraphModule: the operators (torch.ops.aten) that f calls on them.

    decomposition_table: from overloads to functions that are recorded in their place. tracing_mode: "real" runs f on its
    arguments, "fake" on tensors without values, "symbolic" on such whose sizes, and numbers among the arguments, are nodes of the
    graph; the result's `shape_env` has the guards under which it holds. Gradients that f takes are recorded too. RuntimeError
    where f asks a tensor that depends on its arguments for a number; of "symbolic" where it asks which way to go.
    """
    if tracing_mode not in _MODES:
        raise AssertionError(f"tracing_mode must be real/fake/symbolic, got {tracing_mode}")
    _refuse(pre_dispatch, "pre_dispatch=True", "trace below autograd")
    _refuse(record_module_stack, "record_module_stack=True", "use torch.fx.symbolic_trace, whose nodes have nn_module_stack")
    _refuse(proxy_module_inputs, "proxy_module_inputs=True", "close over the module")

    @functools.wraps(f)
    def wrapped(*args: Any) -> GraphModule:
        """The graph of f at these arguments."""
        tracer = PythonKeyTracer()
        tracer.record_stack_traces = record_stack_traces
        mode = ProxyTorchDispatchMode(tracer, tracing_mode, pre_dispatch, _allow_fake_constant, _error_on_data_dependent_ops)
        mode.decomposition_table = {**CURRENT_DECOMPOSITION_TABLE, **(decomposition_table or {})}
        inside: Any = contextlib.nullcontext()
        if tracing_mode == "fake":
            args, inside = _fakes(args, _allow_non_fake_inputs)
        elif tracing_mode == "symbolic":
            args, inside = _symbolic(args, _allow_non_fake_inputs)
            mode.sizes = SizeNodes(tracer, inside.shape_env, eager=True)
        code = getattr(inspect.unwrap(f), "__code__", None)
        variadic = code is None or code.co_flags & inspect.CO_VARARGS
        function = fake_signature(f, len(args)) if variadic else f
        holders = pytree.tree_map(lambda _: PH, args)
        with inside, mode.sizes or contextlib.nullcontext(), fx_traceback.preserve_node_meta():
            made = dispatch_trace(_with_values(function, args, tracer, mode), tracer, tuple(holders))
        if mode.sizes is not None:
            mode.sizes.drop_unused()
            made.recompile()
            made.shape_env = inside.shape_env  # type: ignore[assignment]
        return made

    return wrapped


def _refuse(wanted: bool, what: str, instead: str) -> None:
    if wanted:
        raise NotImplementedError(f"make_fx with {what} is not implemented in flambeau: {instead}")


def _fakes(args: tuple[Any, ...], allow_others: bool) -> tuple[Any, Any]:
    """The arguments without values, and their mode."""
    from flambeau._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    mode = next((x.fake_mode for x in pytree.tree_leaves(args) if isinstance(x, FakeTensor)), None)
    mode = mode or FakeTensorMode(allow_fallback_kernels=True, allow_non_fake_inputs=allow_others)

    def fake(x: Any) -> Any:
        return mode.from_tensor(x) if isinstance(x, torch.Tensor) and not isinstance(x, FakeTensor) else x

    return pytree.tree_map(fake, args), mode


def _symbolic(args: tuple[Any, ...], allow_others: bool) -> tuple[Any, Any]:
    """The arguments without values, whose sizes have symbols, numbers as symbols, and their mode."""
    from flambeau._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from flambeau.fx.experimental.shape_env import ShapeEnv, Source

    leaves, spec = pytree.tree_flatten(args)
    mode = next((x.fake_mode for x in leaves if isinstance(x, FakeTensor) and x.fake_mode.shape_env is not None), None)
    mode = mode or FakeTensorMode(allow_fallback_kernels=True, allow_non_fake_inputs=allow_others, shape_env=ShapeEnv())
    env, made, count = mode.shape_env, [], 0
    for x in leaves:
        if isinstance(x, torch.Tensor) and not isinstance(x, FakeTensor):
            made.append(mode.from_tensor(x, source=f"input{count}"))
        elif isinstance(x, int) and not isinstance(x, bool):
            made.append(env.create_symintnode(env.create_symbol(x, Source(f"input{count}"), positive=None), hint=x))
        else:
            made.append(x)
            continue
        count += 1
    return pytree.tree_unflatten(made, spec), mode


def _with_values(
    function: Callable[..., Any], args: tuple[Any, ...], tracer: PythonKeyTracer, mode: ProxyTorchDispatchMode
) -> Callable[..., Any]:
    """The function of proxies that runs `function` on args, which they stand for, and answers with proxies."""
    values = pytree.tree_leaves(args)

    @functools.wraps(function)
    def wrapped(*proxies: Any) -> Any:
        """What function(*args) gives, as proxies."""
        for value, proxy in zip(values, pytree.tree_leaves(proxies)):
            if mode.sizes is not None and (isinstance(value, torch.Tensor) or is_symbolic_number(value)):
                mode.track(value, proxy)
            elif isinstance(value, torch.Tensor):
                track_tensor_tree(value, proxy, constant=None, tracer=tracer)
        with mode:
            out = function(*args)
        return pytree.tree_map(mode.proxy_of, out)

    return wrapped


CURRENT_DECOMPOSITION_TABLE: dict[Any, Callable[..., Any]] = {}


@contextlib.contextmanager
def decompose(decomposition_table: Mapping[Any, Callable[..., Any]] | None) -> Iterator[Any]:
    """Have make_fx record these functions in the place of operators until the end of the block."""
    global CURRENT_DECOMPOSITION_TABLE
    before, CURRENT_DECOMPOSITION_TABLE = CURRENT_DECOMPOSITION_TABLE, dict(decomposition_table or {})
    try:
        yield CURRENT_DECOMPOSITION_TABLE
    finally:
        CURRENT_DECOMPOSITION_TABLE = before


def get_isolated_graphmodule(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tracing_mode: str = "real",
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
) -> GraphModule:
    """The graph of func(*args, **kwargs), recorded apart from whatever is being recorded."""
    values, spec = pytree.tree_flatten((args, kwargs))

    def wrapped(*leaves: Any) -> Any:
        given, named = pytree.tree_unflatten(list(leaves), spec)
        return func(*given, **named)

    with without_modes():
        return make_fx(wrapped, decomposition_table=decomposition_table, tracing_mode=tracing_mode)(*values)


class DecompositionInterpreter(Interpreter):
    """Runs a graph of operators and writes another, in which those of a table are decomposed."""

    def __init__(
        self,
        module: GraphModule,
        new_graph: Graph,
        decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(module, **kwargs)  # type: ignore[arg-type]
        self.new_graph = new_graph
        self.tracer = _GraphAppendingTracerEx(new_graph)
        self.decomposition_table = decomposition_table or {}
        self.mode = ProxyTorchDispatchMode(self.tracer, tracing_mode="real")  # type: ignore[arg-type]
        self.mode.decomposition_table = self.decomposition_table

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The input, which the placeholder in the new graph stands for."""
        out = super().placeholder(target, args, kwargs)
        return track_tensor_tree(out, Proxy(self.new_graph.placeholder(target), self.tracer), constant=None, tracer=self.tracer)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The attribute, which a node in the new graph stands for."""
        out = super().get_attr(target, args, kwargs)
        return track_tensor_tree(out, Proxy(self.new_graph.get_attr(target), self.tracer), constant=None, tracer=self.tracer)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The result, and the output of the new graph."""
        out = super().output(target, args, kwargs)
        self.new_graph.output(pytree.tree_map(lambda x: getattr(self.tracer.unwrap_proxy(x), "node", x), out))
        return out

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph on these inputs; the new graph is written meanwhile."""
        with decompose(self.decomposition_table), self.mode:
            return super().run(*args, **kwargs)


class _GraphAppendingTracerEx(TensorTracker, GraphAppendingTracer):
    """Adds to a graph, and knows the tensors that its nodes stand for."""

    def __init__(self, graph: Graph) -> None:
        GraphAppendingTracer.__init__(self, graph)
        TensorTracker.__init__(self)


# ------------------------------------------------------------ the modes that are on


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The innermost mode of make_fx that is on; None without."""
    stack = _get_current_dispatch_mode_stack()
    return next((mode for mode in reversed(stack) if isinstance(mode, ProxyTorchDispatchMode)), None)


get_innermost_proxy_mode = get_proxy_mode


@contextlib.contextmanager
def disable_proxy_modes_tracing(enable_current: bool = False) -> Iterator[Any]:
    """Record nothing until the end of the block."""
    mode = get_proxy_mode()
    if mode is None:
        yield None
        return
    before, mode.enable_tracing = mode.enable_tracing, False
    try:
        yield mode
    finally:
        mode.enable_tracing = before


@contextlib.contextmanager
def maybe_disable_fake_tensor_mode() -> Iterator[None]:
    """Nothing has to be disabled: fake tensors are found by themselves."""
    yield


maybe_disable_thunkify = maybe_enable_thunkify = maybe_disable_fake_tensor_mode


def is_sym_node(node: Any) -> bool:
    """Whether a node's value is a size: none is, sizes are numbers."""
    return False


def handle_sym_dispatch(func: Any, args: Any, kwargs: Any) -> Any:
    """func(*args, **kwargs): sizes are numbers."""
    return func(*args, **kwargs)
