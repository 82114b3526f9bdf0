"""functorch.compile: graphs of functions and their gradients, ahead of time, for compilers of a program's own."""

from flambeau._functorch import config
from flambeau._functorch.aot_autograd import (
    aot_function,
    aot_module,
    aot_module_simplified,
    compiled_function,
    compiled_module,
    get_aot_compilation_context,
    get_aot_graph_name,
    get_graph_being_compiled,
    make_boxed_compiler,
    make_boxed_func,
)
from flambeau._functorch.compilers import (
    debug_compile,
    default_decompositions,
    draw_graph_compile,
    memory_efficient_fusion,
    nnc_jit,
    nop,
    print_compile,
    pythonkey_decompose,
    ts_compile,
)
from flambeau._functorch.fx_minifier import minifier
from flambeau._functorch.partitioners import default_partition, draw_graph, min_cut_rematerialization_partition
