"""Plans of factorizations of batches of tensors, kept by the operands' layouts; no function here checks arguments or records.

Stands on codegen.factorization and ops.linalg.batched_plans; used by ops.linalg.matrix_functions and its family.
"""

from typing import TYPE_CHECKING

from flambeau.base.lazy_import import submodules

if TYPE_CHECKING:
    from flambeau.ops.linalg.factorization_plans import cholesky, eigen, lu, qr, svd

__getattr__ = submodules(__name__)
