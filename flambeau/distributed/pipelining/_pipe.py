"""torch.distributed.pipelining.pipeline: a model cut into stages along its trace, at marks in its forward or at submodules.

torch.export records the forward with the marks; what lies between two marks is a stage. A stage gets what those before it have
made and it or one behind it needs: a value that skips stages goes through them. A parameter that several stages use stays with
the first, and goes to the others like a value, so that its gradient comes back whole.
Stands on torch.export, torch.fx and `stage`.
"""

from __future__ import annotations

import contextlib
import enum
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.distributed.pipelining.stage import PipelineStage, build_stage

__all__ = ["Pipe", "PipeInfo", "SplitPoint", "pipe_split", "pipeline"]


class SplitPoint(enum.Enum):
    """Whether a model is divided in front of a submodule or behind it."""

    BEGINNING = 1
    END = 2


@dataclass
class PipeInfo:
    """What stages know of the whole: the graph that calls them, and how many there are."""

    graph: torch.fx.Graph
    num_stages: int
    has_loss_and_backward: bool


@functools.cache
def _mark() -> Any:
    """The operator that marks where a stage ends; it does nothing."""
    library = torch.library.Library("pippy", "FRAGMENT")
    library.define("_pipe_split() -> ()")
    library.impl("_pipe_split", lambda: None, "CompositeExplicitAutograd")
    return library, torch.ops.pippy._pipe_split.default


def pipe_split() -> None:
    """In a model's forward: a stage ends here. It does nothing but in `pipeline`."""
    _, operator = _mark()
    operator()


@contextlib.contextmanager
def _marked(module: nn.Module, spec: dict[str, SplitPoint]) -> Iterator[None]:
    """A block in which submodules have marks around their forwards. AttributeError for a name that the model hasn't."""
    changed = []
    try:
        for name, point in spec.items():
            if not isinstance(point, SplitPoint):
                raise ValueError(f"split_spec of {name!r} has to be a SplitPoint, not {point!r}")
            owner = module.get_submodule(name)
            owner.forward = _with_mark(owner.forward, point)  # type: ignore[method-assign]
            changed.append(owner)
        yield
    finally:
        for owner in reversed(changed):
            owner.__dict__.pop("forward", None)


def _with_mark(forward: Callable[..., Any], point: SplitPoint) -> Callable[..., Any]:
    @functools.wraps(forward)
    def marked(*args: Any, **kwargs: Any) -> Any:
        if point is SplitPoint.BEGINNING:
            pipe_split()
        result = forward(*args, **kwargs)
        if point is SplitPoint.END:
            pipe_split()
        return result

    return marked


