"""Named results: what operators with several results return, `torch.return_types.max` and its siblings.

Each class is a tuple whose items also have names. Stands on base.naming; used by flambeau.ops.
"""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import Any

from flambeau.base.naming import public_module

__all__: list[str] = []


def named_result(name: str, *fields: str) -> type:
    """The class `torch.return_types.<name>`; an instance is made from one sequence of values."""

    def __new__(cls: type, values: Any, unnamed: Any = None) -> Any:
        values = tuple(values)  # PyTorch's pickles give a dict besides, of fields without a place; there are none
        if len(values) != len(fields):
            raise TypeError(f"torch.return_types.{name}() takes a {len(fields)}-sequence ({len(values)}-sequence given)")
        return tuple.__new__(cls, values)

    def __repr__(self: Any) -> str:
        return f"torch.return_types.{name}(\n" + ",\n".join(f"{n}={v!r}" for n, v in zip(fields, self)) + ")"

    def __reduce__(self: Any) -> Any:
        return type(self), (tuple(self),)

    made = type(
        name,
        (tuple,),
        {
            "__slots__": (),
            "__module__": public_module("return_types"),
            "__doc__": f"Results of {name}: {', '.join(fields)}.",
            "__new__": __new__,
            "__repr__": __repr__,
            "__reduce__": __reduce__,
            "__match_args__": fields,
            "n_fields": len(fields),
            "n_sequence_fields": len(fields),
            "n_unnamed_fields": 0,
            **{n: property(itemgetter(i), doc=f"Result {i}.") for i, n in enumerate(fields)},
        },
    )
    if not name.endswith("_out"):
        __all__.append(name)
    return made


@cache
def of_out(kind: type) -> type:
    """The class of the results of `kind` when they were written to `out=`: `torch.return_types.max_out` for `max`."""
    return kind if kind is tuple else named_result(kind.__name__ + "_out", *kind.__match_args__)  # type: ignore[attr-defined]


max = named_result("max", "values", "indices")
min = named_result("min", "values", "indices")
aminmax = named_result("aminmax", "min", "max")
median = named_result("median", "values", "indices")
nanmedian = named_result("nanmedian", "values", "indices")
mode = named_result("mode", "values", "indices")
kthvalue = named_result("kthvalue", "values", "indices")
cummax = named_result("cummax", "values", "indices")
cummin = named_result("cummin", "values", "indices")
sort = named_result("sort", "values", "indices")
topk = named_result("topk", "values", "indices")
histogram = named_result("histogram", "hist", "bin_edges")
histogramdd = named_result("histogramdd", "hist", "bin_edges")
frexp = named_result("frexp", "mantissa", "exponent")
qr = named_result("qr", "Q", "R")
svd = named_result("svd", "U", "S", "V")
slogdet = named_result("slogdet", "sign", "logabsdet")
geqrf = named_result("geqrf", "a", "tau")
triangular_solve = named_result("triangular_solve", "solution", "cloned_coefficient")
lu_unpack = named_result("lu_unpack", "P", "L", "U")
linalg_qr = named_result("linalg_qr", "Q", "R")
linalg_svd = named_result("linalg_svd", "U", "S", "Vh")
linalg_eig = named_result("linalg_eig", "eigenvalues", "eigenvectors")
linalg_eigh = named_result("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_slogdet = named_result("linalg_slogdet", "sign", "logabsdet")
linalg_inv_ex = named_result("linalg_inv_ex", "inverse", "info")
linalg_cholesky_ex = named_result("linalg_cholesky_ex", "L", "info")
linalg_solve_ex = named_result("linalg_solve_ex", "result", "info")
linalg_lu = named_result("linalg_lu", "P", "L", "U")
linalg_lu_factor = named_result("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = named_result("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_lstsq = named_result("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
linalg_ldl_factor = named_result("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = named_result("linalg_ldl_factor_ex", "LD", "pivots", "info")
