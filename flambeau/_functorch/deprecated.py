"""torch._functorch.deprecated: the functions of the package functorch, each with the warning that says what replaces it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import func as _func
from flambeau._functorch import make_functional as _apart
from flambeau.base.warn import deprecated

__all__ = [
    "combine_state_for_ensemble", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip


def _deprecated(function: Callable[..., Any], instead: str) -> Callable[..., Any]:
    message = (
        "We've integrated functorch into PyTorch. As the final step of the integration, "
        f"`functorch.{function.__name__}` is deprecated as of PyTorch 2.0 and will be deleted in a future version of "
        f"PyTorch >= 2.3. Please use `{instead}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` "
        "migration guide for more details https://pytorch.org/docs/main/func.migrating.html"
    )
    return deprecated(message)(function)


vmap = _deprecated(_func.vmap, "torch.vmap")
grad = _deprecated(_func.grad, "torch.func.grad")
grad_and_value = _deprecated(_func.grad_and_value, "torch.func.grad_and_value")
vjp = _deprecated(_func.vjp, "torch.func.vjp")
jvp = _deprecated(_func.jvp, "torch.func.jvp")
jacrev = _deprecated(_func.jacrev, "torch.func.jacrev")
jacfwd = _deprecated(_func.jacfwd, "torch.func.jacfwd")
hessian = _deprecated(_func.hessian, "torch.func.hessian")
functionalize = _deprecated(_func.functionalize, "torch.func.functionalize")
make_functional = _deprecated(_apart.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _deprecated(_apart.make_functional_with_buffers, "torch.func.functional_call")
combine_state_for_ensemble = _deprecated(_apart.combine_state_for_ensemble, "torch.func.stack_module_state")
