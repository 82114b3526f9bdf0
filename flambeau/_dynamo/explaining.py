"""torch._dynamo.explain: what graphs become of a function, and why there are several. Stands on compiled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from flambeau._dynamo.compiled import Compiled
from flambeau._dynamo.eval_frame import innermost_fn

__all__ = ["ExplainOutput", "GraphCompileReason", "explain"]


@dataclasses.dataclass
class GraphCompileReason:
    """Why a graph ends. user_stack: where in the program."""

    reason: str
    user_stack: list[Any]
    graph_break: bool = True


@dataclasses.dataclass
class ExplainOutput:
    """The graphs of one call: str() of it is the report."""

    graphs: list[Any]
    graph_count: int
    graph_break_count: int
    break_reasons: list[GraphCompileReason]
    op_count: int
    ops_per_graph: list[list[Any]]
    out_guards: list[Any] = dataclasses.field(default_factory=list)
    compile_times: str = ""

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}", f"Op Count: {self.op_count}"]
        lines.append("Break Reasons:")
        for i, why in enumerate(self.break_reasons, 1):
            lines += [
                f"  Break Reason {i}:",
                f"    Reason: {why.reason}",
                "    User Stack:",
                *[f"      {f}" for f in why.user_stack],
            ]
        lines.append("Ops per Graph:")
        for i, ops in enumerate(self.ops_per_graph, 1):
            lines += [f"  Ops {i}:", *[f"    {op}" for op in ops]]
        if self.out_guards:
            lines.append("Out Guards:")
        return "\n".join(lines) + "\n"


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """explain(f)(*args): f is called once; its graphs, their operators, and why they end where they do.

    With arguments besides f, for a call with these.
    """

    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        graphs: list[Any] = []
        ops: list[list[Any]] = []
        reasons: list[GraphCompileReason] = []

        def backend(gm: Any, example_inputs: list[Any]) -> Any:
            graphs.append(gm)
            ops.append([node.target for node in gm.graph.nodes if node.op == "call_function"])
            return gm.forward

        def broke(reason: str, stack: list[Any]) -> None:
            reasons.append(GraphCompileReason(reason, stack))

        Compiled(innermost_fn(f), backend, told=broke)(*args, **kwargs)
        count = len(graphs)
        return ExplainOutput(graphs, count, max(count - 1, 0), reasons, sum(map(len, ops)), ops)

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner
