"""torch.fx: programs as graphs that Python can read, change, and run again.

    traced = fx.symbolic_trace(module)      # its forward, run on proxies
    traced.graph, traced.code               # the operations, as nodes and as Python
    for node in traced.graph.nodes: ...     # change them
    traced.recompile()

`node`, `graph`, `codegen` hold and print programs; `proxy` and `_symbolic_trace` make them; `graph_module` runs them, and
`interpreter` node by node; `subgraph_rewriter` and `passes` change them. Knows nn and utils._pytree.
"""

from flambeau.fx import immutable_collections, operator_schemas, traceback
from flambeau.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from flambeau.fx.graph import CodeGen, Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Interpreter, Transformer
from flambeau.fx.node import Node, has_side_effect, map_arg
from flambeau.fx.proxy import Proxy
from flambeau.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
