"""torch.library: operators of one's own, `torch.ops.mylib.name`, and what is registered for them. A face over
dispatcher.

`Library` defines operators by schema and implements them by dispatch key; `custom_op` (library.custom_ops) makes one of
a Python function, with its gradient, fake, vmap rule and autocast; `opcheck` (library.checks) tests one.
"""

from __future__ import annotations

from flambeau.core.operator import unsupported as _unsupported
from flambeau.dispatcher.fakes import get_ctx
from flambeau.dispatcher.infer import infer_schema
from flambeau.dispatcher.record import fallthrough_kernel
from flambeau.library.checks import opcheck as opcheck
from flambeau.library.custom_ops import CustomOpDef as CustomOpDef
from flambeau.library.custom_ops import custom_op
from flambeau.library.libraries import Library, _scoped_library, define, impl
from flambeau.library.registrations import (
    get_kernel,
    impl_abstract,
    register_autocast,
    register_fake,
    register_torch_dispatch,
    register_vmap,
)
from flambeau.library.registrations import register_autograd as register_autograd
from flambeau.library.registrations import register_kernel as register_kernel

__all__ = [
    "Library", "impl", "define", "fallthrough_kernel", "impl_abstract", "register_autocast", "register_fake",
    "register_torch_dispatch", "register_vmap", "get_ctx", "get_kernel", "custom_op", "triton_op", "wrap_triton",
    "_scoped_library",
    "infer_schema",
]  # fmt: skip

globals().update(
    _unsupported.all_of(
        "library.",
        "Triton's kernels run on GPUs and flambeau computes on the CPU; write the operator in Python with "
        "torch.library.custom_op",
        "triton_op wrap_triton",
    )
)
