"""torch._functorch.fx_minifier: the smallest part of a graph that still fails.

Delta debugging (A. Zeller, R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002) on graphs: ever smaller
stretches are cut off the end, turned into inputs, or left out, as long as what remains fails. Stands on fx.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau as torch
from flambeau import fx
from flambeau._functorch.compile_utils import get_outputs, get_placeholders

__all__ = ["dump_state", "minifier"]


def dump_state(fx_g: fx.GraphModule, inps: Sequence[Any]) -> None:
    """Print a program that has the graph and inputs like these."""
    described = "".join(f"    torch.zeros({tuple(x.shape)}, dtype={x.dtype}),\n" for x in inps if isinstance(x, torch.Tensor))
    print(f"# Working repro with {len(fx_g.graph.nodes)} nodes\ninps = [\n{described}]\n{fx_g.code}")


class _State:
    """A graph and its inputs; `values` are what its nodes give."""

    def __init__(self, graph: fx.Graph, inputs: Sequence[Any]) -> None:
        self.graph, self.inputs = graph, list(inputs)


class _Minifier:
    def __init__(self, module: fx.GraphModule, fails: Callable[..., bool], dump: Callable[..., None]) -> None:
        self.module, self.fails, self.dump = module, fails, dump
        self.queries = 0

    def failing(self, graph: fx.Graph, inputs: Sequence[Any]) -> bool:
        """Whether what a graph does with such inputs fails; an invalid one doesn't."""
        self.queries += 1
        try:
            graph.lint()
        except RuntimeError:
            return False
        return self.fails(fx.GraphModule(self.module, _copy(graph)), inputs)

    def smaller(self, state: _State) -> _State | None:
        """A smaller one that fails; None where none was found."""
        size = 1
        while size * 2 <= len(state.graph.nodes):
            size *= 2
        while size >= 1:
            for strategy in (self._shorter, self._dead, self._without_inputs, self._fewer_results, self._delta):
                for candidate in strategy(state, size):
                    if _size(candidate) < _size(state) and self.failing(candidate.graph, candidate.inputs):
                        return candidate
            size //= 2
        return None

    # ---- strategies

    def _shorter(self, state: _State, size: int) -> Iterator[_State]:
        """The graph up to some node, which is its result."""
        nodes = [n for n in state.graph.nodes if n.op not in ("placeholder", "output")]
        for at in range(size - 1, len(nodes), size):
            graph = _copy(state.graph, last=nodes[at])
            graph.eliminate_dead_code()
            yield from self._without_inputs(_State(graph, state.inputs), size)

    def _dead(self, state: _State, size: int) -> Iterator[_State]:
        """The graph without what nothing needs."""
        graph = _copy(state.graph)
        if graph.eliminate_dead_code():
            yield _State(graph, state.inputs)

    def _without_inputs(self, state: _State, size: int) -> Iterator[_State]:
        """The graph without inputs that nothing needs."""
        graph = _copy(state.graph)
        kept = []
        for node, x in zip(get_placeholders(graph), state.inputs):
            if node.users:
                kept.append(x)
            else:
                graph.erase_node(node)
        yield _State(graph, kept)

    def _fewer_results(self, state: _State, size: int) -> Iterator[_State]:
        """The graph without a stretch of its results."""
        count = len(get_outputs(state.graph))
        if count < 2:
            return
        for start in range(0, count, size):
            graph = _copy(state.graph)
            output = graph.output_node()
            left = get_outputs(graph)[:start] + get_outputs(graph)[start + size :]
            if left:
                output.args = (tuple(left),)
                graph.eliminate_dead_code()
                yield _State(graph, state.inputs)

    def _delta(self, state: _State, size: int) -> Iterator[_State]:
        """The graph with a stretch of its calls as inputs."""
        nodes = list(state.graph.nodes)
        for start in range(0, len(nodes), size):
            stretch = {n for n in nodes[start : start + size] if n.op not in ("placeholder", "output")}
            if not stretch:
                continue
            made = self._as_inputs(state, stretch)
            if made is not None:
                yield made

    def _as_inputs(self, state: _State, stretch: set[fx.Node]) -> _State | None:
        values: dict[fx.Node, Any] = {}

        class Values(fx.Interpreter):
            """Keeps what the nodes of a stretch give."""

            def run_node(self, n: fx.Node) -> Any:
                """The value of a node."""
                found = super().run_node(n)
                if n in stretch:
                    values[n] = found
                return found

        used = {n for n in stretch if any(user not in stretch for user in n.users)}
        try:
            Values(fx.GraphModule(self.module, state.graph)).run(*state.inputs)
        except Exception:
            return None  # the graph can't be run: its values aren't known
        if not all(isinstance(values.get(n), torch.Tensor) for n in used):
            return None
        graph = fx.Graph()
        env: dict[fx.Node, fx.Node] = {}
        inputs = list(state.inputs)
        for node in get_placeholders(state.graph):
            env[node] = graph.node_copy(node, lambda n: env[n])
        for node in state.graph.nodes:
            if node in used:
                env[node] = graph.placeholder(node.name)
                inputs.append(values[node])
            elif node not in stretch and node.op != "placeholder":
                env[node] = graph.node_copy(node, lambda n: env[n])
        return _State(graph, inputs)


def _size(state: _State) -> tuple[int, int]:
    """What counts as smaller: fewer calls, then fewer inputs and results."""
    calls = sum(n.op not in ("placeholder", "output") for n in state.graph.nodes)
    return calls, len(get_placeholders(state.graph)) + len(get_outputs(state.graph))


def _copy(graph: fx.Graph, last: fx.Node | None = None) -> fx.Graph:
    """Another graph like this one, or up to a node, which is its result."""
    made = fx.Graph()
    env: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        env[node] = made.node_copy(node, lambda n: env[n])
        if node is last:
            made.output((env[node],))
            break
    return made


def minifier(
    fail_f: fx.GraphModule,
    inps: Sequence[Any],
    module_fails: Callable[[fx.GraphModule, Sequence[Any]], bool],
    dump_state: Callable[[fx.GraphModule, Sequence[Any]], None] = dump_state,
    *,
    save_dir: str | None = None,
    offload_to_disk: bool = False,
    skip_offload: bool = False,
    skip_sanity: bool = False,
    max_granularity: int | None = None,
) -> tuple[fx.GraphModule, Sequence[Any]]:
    """(graph, inputs): a part of a graph, and inputs for it, that still fail, as small as was found.

    module_fails(graph, inputs) tells. RuntimeError if the whole graph doesn't. save_dir: where the graphs on the way are written
    if offload_to_disk.
    """
    if max_granularity is not None and max_granularity & (max_granularity - 1):
        raise RuntimeError(f"max_granularity {max_granularity} not power of two")
    state = _State(_copy(fail_f.graph), inps)
    search = _Minifier(fail_f, module_fails, dump_state)
    if not skip_sanity and not search.failing(state.graph, state.inputs):
        raise RuntimeError("Input graph did not fail the tester")
    while (found := search.smaller(state)) is not None:
        state = found
        if offload_to_disk and save_dir is not None:
            fx.GraphModule(fail_f, _copy(state.graph)).to_folder(os.path.join(save_dir, f"{len(state.graph.nodes)}"))
    made = fx.GraphModule(fail_f, state.graph)
    dump_state(made, state.inputs)
    return made, state.inputs
