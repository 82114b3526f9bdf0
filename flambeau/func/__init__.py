"""`flambeau.func`: function transforms - grad, vjp, jvp, jacobians, vmap - that compose. Also `flambeau.vmap`.

Stands on flambeau.transform; functions take and return pytrees (nested lists, tuples, dicts) of tensors.
"""

from flambeau.func.forward import jvp, linearize
from flambeau.func.gradients import grad, grad_and_value, vjp
from flambeau.func.jacobians import hessian, jacfwd, jacrev
from flambeau.func.vmap import vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp", "vmap"]
