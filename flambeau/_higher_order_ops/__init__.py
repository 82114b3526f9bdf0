"""torch._higher_order_ops: control flow by functions of tensors, run as they are called: eagerly, with gradients.

Stands on the public operators and vmap.
"""

from flambeau._higher_order_ops.associative_scan import associative_scan
from flambeau._higher_order_ops.cond import cond
from flambeau._higher_order_ops.map import map
from flambeau._higher_order_ops.out_dtype import out_dtype
from flambeau._higher_order_ops.scan import scan
from flambeau._higher_order_ops.while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "out_dtype", "scan", "while_loop"]
