"""The package functorch, which torch.func has replaced: `import functorch` gives this where `import torch` means flambeau."""

from typing import Any

from flambeau import __version__
from flambeau._functorch.deprecated import (
    combine_state_for_ensemble,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    make_functional,
    make_functional_with_buffers,
    vjp,
    vmap,
)
from flambeau._functorch.make_functional import FunctionalModule, FunctionalModuleWithBuffers


def __getattr__(name: str) -> Any:
    if name == "make_fx":
        from flambeau.fx.experimental.proxy_tensor import make_fx

        return make_fx
    raise AttributeError(f"module 'functorch' has no attribute '{name}'")
