"""Operators that have several names get the first of them.

Stands on ir; runs after loops.
"""

from __future__ import annotations

from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph

__all__ = ["rename_aliases"]

_ALIASES = {
    "absolute": "abs", "absolute_": "abs_", "clip": "clamp", "clip_": "clamp_", "det": "linalg_det", "ger": "outer",
    "arccos": "acos", "arccos_": "acos_", "arcsin": "asin", "arcsin_": "asin_", "arctan": "atan", "arctan_": "atan_",
    "multiply": "mul", "multiply_": "mul_", "subtract": "sub", "subtract_": "sub_", "greater": "gt", "greater_": "gt_",
    "greater_equal": "ge", "greater_equal_": "ge_", "less": "lt", "less_": "lt_", "less_equal": "le", "less_equal_": "le_",
    "not_equal": "ne", "not_equal_": "ne_", "divide": "div", "divide_": "div_", "true_divide": "div", "true_divide_": "div_",
    "negative": "neg", "negative_": "neg_", "linalg_vecdot": "linalg_vecdot", "arccosh": "acosh", "arccosh_": "acosh_",
    "arcsinh": "asinh", "arcsinh_": "asinh_", "arctanh": "atanh", "arctanh_": "atanh_", "arctan2": "atan2", "arctan2_": "atan2_",
    "fix": "trunc", "fix_": "trunc_", "swapaxes": "transpose", "swapaxes_": "transpose_", "swapdims": "transpose",
    "swapdims_": "transpose_", "row_stack": "vstack", "matrix_exp": "linalg_matrix_exp", "moveaxis": "movedim",
    "special_exp2": "exp2",
    "special_expm1": "expm1", "special_erf": "erf", "special_erfc": "erfc", "special_erfinv": "erfinv",
    "special_expit": "sigmoid",
    "special_logit": "logit", "special_psi": "digamma", "special_digamma": "digamma", "special_gammaln": "lgamma",
    "special_i0": "i0",
    "special_polygamma": "polygamma", "special_sinc": "sinc", "special_softmax": "softmax", "special_log_softmax": "log_softmax",
    "special_logsumexp": "logsumexp", "special_round": "round", "special_multigammaln": "mvlgamma", "special_xlogy": "xlogy",
    "special_gammainc": "igamma", "special_gammaincc": "igammac", "special_log1p": "log1p", "orgqr": "linalg_householder_product",
    "concat": "cat", "concatenate": "cat", "adjoint": "mH", "inverse": "linalg_inv",
}  # fmt: skip


def rename_aliases(graph: Graph) -> None:
    """Give every operator the first of its names."""
    _block(graph.block())


def _block(block: Block) -> None:
    for node in block.nodes():
        kind = node.kind()
        if kind.startswith("aten::"):
            name = _ALIASES.get(kind[6:])
            if name is not None:
                node._kind = f"aten::{name}"
        for inner in node.blocks():
            _block(inner)
