"""torch._functorch.aot_autograd: functions and modules, with their gradients, as graphs that compilers of a program's own take.

    compiled = aot_function(function, fw_compiler)      # fw_compiler(GraphModule, inputs) -> a callable

The first call traces the function on tensors without values, gradients included, and divides that graph into a forward and a
backward one; each goes to its compiler once. Calls do what the function does, writes to arguments and shared memory among
arguments and results included. A call with other shapes, dtypes, numbers or sharing than those that were compiled for is compiled
for. How this is done is in `_aot_autograd`; `partitioners` divide. Behind functorch.compile.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau._functorch._aot_autograd import compile as _compile
from flambeau._functorch._aot_autograd import fakes as _fakes
from flambeau._functorch._aot_autograd.cache import CompiledCalls
from flambeau._functorch._aot_autograd.schemas import (
    AOTConfig,
    BackwardSignature,
    GraphSignature,
    InputAliasInfo,
    MutationType,
    OutputAliasInfo,
    OutputType,
    ViewAndMutationMeta,
)
from flambeau._functorch.partitioners import default_partition
from flambeau.func.modules import functional_call
from flambeau.utils import _pytree as pytree

__all__ = [
    "AOTConfig", "BackwardSignature", "GraphSignature", "InputAliasInfo", "MutationType", "OutputAliasInfo", "OutputType",
    "ViewAndMutationMeta", "aot_export_joint_simple", "aot_export_module", "aot_function", "aot_module", "aot_module_simplified",
    "compiled_function", "compiled_module", "create_functional_call", "get_aot_compilation_context", "get_aot_graph_name",
    "get_graph_being_compiled", "make_boxed_compiler", "make_boxed_func",
]  # fmt: skip

AOT_COUNTER = itertools.count()
Compiler = Callable[..., Any]


# ---------------------------------------------------------------- functions of one list of arguments


def make_boxed_func(f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """f as a function of one list of its arguments."""

    def g(args: list[Any]) -> Any:
        return f(*args)

    g._boxed_call = True  # type: ignore[attr-defined]
    return g


def make_boxed_compiler(compiler: Compiler) -> Compiler:
    """A compiler whose results take one list of arguments, of one whose results take them one by one."""

    @functools.wraps(compiler)
    def f(fx_g: Any, inps: Any) -> Any:
        made = compiler(fx_g, inps)
        assert made is not None
        return make_boxed_func(made)

    return f


# ---------------------------------------------------------------- what is being compiled


def get_aot_compilation_context() -> tuple[list[str], str, int]:
    """(names of the graph that a compiler has at the moment, the name of the model, the number of the function)."""
    return list(_compile._Context.names), "model", _compile._Context.number


def get_aot_graph_name() -> str:
    """The name of the graph that a compiler has at the moment: of the model, kind and number."""
    names = _compile._Context.names
    return f"model__{'_'.join(names)}" if names else "model"


def get_graph_being_compiled() -> str:
    """The graph that a compiler has at the moment: its number and kind, as "0_forward"; "" without."""
    names = _compile._Context.names
    return "_".join(names)


# ---------------------------------------------------------------- functions


def aot_function(
    fn: Callable[..., Any],
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    partition_fn: Callable[..., Any] = default_partition,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    num_params_buffers: int = 0,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Compiler | None = None,
    *,
    dynamic: bool = False,
    enable_log: bool = True,
    disable_functionalization: bool = False,
    _disable_torch_fn_metadata_mode: bool = False,
) -> Callable[..., Any]:
    """A function that does what fn does by graphs that compilers were given.

    fw_compiler(graph, inputs) and bw_compiler, by default the same, make callables of GraphModules; inference_compiler does so
    where no gradient is wanted. partition_fn divides the graph of both passes. decompositions: functions that are traced in the
    place of operators. keep_inference_input_mutations: writes to arguments are part of graphs where they may be. dynamic: sizes
    are symbols.
    """
    if disable_functionalization:
        raise NotImplementedError(
            "aot_function(disable_functionalization=True) is not implemented in flambeau: graphs have no writes; leave it out"
        )
    config = AOTConfig(
        fw_compiler, bw_compiler or fw_compiler, partition_fn, decompositions or {}, num_params_buffers, next(AOT_COUNTER),
        keep_inference_input_mutations, dynamic_shapes=dynamic, inference_compiler=inference_compiler or fw_compiler,
    )  # fmt: skip
    calls = CompiledCalls(fn, config)

    @functools.wraps(fn)
    def returned_function(*args: Any, **kwargs: Any) -> Any:
        return calls(args, kwargs)

    return returned_function


def aot_module(mod: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """A module that does what mod does by graphs; its parameters and buffers are inputs of these. Arguments: those of
    aot_function.
    """

    def functional(named_params: dict[str, Any], named_buffers: dict[str, Any], *given: Any, **named: Any) -> Any:
        return functional_call(mod, {**named_params, **named_buffers}, given, named)

    compiled = aot_function(functional, *args, **kwargs)

    class AOTModule(nn.Module):
        """A compiled module."""

        def __init__(self) -> None:
            super().__init__()
            self.orig_module = mod

        def forward(self, *given: Any, **named: Any) -> Any:
            """What the module gives."""
            params, buffers = dict(mod.named_parameters()), dict(mod.named_buffers())
            return compiled(params, buffers, *given, **named)

    return AOTModule()


def create_functional_call(
    mod: Any, params_spec: Any, params_len: int, store_orig_mod: bool = False, strict_out_tuple: bool = True
) -> Callable[..., Any]:
    """mod as a function of its parameters and buffers, one by one, and then its arguments.

    strict_out_tuple: RuntimeError unless it returns a tuple or list.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        state = pytree.tree_unflatten(list(args[:params_len]), params_spec)
        made = functional_call(mod, state, args[params_len:], kwargs)
        if strict_out_tuple and not isinstance(made, (tuple, list)):
            raise RuntimeError(
                "Graph output must be a (). This is so that we can avoid pytree processing of the outputs. Please change the "
                "module to have tuple outputs or use aot_module instead."
            )
        return made

    if store_orig_mod:
        call._orig_mod = mod  # type: ignore[attr-defined]
    return call


