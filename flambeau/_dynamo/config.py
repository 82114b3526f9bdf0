"""torch._dynamo.config: settings of PyTorch's graph capture, which can be read and set; nothing is captured here."""

import os
import sys
from typing import Any

from flambeau.utils._config_module import install_config_module

accumulated_cache_size_limit = 256
accumulated_recompile_limit = 256
allow_ignore_mark_dynamic = False
allow_rnn = False
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_local_pgo = True
automatic_dynamic_remote_pgo = None
automatic_dynamic_shapes = True
cache_size_limit = 8
caching_precompile = False
capture_autograd_function = True
capture_dynamic_output_shape_ops = False
capture_func_transforms = True
capture_profiler_record_function = False
capture_scalar_outputs = False
compiled_autograd = False
compiled_autograd_kwargs_override: dict[str, Any] = {}
debug_dir_root = os.path.join(os.getcwd(), "torch_compile_debug")
disable = False
do_not_emit_runtime_asserts = False
dynamic_shapes = True
enable_compiler_collectives = False
enable_cpp_guard_manager = True
error_on_nested_fx_trace = True
error_on_nested_jit_trace = True
error_on_recompile = False
fail_on_cache_limit_hit = False
fail_on_recompile_limit_hit = False
fake_tensor_cache_crosscheck_enabled = False
fake_tensor_cache_enabled = True
force_nn_module_property_static_shapes = True
force_parameter_static_shapes = True
guard_nn_modules = True
guard_nn_modules_using_dict_tags = True
ignore_logger_methods: set[Any] = set()
ignore_logging_functions: set[Any] = set()
inline_inbuilt_nn_modules = True
install_free_tensors = False
log_compilation_metrics = True
log_file_name = None
minimum_call_count = 1
nested_graph_breaks = False
numpy_default_complex = "complex128"
numpy_default_float = "float64"
numpy_default_int = "int64"
only_allow_pt2_compliant_ops = False
optimize_ddp = True
prefer_deferred_runtime_asserts_over_guards = False
raise_on_ctx_manager_usage = True
recompile_limit = 8
reorderable_logging_functions: set[Any] = set()
report_guard_failures = True
repro_after = None
repro_level = 2
rewrite_assert_with_torch_assert = True
run_gc_after_compile = True
skip_code_recursive_on_cache_limit_hit = True
skip_code_recursive_on_recompile_limit_hit = True
skip_fsdp_guards = True
skip_fwd_side_effects_in_bwd_under_checkpoint = False
skip_nnmodule_hook_guards = True
specialize_float = False
specialize_int = False
suppress_errors = False
trace_numpy = True
traceable_tensor_subclasses: set[type] = set()
use_lazy_graph_module = True
use_numpy_random_stream = False
verbose = False
verify_correctness = False

install_config_module(sys.modules[__name__])
