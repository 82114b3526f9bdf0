"""torch._functorch: modules of PyTorch's function transforms that programs import from, beside their public face torch.func.

`make_functional` holds what only the package functorch offered; `aot_autograd`, `partitioners`, `compilers`, `compile_utils`,
`fx_minifier` and `config` make graphs of functions and their gradients; the others are faces of func. `functorch` is that
package: `import functorch` gives it where `import torch` means flambeau.
"""

import importlib
from typing import Any

_MODULES = frozenset("""_aot_autograd aot_autograd apis autograd_function batch_norm_replacement compile_utils compilers config
deprecated eager_transforms functional_call functorch fx_minifier make_functional partitioners vmap""".split())


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute '{name}'")