def aot_module_simplified(
    mod: Any,
    args: Sequence[Any],
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    partition_fn: Callable[..., Any] = default_partition,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Compiler | None = None,
    compiler_config_extra: Any = None,
    ignore_shape_env: bool = False,
    disable_functionalization: bool = False,
    pre_grad_passes: Callable[..., Any] | None = None,
    compile_region_name: str | None = None,
) -> Callable[..., Any]:
    """A function of mod's arguments, which are a flat list of tensors like `args`, that gives a flat tuple: what a backend of
    torch.compile needs. mod: a module without containers around its arguments and results; it is compiled at once.
    """
    if disable_functionalization:
        raise NotImplementedError("aot_module_simplified(disable_functionalization=True) is not implemented in flambeau")
    params = {**dict(mod.named_parameters(remove_duplicate=False)), **dict(mod.named_buffers(remove_duplicate=False))}
    leaves, spec = pytree.tree_flatten(params)
    function = create_functional_call(mod, spec, len(leaves))
    if pre_grad_passes is not None:
        mod = pre_grad_passes(mod, args)
    config = AOTConfig(
        fw_compiler, bw_compiler or fw_compiler, partition_fn, decompositions or {}, len(leaves), next(AOT_COUNTER),
        keep_inference_input_mutations, inference_compiler=inference_compiler or fw_compiler,
    )  # fmt: skip

    calls = CompiledCalls(lambda *flat: list(function(*flat)), config)
    calls.prepare((*leaves, *args), {})

    def forward(*runtime_args: Any) -> Any:
        return tuple(calls((*leaves, *runtime_args), {}))

    forward.zero_grad = mod.zero_grad  # type: ignore[attr-defined]
    forward.named_parameters = mod.named_parameters  # type: ignore[attr-defined]
    forward.named_buffers = mod.named_buffers  # type: ignore[attr-defined]
    return forward


compiled_function = aot_function
compiled_module = aot_module


# ---------------------------------------------------------------- graphs for other programs


