"""torch._functorch: modules of PyTorch's function transforms that programs import from, beside their public face torch.func.

`make_functional` holds what only the package functorch offered; `aot_autograd`, `partitioners`, `compilers`, `compile_utils`,
`fx_minifier` and `config` make graphs of functions and their gradients; the others are faces of func. `functorch` is that
package: `import functorch` gives it where `import torch` means flambeau.
"""

from flambeau.base.lazy_import import submodules as _submodules

__getattr__ = _submodules(__name__)
