"""Names of the inputs and results of an exported graph, and which tensors of the module they are."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._functorch._aot_autograd.schemas import BackwardSignature, GraphSignature, ViewAndMutationMeta
from flambeau.utils import _pytree as pytree

__all__ = ["signature_of"]


def signature_of(
    graph: torch.fx.GraphModule,
    meta: ViewAndMutationMeta,
    in_spec: Any,
    out_spec: Any,
    parameters: list[str],
    buffers: list[str],
    *,
    trace_joint: bool,
    loss: int | None,
) -> GraphSignature:
    """The signature of a graph whose inputs are parameters, buffers and arguments, in this order."""
    inputs = [n.name for n in graph.graph.find_nodes(op="placeholder")]
    returned = [getattr(x, "name", x) for x in pytree.tree_leaves(graph.graph.output_node().args[0])]
    states = dict(zip(inputs, parameters)), dict(zip(inputs[len(parameters) :], buffers))
    user_inputs = inputs[len(parameters) + len(buffers) :]
    written = meta.mutated_inp_runtime_indices
    news = dict(zip(returned, [inputs[i] for i in written]))
    count = len(written)
    outputs = returned[count : count + meta.num_outputs]
    backward = None
    if trace_joint:
        gradients = dict(zip(inputs, returned[meta.num_forward_returns :]))
        backward = BackwardSignature(
            {g: states[0][name] for name, g in gradients.items() if name in states[0] and isinstance(g, str)},
            {g: name for name, g in gradients.items() if name in user_inputs and isinstance(g, str)},
            outputs[loss or 0],
        )
    return GraphSignature(
        parameters=list(parameters), buffers=list(buffers), user_inputs=user_inputs, user_outputs=outputs,
        inputs_to_parameters=states[0], inputs_to_buffers=states[1],
        buffers_to_mutate={new: states[1][old] for new, old in news.items() if old in states[1]},
        parameters_to_mutate={new: states[0][old] for new, old in news.items() if old in states[0]},
        user_inputs_to_mutate={new: old for new, old in news.items() if old in user_inputs},
        in_spec=in_spec, out_spec=out_spec, backward_signature=backward,
    )  # fmt: skip
