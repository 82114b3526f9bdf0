"""torch._functorch.partitioners: a graph of a function and its gradients, divided into a forward and a backward graph.

A joint graph takes primals and tangents, and returns the function's results, then the gradients. Whatever doesn't need a
tangent may be in the forward graph; what the backward graph needs of it is saved, which means returned after the results.
`default_partition` saves all that it needs. `min_cut_rematerialization_partition` saves as few bytes as it can, and
computes cheap operators again: which values are saved is a smallest cut, with the bytes of each as the capacity, between
the inputs and what must be in the backward graph (T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016,
for the idea; `_aot_autograd.min_cut` for the algorithm). Stands on fx; used by aot_autograd.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau import fx
from flambeau._functorch import config
from flambeau._functorch._aot_autograd.min_cut import Network
from flambeau._functorch.compile_utils import fx_graph_cse, raise_getitems
from flambeau.base.symbolic.numbers import plain_value
from flambeau.dispatcher.overloads import OpOverload
from flambeau.fx.experimental.proxy_tensor import is_sym_node, py_sym_types
from flambeau.fx.passes.graph_drawer import FxGraphDrawer

__all__ = ["default_partition", "draw_graph", "is_sym_node", "min_cut_rematerialization_partition"]

aten = torch.ops.aten


def must_recompute(node: fx.Node) -> bool:
    """Whether the program asked for a value to be computed again rather than saved, as activation checkpoints do."""
    found = node.meta.get("recompute")
    return found is not None and found.name in ("MUST_RECOMPUTE", "PREFER_RECOMPUTE")


def must_save(node: fx.Node) -> bool:
    """Whether the program asked for a value to be saved."""
    found = node.meta.get("recompute")
    return found is not None and found.name == "MUST_SAVE"


# ---------------------------------------------------------------- parts of a graph


def _is_primal(node: fx.Node) -> bool:
    return node.op == "placeholder" and "tangents" not in str(node.target)


def _is_tangent(node: fx.Node) -> bool:
    return node.op == "placeholder" and "tangents" in str(node.target)


def _extract_graph_with_inputs_outputs(
    joint_graph: fx.Graph,
    inputs: Sequence[fx.Node],
    outputs: Sequence[Any],
    outputs_descs: Sequence[Any] | None = None,
    subgraph: str | None = None,
    ignore_must_be_in_fw_bw: bool = False,
) -> fx.Graph:
    """The part of a graph that computes `outputs` from `inputs`, as a graph of its own. AssertionError if they don't suffice."""
    made = fx.Graph()
    known: dict[fx.Node, Any] = {}
    for node in inputs:
        known[node] = made.placeholder(node.name)
        known[node].meta = dict(node.meta)
    for node in joint_graph.nodes:
        if node in known:
            continue
        if node.op == "placeholder" or any(known.get(a) is _BEYOND for a in node.all_input_nodes):
            known[node] = _BEYOND
        elif node.op != "output":
            known[node] = made.node_copy(node, lambda n: known[n])
    values = []
    for x in outputs:
        if isinstance(x, fx.Node):
            if known.get(x, _BEYOND) is _BEYOND:
                raise AssertionError(f"Node {x} was invalid, but is output")
            x = known[x]
        values.append(x)
    out = made.output(tuple(values))
    if outputs_descs is not None:
        out.meta["desc"] = list(outputs_descs)
    _drop_unused(made)
    made.lint()
    return made


#: What a graph's inputs don't reach.
_BEYOND: Any = object()


def _drop_unused(graph: fx.Graph) -> None:
    """Take out what no result needs; a write to an input of the graph stays."""
    for node in reversed(list(graph.nodes)):
        if node.op in ("placeholder", "output") or node.users or _writes_input(node):
            continue
        graph.erase_node(node)


def _writes_input(node: fx.Node) -> bool:
    target = node.target
    if not isinstance(target, OpOverload) or not target._schema.is_mutable:
        return False
    written = [x for a, x in zip(target._schema.arguments, node.args) if a.is_write]
    return any(isinstance(x, fx.Node) and x.op == "placeholder" for x in written)


def _extract_fwd_bwd_outputs(
    joint_module: fx.GraphModule, *, num_fwd_outputs: int
) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """(results, gradients, descriptions of results, of gradients) of a joint graph, as its nodes."""
    out = joint_module.graph.output_node()
    flat = torch.utils._pytree.arg_tree_leaves(*out.args)
    descs = out.meta.get("desc", [None] * len(flat))
    return flat[:num_fwd_outputs], flat[num_fwd_outputs:], descs[:num_fwd_outputs], descs[num_fwd_outputs:]


