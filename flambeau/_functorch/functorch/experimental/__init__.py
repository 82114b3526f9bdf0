"""functorch.experimental: names of the package that were not settled."""

from flambeau._functorch.apis import chunk_vmap
from flambeau._functorch.batch_norm_replacement import replace_all_batch_norm_modules_
from flambeau._functorch.deprecated import functionalize, hessian, jacfwd, jvp
from flambeau._functorch.functorch.experimental import control_flow

__all__ = ["chunk_vmap", "control_flow", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_"]