def pipeline(
    module: nn.Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable[[torch.fx.GraphModule], torch.fx.GraphModule] | None = None,
) -> Pipe:
    """A model in stages, of which each rank builds its own.

    Args:
        module: its forward has to be one that torch.export takes; its parameters are those of the stages.
        mb_args, mb_kwargs: a microbatch, of the sizes that all have.
        split_spec: by the names of submodules, where the model is divided: before or behind them. Give this, or call `pipe_split`
            in the forward.
        split_policy: is given the traced model, and returns one with marks (`torch.ops.pippy._pipe_split`).

    Raises ValueError for split_spec together with split_policy, RuntimeError where the trace fails.
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    _mark()
    with _marked(module, split_spec or {}):
        traced = torch.export.export(module, tuple(mb_args), mb_kwargs or {}).module()
    if split_policy is not None:
        traced = split_policy(traced)
    return _Cut(traced).pipe()


class _Cut:
    """A trace and the stage of each of its nodes."""

    def __init__(self, traced: torch.fx.GraphModule) -> None:
        self.traced = traced
        self.stage: dict[torch.fx.Node, int] = {}
        mark = _mark()[1]
        number = 0
        for node in traced.graph.nodes:
            if node.op == "call_function" and node.target in (mark, torch.ops.pippy._pipe_split):
                number += 1
            elif node.op == "output":
                self.results = node
            elif node.op not in ("placeholder", "get_attr") and node.name != "_guards_fn":
                self.stage[node] = number
        self.count = number + 1
        for node in traced.graph.nodes:
            if node.op == "placeholder":
                self.stage[node] = 0
            elif node.op == "get_attr":
                self.stage[node] = min((self.stage[user] for user in node.users if user in self.stage), default=0)
        self.last_use = self._last_uses()

    def _last_uses(self) -> dict[torch.fx.Node, int]:
        """The last stage that needs a node's value; those of the results are needed in the last."""
        found = {node: max((self.stage[u] for u in node.users if u in self.stage), default=0) for node in self.stage}
        for node in self.results.all_input_nodes:
            found[node] = self.count - 1
        return found

    def entering(self, stage: int) -> list[torch.fx.Node]:
        """What a stage is given, in order."""
        if stage == 0:
            return [node for node in self.traced.graph.nodes if node.op == "placeholder"]
        return [node for node in self.stage if self.stage[node] < stage <= self.last_use[node]]

    def module(self, stage: int) -> torch.fx.GraphModule:
        """A stage as a module: it gives what the next is given, the last one the model's result."""
        graph, own = torch.fx.Graph(), {}
        for node in self.entering(stage):
            own[node] = graph.placeholder(node.name)
        for node in self.traced.graph.nodes:
            if self.stage.get(node) == stage and node.op != "placeholder":
                own[node] = graph.node_copy(node, own.__getitem__)
        codegen: Any = self.traced.graph._codegen
        last = stage == self.count - 1
        if last:
            graph.output(torch.fx.node.map_arg(self.results.args[0], own.__getitem__))
        else:
            graph.output(tuple(own[node] for node in self.entering(stage + 1)))
        info = getattr(codegen, "pytree_info", None)
        if info is not None and (stage == 0 or last):
            spec_of = torch.utils._pytree.tree_structure
            names = info.orig_args if stage == 0 else [node.name for node in self.entering(stage)]
            arguments = info.in_spec if stage == 0 else spec_of((tuple(range(len(names))), {}))
            results = info.out_spec if last else spec_of(tuple(range(len(self.entering(stage + 1)))))
            graph.set_codegen(type(codegen)(type(info)(list(names), arguments, results)))
        return torch.fx.GraphModule(self.traced, graph, f"Stage{stage}")

    def pipe(self) -> Pipe:
        """The stages, and a module that calls one after the other."""
        stages = {f"submod_{stage}": self.module(stage) for stage in range(self.count)}
        return Pipe(stages, self.count)


class Pipe(nn.Module):
    """The stages of a model; called, it runs one after the other in this process, and returns the results in a tuple."""

    def __init__(self, stages: dict[str, torch.fx.GraphModule], num_stages: int) -> None:
        super().__init__()
        self.num_stages, self.has_loss_and_backward = num_stages, False
        self.split_gm = nn.Module()
        for name, stage in stages.items():
            self.split_gm.add_module(name, stage)
        graph = torch.fx.Graph()
        value = graph.placeholder("args")
        for name in stages:
            value = graph.call_module(name, (value,))
        graph.output(value)
        self.graph = graph

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs all stages."""
        values = self.get_stage_module(0)(*args, **kwargs)
        for stage in range(1, self.num_stages):
            values = self.get_stage_module(stage)(*values)
        return tuple(torch.utils._pytree.tree_leaves(values))

    def get_stage_module(self, stage_idx: int) -> nn.Module:
        """A stage's module, whose parameters have the names that they have in the model. ValueError for another number."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return self.split_gm.get_submodule(f"submod_{stage_idx}")

    def info(self) -> PipeInfo:
        """What stages know of the whole."""
        return PipeInfo(self.graph, self.num_stages, self.has_loss_and_backward)

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> PipelineStage:
        """This rank's stage, to be run by a schedule."""
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)

    def print_readable(self) -> None:
        """Prints the code of all stages."""
        for name, stage in self.split_gm.named_children():
            print(f"{name}: {stage.code}")
