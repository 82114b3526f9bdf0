"""`flambeau.func`: function transforms - grad, vjp, jvp, jacobians, vmap - that compose. Also `flambeau.vmap`.

Stands on flambeau.transform; functions take and return pytrees (nested lists, tuples, dicts) of tensors.
"""

from flambeau.base.naming import adopt
from flambeau.func.forward import jvp, linearize
from flambeau.func.functionalization import functionalize
from flambeau.func.gradients import grad, grad_and_value, vjp
from flambeau.func.jacobians import hessian, jacfwd, jacrev
from flambeau.func.modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from flambeau.func.vmap import vmap
from flambeau.transform.levels import debug_unwrap

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

adopt(globals(), __all__)
