"""torch._functorch.config: settings of AOT autograd, which can be read, set and patched.

Those that say what the graphs are like are followed; `default_partitioner` and `_aot_autograd` read them. Settings of PyTorch's
caches and of its compiler are here so that programs may set them, and change nothing.
"""

import sys
from typing import Any

from flambeau.utils._config_module import install_config_module

#: Whether what is assumed of the inputs of a compiled function is checked at each call. It always is here.
debug_assert = False
#: Whether unused nodes of traced graphs are dropped, and equal ones made one, before a graph is divided.
cse = True
#: Whether inputs of the same shape are to share a symbol; whether graphs are traced on fake tensors. They always are.
use_fake_tensor = True
fake_tensor_allow_unsafe_data_ptr_access = True
#: Whether random operators are to take their seeds as inputs.
functionalize_rng_ops = False
#: What the backward pass may compute again: see `partitioners`.
max_dist_from_bw = 1000
ban_recompute_used_far_apart = True
ban_recompute_long_fusible_chains = True
ban_recompute_materialized_backward = True
ban_recompute_not_in_allowlist = True
ban_recompute_reductions = True
recompute_views = False
aggressive_recomputation = False
treat_parameters_as_free_to_save = False
activation_memory_budget = 1.0
activation_memory_budget_runtime_estimator = "flops"
activation_memory_budget_solver = "dp"
visualize_memory_budget_pareto = False
memory_budget_pareto_dir = None
fallback_to_min_cut_on_memory_budget_failure = False
static_weight_shapes = True
#: Results that are views of inputs are taken by the program's own views; always so here.
view_replay_for_aliased_outputs = True
#: Whether a gradient is taken to lie in memory as its result does.
guess_tangent_strides_as_outputs = False
backward_pass_autocast: Any = "same_as_forward"
donated_buffer = False
saved_tensors_hooks_filtering_mode = "donated"
bundled_autograd_cache = False
enable_autograd_cache = True
enable_remote_autograd_cache = None
strict_autograd_cache = False
autograd_cache_allow_custom_autograd_functions: list[str] = []
autograd_cache_normalize_inputs = True
graphsafe_rng_functionalization = True
torch_compile_graph_format = "svg"
generate_fake_kernels_from_real_mismatches = False
fake_tensor_prefer_device_type = None
force_non_lazy_backward_lowering = False
num_lazy_backward = 0
unlift_effect_tokens = False
disable_guess_zero_tangent_for_mutated_input_subclass = False
recompute_views_in_backward = False
remote_autograd_cache_version = None
joint_custom_pass = None
error_on_custom_op_aliasing = False
check_custom_op_aliasing = False

install_config_module(sys.modules[__name__])