def _aot_export_function(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    num_params_buffers: int = 0,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    no_tangents: bool = False,
    pre_dispatch: bool = False,
    dynamic_shapes: bool | None = None,
    keep_input_mutations: bool = False,
    trace_joint: bool = False,
    kwargs: dict[str, Any] | None = None,
) -> tuple[Any, ViewAndMutationMeta, Any, Any]:
    """(graph, what the function does to memory, the containers of its arguments, of its results)."""
    if pre_dispatch:
        raise NotImplementedError("AOT export with pre_dispatch=True is not implemented in flambeau: use torch.export.export")
    leaves, in_spec = pytree.tree_flatten((args, kwargs or {}))
    flat = FlatFunction(func, in_spec)
    dynamic = bool(dynamic_shapes)
    mode = _fakes.mode_of(leaves, dynamic)
    config = AOTConfig(
        None, None, None, decompositions or {}, num_params_buffers, next(AOT_COUNTER), keep_input_mutations, is_export=True,
        no_tangents=no_tangents, dynamic_shapes=dynamic,
    )  # fmt: skip
    if _compile.synthetic_bases.sharing(leaves) != tuple(range(len(leaves))):
        given = _fakes.as_fakes(leaves, mode)
        plan = _compile.synthetic_bases.plan(flat, leaves, given, mode, trace_joint)
        if len(plan.inputs) != len(leaves) or plan.groups:
            raise RuntimeError(
                "Encountered duplicated inputs that are mutated in the graph you are trying to export, or inputs that "
                "share memory "
                "and are written to: pass each tensor once, and copies of what shares memory"
            )
    try:
        captured = _compile.capture(flat, _fakes.as_fakes(leaves, mode), mode, config, trace_joint)
    except RuntimeError as error:
        if "a leaf Variable that requires grad" not in str(error):
            raise
        raise RuntimeError(f"{_WRITTEN_LEAF}\n{_BANNED}") from error
    _refuse_writes(captured.meta, trace_joint)
    return captured.graph, captured.meta, in_spec, flat.out_spec


_BANNED = "This is currently banned in the aot_export workflow. If you need this functionality, please file a github issue."
_WRITTEN_LEAF = "Found a graph input that requires gradients, and received a mutation."


def _refuse_writes(meta: ViewAndMutationMeta, trace_joint: bool) -> None:
    """RuntimeError for writes that a graph for other programs can't have."""
    if any(info.mutates_metadata for info in meta.input_info):
        raise RuntimeError(
            "Found an input that received a metadata mutation, through e.g. a call to `.resize_()` or "
            f"`.transpose_()`.\n{_BANNED}\n\nfw_metadata={meta}"
        )
    if trace_joint and any(info.mutates_data and info.requires_grad for info in meta.input_info):
        raise RuntimeError(f"{_WRITTEN_LEAF}\n{_BANNED}\n\nfw_metadata={meta}")


class FlatFunction:
    """A function of arguments one by one, without containers, that gives a flat list."""

    def __init__(self, function: Callable[..., Any], in_spec: Any) -> None:
        self.function, self.in_spec = function, in_spec
        self.out_spec: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        """The results, without containers."""
        args, kwargs = pytree.tree_unflatten(list(leaves), self.in_spec)
        made, self.out_spec = pytree.tree_flatten(self.function(*args, **kwargs))
        return made


def aot_export_joint_simple(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    trace_joint: bool,
    num_params_buffers: int = 0,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
) -> torch.fx.GraphModule:
    """The graph of func, with gradients if trace_joint, for functions that neither write to their arguments nor return them or
    views of them; RuntimeError for others. Arguments and results are flat lists.
    """
    context = torch.enable_grad() if trace_joint else torch.no_grad()
    with context:
        graph, meta, in_spec, out_spec = _aot_export_function(
            func, args, decompositions=decompositions, trace_joint=trace_joint, num_params_buffers=num_params_buffers
        )
    what = "aot_export_joint_simple does not support"
    if any(info.mutates_data or info.mutates_metadata for info in meta.input_info):
        raise RuntimeError(f"{what} input mutations. {meta}")
    aliased = (OutputType.alias_of_input, OutputType.is_input)
    if any(info.output_type in aliased for info in meta.output_info):
        raise RuntimeError(f"{what} outputs that alias inputs. {meta}")
    if trace_joint and meta.num_intermediate_bases:
        raise RuntimeError(f"{what} outputs that alias each other. {meta}")
    for spec, name in ((in_spec.child(0), "in"), (out_spec, "out")):
        if spec.is_leaf():
            raise RuntimeError(f"aot_export_joint_simple requires {name}puts to be a single list/tuple. {name}_spec={spec}")
        if any(not child.is_leaf() for child in spec.children()):
            raise RuntimeError(f"aot_export_joint_simple requires individual {name}puts not to be pytrees. {name}_spec={spec}")
    return graph  # type: ignore[no-any-return]


