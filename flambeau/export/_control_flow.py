"""Control flow in exported programs: torch.cond, while_loop, map and scan as one operator each, whose functions are graphs.

A function is run twice: once to learn which tensors of the program around it it uses, and again with those as inputs. Stands on
_tracer's mode, which has it as `_control_flow`; asked by the public functions (dispatcher.higher_order.flow).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._dynamo.exc import UncapturedHigherOrderOpError
from flambeau._subclasses.symbolic.run import run
from flambeau._subclasses.symbolic.state import sizes_of
from flambeau.base.symbolic.expressions import rebuild
from flambeau.core.modes import modes
from flambeau.dispatcher.overloads import OpOverload
from flambeau.export._runtime_asserts import settle_inner_sizes
from flambeau.fx.experimental.size_nodes import SizeNodes
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node

if TYPE_CHECKING:
    from flambeau.export._tracer import ExportMode

__all__ = ["ControlFlow"]

_aten = torch.ops.aten
_INCOMPLETE = (
    "This higher order operator doesn't work unless it is captured completely with torch.compile. Got graph break/error:\n\n"
)

#: The tensors around that a function uses, with PyTorch's names; and the names of those that it closes over.
_Used = tuple[dict[int, tuple[str, torch.Tensor]], dict[int, str]]


class _Recorded:
    """A function as a graph: the module of it, its results, and the container that they lie in."""

    def __init__(self, module: GraphModule, results: list[torch.Tensor], spec: Any) -> None:
        self.module, self.results, self.spec = module, results, spec


class ControlFlow:
    """Records what the public functions of control flow are called with while a module is exported."""

    def __init__(self, mode: ExportMode) -> None:
        self.mode = mode

    # ---- the operators

    def cond(self, pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any) -> Any:
        """The results of one of two functions. A Python truth chooses at once; one of sizes is as it is at a run."""
        chosen = self.mode.node_of(pred) if isinstance(pred, (torch.Tensor, torch.SymBool)) else pred
        if not isinstance(chosen, Node):
            if isinstance(chosen, (bool, int, float)):
                warnings.warn(
                    "Pred is a Python constant. When used with torch.cond, it specializes on one of the branches. If you want "
                    "torch.cond to preserve two branches, please make the predicate a boolean tensor or a SymBool.",
                    UserWarning,
                    stacklevel=3,
                )
            return true_fn(*operands) if chosen else false_fn(*operands)
        self._check_operands("torch.cond", operands)
        given, spec = pytree.tree_flatten(tuple(operands))
        functions = [lambda *x, f=f: f(*pytree.tree_unflatten(list(x), spec)) for f in (true_fn, false_fn)]
        sources = [_sources(true_fn, 1), _sources(false_fn, 2)]
        (first, second), everything = self._recorded("torch.cond", functions, given, sources)
        if first.spec != second.spec or [_kind(x) for x in first.results] != [_kind(x) for x in second.results]:
            raise UncapturedHigherOrderOpError(
                f"{_INCOMPLETE}torch.cond: both branches must give the same containers of tensors of the same shapes and dtypes; "
                f"true_fn gives {list(map(_kind, first.results))}, false_fn {list(map(_kind, second.results))}"
            )
        self._equate(first.results, second.results)
        graphs = self._held(true_graph=first, false_graph=second)
        values = tuple(map(self.mode.node_of, everything))
        return self._called("cond", (chosen, *graphs, values), first.results, first.spec)

    def while_loop(self, cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: Sequence[Any]) -> Any:
        """The values that a function is applied to while another holds."""
        self._check_operands("torch.while_loop", carried)
        given, spec = pytree.tree_flatten(tuple(carried))
        functions = [lambda *x, f=f: f(*pytree.tree_unflatten(list(x), spec)) for f in (cond_fn, body_fn)]
        sources = [_sources(cond_fn, 0), _sources(body_fn, 1)]
        (test, body), everything = self._recorded("torch.while_loop", functions, given, sources, numbered=True)
        if [_kind(x) for x in body.results] != [_kind(x) for x in given]:
            raise UncapturedHigherOrderOpError(
                f"{_INCOMPLETE}torch.while_loop: body_fn must give tensors of the shapes and dtypes that it takes, "
                f"{list(map(_kind, given))}, not {list(map(_kind, body.results))}"
            )
        self._equate(given, body.results)
        (node,) = test.module.graph.output_node().args[0]  # type: ignore[misc]
        test.module.graph.output_node().args = (node,)
        test.module.recompile()
        graphs = self._held(while_loop_cond_graph=test, while_loop_body_graph=body)
        values, others = (tuple(map(self.mode.node_of, xs)) for xs in (given, everything[len(given) :]))
        return self._called("while_loop", (*graphs, values, others), body.results, body.spec)

    def map(self, f: Callable[..., Any], xs: Any, args: Sequence[Any]) -> Any:
        """A function of each slice along dimension 0."""
        self._check_operands("map", (xs, tuple(args)))
        rows, row_spec = pytree.tree_flatten(xs)
        given, spec = pytree.tree_flatten(tuple(args))
        count = len(rows)

        def body(*x: Any) -> Any:
            return f(pytree.tree_unflatten(list(x[:count]), row_spec), *pytree.tree_unflatten(list(x[count:]), spec))

        inputs = [*self._first(rows), *given]
        names = [self.mode.node_of(x).name for x in (*rows, *given)]
        (recorded,), everything = self._recorded("map", [body], inputs, [_sources(f, 0)], names=names)
        graphs = self._held(body_graph=recorded)
        values, others = ([self.mode.node_of(x) for x in xs] for xs in (rows, [*given, *everything[len(inputs) :]]))
        results = [self._stacked(x, rows[0].shape[0]) for x in recorded.results]
        return self._called("map_impl", (*graphs, values, others), results, recorded.spec)

    def scan(self, combine_fn: Callable[..., Any], init: Any, xs: Any, dim: int, reverse: bool) -> Any:
        """Values carried along a dimension, and a result of each step."""
        self._check_operands("scan", (init, xs))
        carried, carried_spec = pytree.tree_flatten(init)
        rows, row_spec = pytree.tree_flatten(xs)
        rows = [x.movedim(dim, 0) if dim else x for x in rows]
        rows = [x.flip(0) if reverse else x for x in rows]
        count = len(carried)
        shapes: list[Any] = []

        def body(*x: Any) -> Any:
            carry = pytree.tree_unflatten(list(x[:count]), carried_spec)
            carry, result = combine_fn(carry, pytree.tree_unflatten(list(x[count:]), row_spec))
            leaves, spec = pytree.tree_flatten(result)
            shapes[:] = [spec]
            return [*pytree.tree_leaves(carry), *leaves]

        inputs = [*carried, *self._first(rows)]
        (recorded,), everything = self._recorded("scan", [body], inputs, [_sources(combine_fn, 0)], numbered=True)
        self._equate(carried, recorded.results)
        output = recorded.module.graph.output_node()
        output.args = (list(output.args[0]),)  # type: ignore[arg-type]
        recorded.module.recompile()
        graphs = self._held(scan_combine_graph=recorded)
        values, parts = ([self.mode.node_of(x) for x in xs] for xs in (carried, rows))
        others = tuple(map(self.mode.node_of, everything[len(inputs) :]))
        results = [*recorded.results[:count], *[self._stacked(x, rows[0].shape[0]) for x in recorded.results[count:]]]
        made = self._called("scan", (*graphs, values, parts, others), results, pytree.tree_structure([0] * len(results)))
        last = pytree.tree_unflatten(made[:count], carried_spec)
        stacked = [x.flip(0) if reverse else x for x in made[count:]]
        return last, pytree.tree_unflatten([x.movedim(0, dim) if dim else x for x in stacked], shapes[0])

    def read_only(self, tensors: Sequence[torch.Tensor]) -> None:
        """Refuse writes to these tensors from now on: a branch was to give one of them back, and gives a copy."""
        self.mode.read_only.update({id(x._storage): x for x in tensors})

    # ---- recording a function

    def _recorded(
        self,
        who: str,
        functions: Sequence[Callable[..., Any]],
        inputs: list[torch.Tensor],
        sources: list[dict[int, str]],
        numbered: bool = False,
        names: list[str] | None = None,
    ) -> tuple[list[_Recorded], list[torch.Tensor]]:
        """The functions with the same inputs, and these: those given, then the tensors around that any of the functions uses."""
        names = [self.mode.node_of(x).name for x in inputs] if names is None and not numbered else names
        used: list[dict[int, tuple[str, torch.Tensor]]] = []
        for function, known in zip(functions, sources):
            used.append({})
            self._traced(who, function, inputs, names, (used[-1], known))
        merged = {k: v for found in reversed(used) for k, v in found.items()}
        everything = _in_order(inputs, used) if who == "torch.cond" else [*inputs, *_by_name(merged)]
        if numbered:
            own = [f"arg{i}_1" for i in range(len(everything))]
        else:
            known_names = dict(zip(map(id, inputs), names or ()))
            own = [known_names.get(id(x)) or self.mode.node_of(x).name for x in everything]
        places = [next(i for i, y in enumerate(everything) if y is x) for x in inputs]
        graphs = [self._traced(who, lambda *x, f=f: f(*[x[i] for i in places]), everything, own, None) for f in functions]
        return graphs, everything

    def _traced(
        self, who: str, function: Callable[..., Any], inputs: list[torch.Tensor], names: list[str] | None, used: _Used | None
    ) -> _Recorded:
        mode = self.mode
        with self._graph_of_its_own(used):
            for i, x in enumerate(inputs):
                mode.input(f"arg{i}_1" if names is None else names[i], x)
            made = function(*inputs)
            leaves, spec = pytree.tree_flatten(made)
            if not all(isinstance(x, torch.Tensor) for x in leaves):
                raise UncapturedHigherOrderOpError(
                    f"{_INCOMPLETE}{who}: functions must give tensors, got {[type(x).__name__ for x in leaves]}"
                )
            nodes = [mode.node_of(x) for x in leaves]
            mode.graph.output(tuple(nodes))
            _check_effects(who, mode.graph, inputs, leaves, nodes)
            settle_inner_sizes(mode.graph, mode.fake_mode.shape_env)
            mode.regions.fold(mode.graph, mode.submodules)
            return _Recorded(GraphModule(mode.submodules, mode.graph), leaves, spec)

    @contextlib.contextmanager
    def _graph_of_its_own(self, used: _Used | None) -> Iterator[None]:
        """A graph to record into; a tensor of the program around becomes an input when it is first used."""
        mode, outside, around = self.mode, self._save(), self.mode.sizes
        mode.new_graph()
        mode.sizes = SizeNodes(mode.tracer, mode.fake_mode.shape_env)
        mode.submodules, mode.first_input = {}, None

        def captured(tensor: torch.Tensor) -> Any:
            inside = self._save()
            self._restore(outside)
            try:
                proxy, fake = mode._proxy(tensor)
            finally:
                self._restore(inside)
            known = mode.tracer.tracked(fake)
            if known is not None:
                return known.proxy, fake
            if used is not None:
                found, sources = used
                found.setdefault(id(fake), (sources.get(id(tensor), "~"), fake))
            return mode.input(proxy.node.name, fake), fake

        mode.enclosing = captured
        try:
            with around.silent(), mode.sizes:
                yield
        finally:
            self._restore(outside)

    def _save(self) -> list[Any]:
        mode = self.mode
        return [mode.tracer, mode.graph, mode.sizes, mode.submodules, mode.first_input, mode.enclosing, mode.regions]

    def _restore(self, state: list[Any]) -> None:
        mode = self.mode
        mode.tracer, mode.graph, mode.sizes, mode.submodules, mode.first_input, mode.enclosing, mode.regions = state

    # ---- the call

    def _held(self, **graphs: _Recorded) -> list[Any]:
        """The nodes of functions' graphs, which are attributes of the program's module."""
        mode = self.mode
        count = sum(name.startswith(next(iter(graphs)) + "_") for name in mode.submodules)
        made = []
        for name, recorded in graphs.items():
            mode.submodules[f"{name}_{count}"] = recorded.module
            made.append(mode.tracer.create_proxy("get_attr", f"{name}_{count}", (), {}).node)
        return made

    def _called(self, name: str, args: tuple[Any, ...], results: list[torch.Tensor], spec: Any) -> Any:
        mode = self.mode
        proxy = mode.tracer.create_proxy("call_function", getattr(torch.ops.higher_order, name), args, {}, name=name)
        made = tuple(self._fresh(x) for x in results)
        mode._track(made, proxy)
        return pytree.tree_unflatten(list(made), spec)

    def _equate(self, first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> None:
        """Guards for the sizes that are to be the same, and are so in the example."""
        for x, y in zip(first, second):
            for d, e in zip(sizes_of(x), sizes_of(y)):
                if d != e:
                    self.mode.fake_mode.shape_env.evaluate(rebuild("Eq", (d, e)))

    def _fresh(self, x: torch.Tensor) -> Any:
        with _without_modes():
            return run(_aten.clone.default, (x,), {})

    def _first(self, rows: list[torch.Tensor]) -> list[Any]:
        with _without_modes():
            return [run(_aten.clone.default, (run(_aten.select.int, (x, 0, 0), {}),), {}) for x in rows]

    def _stacked(self, x: torch.Tensor, count: Any) -> Any:
        with _without_modes():
            many = run(_aten.expand.default, (run(_aten.unsqueeze.default, (x, 0), {}), [count, *x.shape]), {})
            return run(_aten.clone.default, (many,), {"memory_format": torch.contiguous_format})

    def _check_operands(self, who: str, operands: Any) -> None:
        for x in pytree.tree_leaves(operands):
            if not isinstance(x, torch.Tensor):
                raise NotImplementedError(
                    f"torch.export: {who} with an operand of type {type(x).__name__} is not implemented in flambeau; use a "
                    "tensor, or close over the number"
                )


@contextlib.contextmanager
def _without_modes() -> Iterator[None]:
    before, modes.local.dispatch_modes = modes.local.dispatch_modes, []
    try:
        yield
    finally:
        modes.local.dispatch_modes = before


def _by_name(used: dict[int, tuple[str, torch.Tensor]]) -> list[torch.Tensor]:
    return [x for _, x in sorted(used.values(), key=lambda found: found[0])]


def _in_order(operands: list[torch.Tensor], used: list[dict[int, tuple[str, torch.Tensor]]]) -> list[torch.Tensor]:
    """The inputs of two branches as PyTorch sorts them: what both use, operands among it, and what either uses alone."""
    first, second = used
    both = {k: v for k, v in first.items() if k in second}
    shared = both | {id(x): (f"l_args_3_{i}_", x) for i, x in enumerate(operands)}
    alone = [{k: v for k, v in u.items() if k not in both} for u in used]
    return [*_by_name(shared), *_by_name(alone[0]), *_by_name(alone[1])]


def _kind(x: torch.Tensor) -> tuple[Any, ...]:
    return tuple(x._layout.shape), x.dtype


def _check_effects(who: str, graph: Graph, inputs: list[torch.Tensor], results: list[torch.Tensor], nodes: list[Node]) -> None:
    """Raise UncapturedHigherOrderOpError for a function that writes to an input, or gives one back."""
    given = set(graph.find_nodes(op="placeholder"))
    for node in graph.nodes:
        if isinstance(node.target, OpOverload) and node.target._schema.is_mutable and given & set(node.all_input_nodes):
            raise UncapturedHigherOrderOpError(
                f"{_INCOMPLETE}Encountered input mutation during higher order op tracing\n  Higher Order Operator: {who}\n"
                f"  Explanation: Higher order ops do not support input mutation. Found in {node.format_node()}"
            )
    held = {id(x._storage) for x in inputs}
    for x, node in zip(results, nodes):
        if node in given or id(x._storage) in held:
            raise UncapturedHigherOrderOpError(
                f"{_INCOMPLETE}Encountered aliasing during higher order op tracing\n  Higher Order Operator: {who}\n"
                f"  Explanation: Higher order ops do not support aliasing. Found in {node.name}\n"
                "  Hint: Replace `return input` with `return input.clone()` to avoid aliasing."
            )


def _sources(function: Any, at: int) -> dict[int, str]:
    """How PyTorch calls the tensors that a function closes over, whose names it sorts them by."""
    found: dict[int, str] = {}
    for i, cell in enumerate(getattr(function, "__closure__", None) or ()):
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        _add_sources(found, value, f"l_args_{at}_closure_{i}_cell_contents")
    if isinstance(getattr(function, "__self__", function), torch.nn.Module):
        _add_sources(found, getattr(function, "__self__", function), f"l_args_{at}_")
    return found


def _add_sources(found: dict[int, str], value: Any, name: str) -> None:
    if isinstance(value, torch.Tensor):
        found.setdefault(id(value), name)
    elif isinstance(value, torch.nn.Module):
        for kind, items in (("parameters", value._parameters), ("buffers", value._buffers)):
            for own, x in items.items():
                if x is not None:
                    found.setdefault(id(x), f"{name}_{kind}_{own}_")
        for own, inner in value._modules.items():
            if inner is not None:
                _add_sources(found, inner, f"{name}_modules_{own}")
        for own, x in vars(value).items():
            if isinstance(x, torch.Tensor):
                found.setdefault(id(x), f"{name}_{own}")
