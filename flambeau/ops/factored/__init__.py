"""Plans of factorizations of batches of tensors, kept by the operands' layouts; no function here checks arguments or records.

Stands on codegen.factorization and ops.matrix_plans; used by ops.linalg and its family.
"""

from typing import TYPE_CHECKING

from flambeau.base.lazily import submodules

if TYPE_CHECKING:
    from flambeau.ops.factored import cholesky, eigen, lu, qr, svd

__getattr__ = submodules(__name__)
