"""torch._inductor.config: settings of PyTorch's compiler of graphs, which can be read and set; no graphs are compiled here.

The most used ones. Settings of its backends are groups: `config.triton.cudagraphs`, `config.cpp.threads`.
"""

import sys
from types import SimpleNamespace

from flambeau.utils._config_module import install_config_module

aggressive_fusion = False
allow_buffer_reuse = True
assert_indirect_indexing = True
autotune_local_cache = True
autotune_remote_cache = None
benchmark_kernel = False
compile_threads = 1
comprehensive_padding = True
conv_1x1_as_mm = False
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
cpp_wrapper = False
dce = False
debug = False
disable_progress = True
emulate_precision_casts = False
epilogue_fusion = True
fallback_random = False
force_disable_caches = False
force_fuse_int_mm_with_mul = False
freezing = False
fx_graph_cache = True
fx_graph_remote_cache = None
graph_partition = True
group_fusion = False
implicit_fallbacks = True
inplace_buffers = True
keep_output_stride = True
layout_optimization = True
max_autotune = False
max_autotune_gemm = False
max_autotune_gemm_backends = "ATEN,TRITON,CPP"
max_autotune_pointwise = False
max_fusion_size = 64
memory_planning = False
optimize_scatter_upon_const_tensor = True
pattern_matcher = True
permute_fusion = False
post_grad_custom_post_pass = None
post_grad_custom_pre_pass = None
pre_grad_custom_pass = None
profiler_mark_wrapper_call = False
realize_reads_threshold = 4
reorder_for_compute_comm_overlap = False
search_autotune_cache = False
shape_padding = True
size_asserts = True
split_reductions = True
unroll_reductions_threshold = 8
use_mixed_mm = True
verbose_progress = False
worker_start_method = "subprocess"
aot_inductor = SimpleNamespace(debug_compile=False, output_path="", package=False)
cpp = SimpleNamespace(
    threads=-1, simdlen=None, min_chunk_size=512, enable_floating_point_contract_flag="off", weight_prepack=True
)
cuda = SimpleNamespace(compile_opt_level="-O1", cutlass_max_profiling_configs=None, enable_cuda_lto=False)
trace = SimpleNamespace(enabled=False, debug_dir=None, graph_diagram=False, log_autotuning_results=False)
triton = SimpleNamespace(
    cudagraphs=False,
    cudagraph_skip_dynamic_graphs=False,
    cudagraph_support_input_mutation=True,
    cudagraph_trees=True,
    multi_kernel=0,
    unique_kernel_names=True,
)

del SimpleNamespace
install_config_module(sys.modules[__name__])
