"""torch.linalg: decompositions, systems, norms and functions of matrices.

Re-exports of ops.linalg.matrix_functions and its siblings (ops.linalg.solve, ops.linalg.lu, ...), ops.linalg.matrix_norm,
ops.reduction.vector_norm and ops.linalg.einsum.
"""

from flambeau.base.errors import LinAlgError
from flambeau.base.naming import adopt
from flambeau.core.modes import interception
from flambeau.core.modes.overrides import ask_everywhere
from flambeau.ops.linalg.cholesky import linalg_cholesky as cholesky
from flambeau.ops.linalg.cholesky import linalg_cholesky_ex as cholesky_ex
from flambeau.ops.linalg.einsum import linalg_cross as cross
from flambeau.ops.linalg.einsum import linalg_vander as vander
from flambeau.ops.linalg.einsum import multi_dot, vecdot
from flambeau.ops.linalg.lu import linalg_ldl_factor as ldl_factor
from flambeau.ops.linalg.lu import linalg_ldl_factor_ex as ldl_factor_ex
from flambeau.ops.linalg.lu import linalg_ldl_solve as ldl_solve
from flambeau.ops.linalg.lu import linalg_lu as lu
from flambeau.ops.linalg.lu import linalg_lu_factor as lu_factor
from flambeau.ops.linalg.lu import linalg_lu_factor_ex as lu_factor_ex
from flambeau.ops.linalg.matmul import matmul
from flambeau.ops.linalg.matrix_functions import linalg_det as det
from flambeau.ops.linalg.matrix_functions import linalg_diagonal as diagonal
from flambeau.ops.linalg.matrix_functions import linalg_lstsq as lstsq
from flambeau.ops.linalg.matrix_functions import linalg_matrix_exp as matrix_exp
from flambeau.ops.linalg.matrix_functions import linalg_matrix_power as matrix_power
from flambeau.ops.linalg.matrix_functions import linalg_matrix_rank as matrix_rank
from flambeau.ops.linalg.matrix_functions import linalg_pinv as pinv
from flambeau.ops.linalg.matrix_functions import linalg_slogdet as slogdet
from flambeau.ops.linalg.matrix_functions import linalg_tensorinv as tensorinv
from flambeau.ops.linalg.matrix_functions import linalg_tensorsolve as tensorsolve
from flambeau.ops.linalg.matrix_norm import linalg_cond as cond
from flambeau.ops.linalg.matrix_norm import linalg_norm as norm
from flambeau.ops.linalg.matrix_norm import matrix_norm
from flambeau.ops.linalg.qr import linalg_householder_product as householder_product
from flambeau.ops.linalg.qr import linalg_qr as qr
from flambeau.ops.linalg.solve import linalg_inv as inv
from flambeau.ops.linalg.solve import linalg_inv_ex as inv_ex
from flambeau.ops.linalg.solve import linalg_lu_solve as lu_solve
from flambeau.ops.linalg.solve import linalg_solve as solve
from flambeau.ops.linalg.solve import linalg_solve_ex as solve_ex
from flambeau.ops.linalg.solve import linalg_solve_triangular as solve_triangular
from flambeau.ops.linalg.spectral import linalg_eig as eig
from flambeau.ops.linalg.spectral import linalg_eigh as eigh
from flambeau.ops.linalg.spectral import linalg_eigvals as eigvals
from flambeau.ops.linalg.spectral import linalg_eigvalsh as eigvalsh
from flambeau.ops.linalg.spectral import linalg_svd as svd
from flambeau.ops.linalg.spectral import linalg_svdvals as svdvals
from flambeau.ops.reduction.vector_norm import vector_norm

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

ask_everywhere(globals(), only=("lstsq", "matrix_rank", "pinv"))  # which look at values
adopt(globals(), __all__[1:])
interception.provide(lambda: [lstsq, matrix_rank, pinv])
