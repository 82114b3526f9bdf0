"""torch._lazy_clone: a clone on the memory of the original, which is copied when either of them is written to.

Stands on core.tensor.storage, which keeps account of the tensors that are on such memory and is asked before every write.
"""

from __future__ import annotations

from flambeau.core.operator.pointwise import needs_graph, record
from flambeau.core.operator.publishing import public
from flambeau.core.tensor import storage
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.ops.creation.copy import Copy, clone

_LAZY_CLONE = Copy("_lazy_clone", lambda input: input, ["input"], node="LazyClone")


@public(out=False)
def _lazy_clone(input: Tensor) -> Tensor:
    """A tensor like `input`, of the same strides, whose memory is not copied before one of the two is written to.

    Where others may write without being asked (an array of NumPy's, a tensor that has an alias by `.data`), it is copied at once.
    """
    held = None if input._layout.flavor is not None else storage.lazy_copy(input._storage)
    if held is None:
        return clone(input)
    out = tensor_from(held, input._offset, input._layout)
    if needs_graph((input,)) and (input.is_floating_point() or input.is_complex()):
        out._node = record(_LAZY_CLONE, out, (input,), (), ())
    return out
