"""Bessel functions of torch.special: J, Y, I, K of orders 0 and 1, the spherical one of order 0, Airy's.

Their bodies are in ir.bessel. Not differentiable, as in PyTorch; i0 and i1, which are, stand in ops.elementwise.math.
"""

from __future__ import annotations

from collections.abc import Callable

from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import bessel
from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr


def _declare(name: str, body: Callable[[Expr], Expr], words: str) -> Callable:
    def function(input: Tensor):
        return body(input)

    function.__doc__ = f"{words} of each element; integers become the default floating dtype. Not differentiable."
    return pointwise(
        kind="float",
        types="w",
        kernel=f"{name}_cpu",
        name=f"special_{name}",
        function=False,
        method=False,
        inplace=False,
        differentiable=False,
    )(function)


bessel_j0 = _declare("bessel_j0", bessel.j0, "The Bessel function of the first kind of order 0")
bessel_j1 = _declare("bessel_j1", bessel.j1, "The Bessel function of the first kind of order 1")
bessel_y0 = _declare("bessel_y0", bessel.y0, "The Bessel function of the second kind of order 0")
bessel_y1 = _declare("bessel_y1", bessel.y1, "The Bessel function of the second kind of order 1")
modified_bessel_i0 = _declare("modified_bessel_i0", s.i0, "The Bessel function I of order 0")
modified_bessel_i1 = _declare("modified_bessel_i1", s.i1, "The Bessel function I of order 1")
modified_bessel_k0 = _declare("modified_bessel_k0", bessel.k0, "The Bessel function K of order 0")
modified_bessel_k1 = _declare("modified_bessel_k1", bessel.k1, "The Bessel function K of order 1")
scaled_modified_bessel_k0 = _declare("scaled_modified_bessel_k0", bessel.scaled_k0, "exp(x) times K of order 0")
scaled_modified_bessel_k1 = _declare("scaled_modified_bessel_k1", bessel.scaled_k1, "exp(x) times K of order 1")
spherical_bessel_j0 = _declare("spherical_bessel_j0", bessel.spherical_j0, "The spherical Bessel function of order 0")
airy_ai = _declare("airy_ai", bessel.airy, "The Airy function Ai")