def aot_export_module(
    mod: nn.Module,
    args: Iterable[Any],
    *,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    trace_joint: bool,
    output_loss_index: int | None = None,
    pre_dispatch: bool = False,
    dynamic_shapes: bool | None = None,
    kwargs: dict[str, Any] | None = None,
) -> tuple[torch.fx.GraphModule, GraphSignature]:
    """(graph, signature) of a module. The graph takes parameters, buffers and arguments, flat; it returns the new values of what
    is written to, and the results.

    trace_joint: it also returns the gradients of the result at output_loss_index, a scalar, which must then be given.
    """
    if pre_dispatch and trace_joint:
        raise RuntimeError("pre_dispatch is not supported when trace_joint is True.")
    named_parameters = dict(mod.named_parameters(remove_duplicate=False))
    named_buffers = dict(mod.named_buffers(remove_duplicate=False))
    leaves, spec = pytree.tree_flatten({**named_parameters, **named_buffers})
    call = create_functional_call(mod, spec, len(leaves), store_orig_mod=True, strict_out_tuple=False)
    count = None
    if trace_joint:
        if output_loss_index is None:
            raise RuntimeError(
                "If trace_joint=Trueit is required that one of your forward outputs must be a scalar loss.\n"
                "You must specify the which (index) output is the loss with output_loss_index."
            )

        def function(*given: Any, **named: Any) -> Any:
            nonlocal count
            made = call(*given, **named)
            flat, out_spec = pytree.tree_flatten(made)
            loss = flat[output_loss_index] if output_loss_index < len(flat) else None
            _check_loss(loss, output_loss_index)
            count = len(flat)
            flat = [x if i == output_loss_index or not isinstance(x, torch.Tensor) else x.detach() for i, x in enumerate(flat)]
            return pytree.tree_unflatten(flat, out_spec)
    else:
        function = call

    given = tuple(args)
    # Parameters require a gradient also where none is asked for; the graph of one is not one of the other.
    with torch.enable_grad() if trace_joint else torch.no_grad():
        graph, meta, in_spec, out_spec = _aot_export_function(
            function, (*leaves, *given), decompositions=decompositions, num_params_buffers=len(leaves), no_tangents=True,
            pre_dispatch=pre_dispatch, dynamic_shapes=dynamic_shapes, trace_joint=trace_joint, kwargs=kwargs,
        )  # fmt: skip
    if trace_joint:
        graph = _one_tangent(graph, meta)
    from flambeau._functorch._aot_autograd.signature import signature_of

    names = [*named_parameters], [*named_buffers]
    return graph, signature_of(graph, meta, in_spec, out_spec, *names, trace_joint=trace_joint, loss=output_loss_index)


def _check_loss(loss: Any, index: int) -> None:
    if not isinstance(loss, torch.Tensor):
        raise RuntimeError(f"The output at index {index} was marked as the loss, but it is {type(loss).__name__}, no tensor")
    if not loss.requires_grad:
        raise RuntimeError(f"The output at index {index} was marked as the loss, but it does not require gradients")
    if loss.numel() != 1:
        raise RuntimeError(
            f"We require the output marked as the loss (at index {index}) to be a scalar, but it has shape {loss.shape}"
        )


def _one_tangent(graph: torch.fx.GraphModule, meta: ViewAndMutationMeta) -> torch.fx.GraphModule:
    """A joint graph of flat arguments, without its tangent, which is one: what backward() of a loss starts with."""
    made = graph.graph
    first = next(n for n in made.nodes if n.op != "placeholder")
    for i, node in enumerate(list(made.find_nodes(op="placeholder"))):
        if "tangents" not in str(node.target):
            node.target = node.name = f"arg{i}_1"
            continue
        with made.inserting_before(first):
            value = node.meta["val"]
            one = made.call_function(torch.ops.aten.full.default, (list(value.shape), 1), {"dtype": value.dtype})
        one.meta = dict(node.meta)
        node.replace_all_uses_with(one)
        made.erase_node(node)
    output = made.output_node()
    output.args = (tuple(pytree.tree_leaves(output.args[0])),)
    made.set_codegen(torch.fx.graph.CodeGen())
    graph.recompile()
    return graph