def _extract_fwd_bwd_modules(
    joint_module: fx.GraphModule,
    saved_values: Sequence[fx.Node],
    saved_sym_nodes: Sequence[fx.Node],
    saved_opaque_nodes: Sequence[fx.Node] | None = None,
    *,
    num_fwd_outputs: int,
    static_lifetime_input_nodes: Any = None,
    ignore_must_be_in_fw_bw: bool = False,
    omit_aot_autograd_runtime: bool = False,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward graph, which returns the results and what is saved, and the backward graph, of these and the tangents."""
    graph = joint_module.graph
    results, gradients, result_descs, gradient_descs = _extract_fwd_bwd_outputs(joint_module, num_fwd_outputs=num_fwd_outputs)
    holders = list(graph.find_nodes(op="placeholder"))
    if omit_aot_autograd_runtime:
        primals, tangents = holders, list[fx.Node]()
    else:
        primals, tangents = [n for n in holders if _is_primal(n)], [n for n in holders if _is_tangent(n)]
    saved_sym_nodes, opaque = list(saved_sym_nodes), list(saved_opaque_nodes or [])
    saved_values = _unwritten(graph, list(saved_values))
    saved = [*saved_values, *saved_sym_nodes, *opaque]
    # What the backward pass doesn't need isn't kept for it.
    backward = _extract_graph_with_inputs_outputs(graph, [*saved_sym_nodes, *saved_values, *opaque, *tangents], gradients)
    used = {n.name for n in backward.find_nodes(op="placeholder") if n.users}
    if not omit_aot_autograd_runtime:
        saved_values = [n for n in saved_values if n.name in used]
        saved_sym_nodes = [n for n in saved_sym_nodes if n.name in used]
        saved = [*saved_values, *saved_sym_nodes, *opaque]
    forward = _extract_graph_with_inputs_outputs(
        graph, primals, [*results, *saved], [*result_descs, *[None] * len(saved)], "forward"
    )
    backward = _extract_graph_with_inputs_outputs(
        graph, [*saved_sym_nodes, *saved_values, *opaque, *tangents], gradients, gradient_descs, "backward"
    )
    return _module(joint_module, forward), _module(joint_module, backward)


def _unwritten(graph: fx.Graph, saved: list[fx.Node]) -> list[fx.Node]:
    """The values to be saved, with copies of inputs that are written to, by the forward graph or after it."""
    for at, node in enumerate(saved):
        if node.op == "placeholder" and node.meta.get("written"):
            first = next(n for n in graph.nodes if n.op != "placeholder")
            with graph.inserting_before(first):
                copy = graph.call_function(aten.clone.default, (node,))
            copy.meta = dict(node.meta)

            def reads(user: fx.Node, copy: fx.Node = copy) -> bool:
                return user is not copy and not _writes_input(user) and user.op != "output"

            node.replace_all_uses_with(copy, delete_user_cb=reads)
            saved[at] = copy
    return saved


def _module(joint: fx.GraphModule, graph: fx.Graph) -> fx.GraphModule:
    return fx._lazy_graph_module._make_graph_module(joint, graph)


# ---------------------------------------------------------------- saving everything


def _forward_nodes(module: fx.GraphModule) -> list[fx.Node]:
    """The nodes that need no tangent, and weren't recorded as part of the backward pass, in order."""
    behind: set[fx.Node] = set()
    made = []
    for node in module.graph.nodes:
        backward = node.meta.get("partitioner_tag") == "is_backward"
        if _is_tangent(node) or backward or any(a in behind for a in node.all_input_nodes):
            behind.add(node)
        elif node.op not in ("output", "placeholder"):
            made.append(node)
    return made


def _is_sym(node: fx.Node) -> bool:
    return "val" in node.meta and isinstance(node.meta["val"], py_sym_types)


def default_partition(
    joint_module: fx.GraphModule,
    _joint_inputs: Any,
    *,
    num_fwd_outputs: int,
    static_lifetime_input_indices: list[int] | None = None,
    static_lifetime_input_nodes: Any = None,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """(forward, backward) of a joint graph with primals and tangents: what the backward pass needs is saved, nothing is computed
    twice, unless the program asked for it.

    num_fwd_outputs: how many of the graph's results are the function's.
    """
    if any(must_recompute(n) for n in joint_module.graph.nodes):
        return min_cut_rematerialization_partition(joint_module, _joint_inputs, num_fwd_outputs=num_fwd_outputs)
    graph = joint_module.graph
    gradients = _extract_fwd_bwd_outputs(joint_module, num_fwd_outputs=num_fwd_outputs)[1]
    forward = {*_forward_nodes(joint_module), *[n for n in graph.nodes if _is_primal(n)]}
    values: dict[fx.Node, None] = {}
    numbers: dict[fx.Node, None] = {}
    for node in graph.nodes:
        if node not in forward:
            if _is_sym(node) and not any(_is_tangent(x) for x in _behind([node])):
                numbers[node] = None
            continue
        if _is_sym(node):
            numbers[node] = None
            continue
        later = [user for user in node.users if user.op != "output" and user not in forward and not _is_sym(user)]
        if isinstance(node.meta.get("val"), (tuple, list)):
            values.update({user: None for user in later if user.target is operator.getitem})
        elif node.op != "get_attr" and (later or any(g is node for g in gradients)):
            values[node] = None
    return _extract_fwd_bwd_modules(joint_module, list(values), list(numbers), num_fwd_outputs=num_fwd_outputs)


# ---------------------------------------------------------------- saving little

#: Operators that cost as much as a matrix product, or draw numbers: never computed twice.
_EXPENSIVE = frozenset(
    """mm bmm addmm baddbmm addbmm mv dot convolution convolution_backward _convolution max_pool2d_with_indices
    _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention_for_cpu
    _scaled_dot_product_cudnn_attention upsample_bilinear2d _softmax _log_softmax native_layer_norm native_batch_norm
    _native_batch_norm_legit_functional native_group_norm sort topk _fft_c2c _fft_r2c _fft_c2r grid_sampler_2d
    _embedding_bag embedding gather index scatter _scaled_mm _linalg_svd linalg_inv_ex linalg_lu_factor_ex""".split()
)
_REDUCTIONS = frozenset("sum mean amax amin max min var var_mean std std_mean prod argmax argmin norm linalg_vector_norm".split())
#: Operators of an element, which a fusing compiler computes while it reads.
_CHEAP = frozenset(
    """add sub div mul rsub remainder fmod pow sqrt rsqrt exp exp2 expm1 log log1p log2 log10 sin cos tan
asin acos atan sinh cosh tanh atan2 abs neg sign ceil floor round trunc frac reciprocal maximum minimum clamp clamp_min
clamp_max relu sigmoid silu gelu leaky_relu elu hardtanh hardswish hardsigmoid softplus erf erfc erfinv lgamma digamma
    sigmoid_backward tanh_backward gelu_backward silu_backward threshold_backward eq ne lt gt le ge logical_and logical_or
    logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor where isnan isinf lerp addcmul addcdiv square
    fill zeros_like ones_like full_like full zeros ones arange scalar_tensor empty_like _to_copy clone copy masked_fill
    tril triu constant_pad_nd cat stack select_scatter slice_scatter lift_fresh_copy alias detach""".split()
)
_VIEWS = frozenset(
    """view _unsafe_view reshape t transpose permute squeeze unsqueeze expand select slice split
split_with_sizes unbind as_strided diagonal view_as_real view_as_complex unfold""".split()
)


def _name(node: fx.Node) -> str:
    target = node.target
    return target.overloadpacket.__name__ if isinstance(target, OpOverload) else getattr(target, "__name__", str(target))


def _is_random(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def _bytes(node: fx.Node) -> float:
    """What it takes to keep a node's value."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return float(max(_count(value.shape), 1) * value.element_size())
    if isinstance(value, (list, tuple)):
        return sum(float(max(_count(x.shape), 1) * x.element_size()) for x in value if isinstance(x, torch.Tensor))
    return 1.0


def _count(shape: Any) -> int:
    return math.prod([int(plain_value(n)) for n in shape])


def _has_to_be_computed_again(node: fx.Node) -> bool:
    """Whether the program forbids that a value is saved. What a random operator drew is saved nevertheless."""
    source = node.args[0] if node.target is operator.getitem else node
    return must_recompute(node) and not (isinstance(source, fx.Node) and _is_random(source))


def _may_compute_again(node: fx.Node) -> bool:
    """Whether a value may be computed a second time, in the backward pass."""
    if _has_to_be_computed_again(node):
        return True
    if must_save(node) or node.op == "placeholder" or _is_random(node):
        return False
    if node.target is operator.getitem or node.op == "get_attr":
        return True
    if not isinstance(node.target, OpOverload) or node.target._schema.is_mutable:
        return False
    name = _name(node)
    if config.aggressive_recomputation:
        return name not in _EXPENSIVE
    if name in _VIEWS or name in _CHEAP:
        return True
    if name in _REDUCTIONS and not config.ban_recompute_reductions:
        return True
    return not config.ban_recompute_not_in_allowlist and name not in _EXPENSIVE and name not in _REDUCTIONS


def min_cut_rematerialization_partition(
    joint_module: fx.GraphModule,
    _joint_inputs: Any,
    compiler: str = "inductor",
    *,
    num_fwd_outputs: int,
    static_lifetime_input_indices: list[int] | None = None,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """(forward, backward) of a joint graph: as few bytes as possible are saved, and what is cheap is computed again.

    num_fwd_outputs: how many of the graph's results are the function's. Products, reductions and random operators are never
    computed twice, unless an activation checkpoint asks for it.
    """
    joint_module.graph.eliminate_dead_code()
    joint_module.recompile()
    if config.cse:
        joint_module.graph = fx_graph_cse(joint_module.graph)
    raise_getitems(joint_module)
    graph = joint_module.graph
    results, gradients, _, _ = _extract_fwd_bwd_outputs(joint_module, num_fwd_outputs=num_fwd_outputs)
    allowed = set(_forward_nodes(joint_module))
    primals = [n for n in graph.nodes if _is_primal(n)]
    forward = _extract_graph_with_inputs_outputs(graph, primals, results)
    needed_forward = {n.name for n in forward.nodes if n.op != "output"}
    wanted = _behind([g for g in gradients if isinstance(g, fx.Node)])
    network = Network()
    free = {n for n in primals if n in wanted}
    numbers = [n for n in graph.nodes if n in wanted and _is_sym(n) and not any(_is_tangent(x) for x in _behind([n]))]
    returned = {x for x in results if isinstance(x, fx.Node)}
    ends = {g for g in gradients if isinstance(g, fx.Node)}
    for node in graph.nodes:
        if node.op == "output" or node not in wanted or _is_sym(node):
            continue
        start, end = (node, "in"), (node, "out")
        needed = node.name in needed_forward
        if (node not in allowed and node not in free) or (_is_random(node) and not needed):
            network.edge(start, "sink")  # it is computed in the backward pass
        elif node in free or (needed and not _may_compute_again(node)):
            network.edge("source", start)  # it is there after the forward pass, and only there
        keeps = not isinstance(node.meta.get("val"), (tuple, list)) and not _has_to_be_computed_again(node)
        network.edge(start, end, _cost(node, returned, static_lifetime_input_indices, primals) if keeps else math.inf)
        for user in node.users:
            if user in wanted and not _is_sym(user):
                network.edge(end, (user, "in"))
        if node in ends:
            network.edge(end, "sink")
    side = network.reachable("source", "sink")
    saved = [n for n in graph.nodes if (n, "in") in side and (n, "out") not in side]
    return _extract_fwd_bwd_modules(joint_module, saved, numbers, num_fwd_outputs=num_fwd_outputs)


def _cost(node: fx.Node, returned: set[fx.Node], static: list[int] | None, primals: list[fx.Node]) -> float:
    """What saving a value costs: its bytes, and a second time where it would have to be written for that only."""
    size = _bytes(node)
    if node.op == "placeholder":
        is_static = static is not None and primals.index(node) in static
        return 0.0 if is_static and config.treat_parameters_as_free_to_save else size
    return size if node in returned or not _may_compute_again(node) else 2 * size


def _behind(nodes: Sequence[fx.Node]) -> set[fx.Node]:
    """Nodes, and all that they are computed from."""
    found: set[fx.Node] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending.extend(node.all_input_nodes)
    return found


# ---------------------------------------------------------------- pictures


def draw_graph(
    traced: fx.GraphModule,
    fname: str,
    figname: str = "fx_graph",
    clear_meta: bool = True,
    prog: str | list[str] | None = None,
    parse_stack_trace: bool = False,
    dot_graph_shape: str | None = None,
) -> None:
    """Draw a graph into a file; its ending says the format, .svg without one. clear_meta: without what is known of values.

    ImportError without pydot.
    """
    if clear_meta:
        graph = fx.Graph()
        graph.output(graph.graph_copy(traced.graph, {}))
        for node in graph.nodes:
            node.meta = {}
        traced = fx.GraphModule(traced, graph)
    base, ending = os.path.splitext(fname)
    ending = ending or f".{config.torch_compile_graph_format}"
    drawn = FxGraphDrawer(traced, figname, parse_stack_trace=parse_stack_trace, dot_graph_shape=dot_graph_shape)
    picture = drawn.get_main_dot_graph()
    write = getattr(picture, f"write_{ending.lstrip('.')}")
    path = f"{base}{ending}"
    write(path) if prog is None else write(path, prog=prog)
