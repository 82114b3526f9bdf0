"""`flambeau.func`: function transforms - grad, vjp, jvp, jacobians, vmap - that compose. Also `flambeau.vmap`.

Stands on flambeau.transform; functions take and return pytrees (nested lists, tuples, dicts) of tensors.
"""

from typing import TYPE_CHECKING
from typing import Any as _Any

from flambeau.base.lazy_import import members as _members
from flambeau.base.naming import adopt
from flambeau.func.forward import jvp, linearize
from flambeau.func.gradients import grad, grad_and_value, vjp
from flambeau.func.jacobians import hessian, jacfwd, jacrev
from flambeau.func.vmap import vmap
from flambeau.transform.levels import debug_unwrap

if TYPE_CHECKING:
    from flambeau.func.functionalization import functionalize
    from flambeau.func.modules import functional_call, replace_all_batch_norm_modules_, stack_module_state

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

# What stands on nn, or on the dispatcher, is imported at first use: most programs get on without.
_LATE = {
    "functional_call": ".modules",
    "functionalize": ".functionalization",
    "replace_all_batch_norm_modules_": ".modules",
    "stack_module_state": ".modules",
}
_member = _members(globals(), _LATE)
adopt(globals(), [name for name in __all__ if name not in _LATE])


def __getattr__(name: str) -> _Any:
    """A function that is imported at first use."""
    _member(name)
    adopt(globals(), [name])
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
