"""Mathematical functions of one element: exponentials, logarithms, trigonometric, hyperbolic, error, gamma and Bessel functions.

Each is a name of the scalar language (whose bodies are in ir.elementary, ir.trigonometric and ir.special); integers become
the default floating dtype. Those of torch.special that torch lacks are exported by flambeau.special. Stands on
core.operator.variants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Unpack

from flambeau.base.dtype import bool_
from flambeau.base.dtype import dtype as DType
from flambeau.base.naming import named
from flambeau.core.operator.annotations import Number, Operand
from flambeau.core.operator.arguments import within_range
from flambeau.core.operator.define import composite
from flambeau.core.operator.facets import Facets
from flambeau.core.operator.out_rules import ALIGNED, COPIED, Out
from flambeau.core.operator.pointwise import NUMBERS, like_first
from flambeau.core.operator.publishing import NAMESPACE, alias, publish
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.scalar import conj


def function(
    name: str,
    doc: str,
    complex_too: bool = False,
    rule: Callable | None = None,
    inplace: bool | str = "function",
    kernel: str | None = None,
    public: bool = True,
    node: str | None = None,
    types: str = "f",
    **facets: Unpack[Facets],
) -> Callable:
    """Declare the operator of a named function of the scalar language."""
    named = getattr(s, name)

    def body(input: Tensor):
        return named(input)

    body.__doc__ = doc
    made = pointwise(
        kind="float",
        inplace=inplace,
        types="fc" if complex_too else types,
        kernel=kernel or f"{name}_vml_cpu",
        name=name,
        function=public,
        method=public,
        node=node,
        **facets,
    )(body)
    if rule is not None:
        made.vjp(rule)
    return made


exp = function("exp", "e to the power of each element.", True, lambda g, out: g * conj(out))
exp2 = function("exp2", "2 to the power of each element.", True, lambda g, out: g * conj(out) * math.log(2))
expm1 = function("expm1", "exp(input) - 1, accurate near 0.", True, lambda g, out: g * conj(out + 1))
log = function("log", "The natural logarithm.", True)
log2 = function("log2", "The logarithm to base 2.", True)
log10 = function("log10", "The logarithm to base 10.", True)
log1p = function("log1p", "log(1 + input), accurate near 0.", True)
sin = function("sin", "The sine.", True)
cos = function("cos", "The cosine.", True)
tan = function("tan", "The tangent.", True, lambda g, out: g * conj(1 + out * out))
asin = function("asin", "The arc sine.", True)
acos = function("acos", "The arc cosine.", True)
atan = function("atan", "The arc tangent.", True)
sinh = function("sinh", "The hyperbolic sine.", True)
cosh = function("cosh", "The hyperbolic cosine.", True)
tanh = function("tanh", "The hyperbolic tangent.", True, lambda g, out: g * conj(1 - out * out))
asinh = function("asinh", "The inverse hyperbolic sine.", True)
acosh = function("acosh", "The inverse hyperbolic cosine.", True)
atanh = function("atanh", "The inverse hyperbolic tangent.", True)
sigmoid = function("sigmoid", "1 / (1 + exp(-input)), the logistic function.", True, lambda g, out: g * conj((1 - out) * out))
erf = function("erf", "The error function.")
erfc = function("erfc", "1 - erf(input), accurate in the tail.")
erfinv = function(
    "erfinv",
    "The inverse of erf; infinite at -1 and 1, NaN beyond.",
    False,
    lambda g, out: g * (s.exp(out * out) * (math.sqrt(math.pi) / 2)),
    inplace=True,
)
lgamma = function("lgamma", "log |Gamma(input)|.", inplace=True)
digamma = function("digamma", "The derivative of lgamma.", inplace=True, kernel="digamma")
i0 = function("i0", "The modified Bessel function of the first kind, of order 0.")
erfcx = function(
    "erfcx",
    "exp(input^2) * erfc(input).",
    public=False,
    inplace=False,
    node="SpecialErfcx",
    kernel="erfcx_cpu",
    types="w",
    underneath="special_erfcx",
)
i0e = function(
    "i0e",
    "exp(-|input|) * i0(input).",
    public=False,
    inplace=False,
    node="SpecialI0E",
    kernel="i0e_cpu",
    underneath="special_i0e",
)
i1 = function(
    "i1",
    "The modified Bessel function of the first kind, of order 1.",
    public=False,
    inplace=False,
    node="SpecialI1",
    kernel="i1_cpu",
    underneath="special_i1",
)
i1e = function(
    "i1e",
    "exp(-|input|) * i1(input).",
    public=False,
    inplace=False,
    node="SpecialI1E",
    kernel="i1e_cpu",
    underneath="special_i1e",
)

for _name, _of in (
    ("arccos", "acos"),
    ("arccosh", "acosh"),
    ("arcsin", "asin"),
    ("arcsinh", "asinh"),
    ("arctan", "atan"),
    ("arctanh", "atanh"),
):
    alias(_name, _of)


@pointwise(kind="float", inplace="function", types="fc", kernel="sinc_cpu")
def sinc(input: Tensor):
    """sin(pi input) / (pi input), 1 at 0."""
    if not input.dtype.is_complex:
        return s.sinc(input)
    product = input * math.pi
    return s.where(input == 0, 1, s.sin(product) / product)


@sinc.vjp
def _(g, input):
    product = input * math.pi
    slope = (s.cos(product) * product - s.sin(product)) / (product * input)
    return s.where(product * input == 0, 0, g * conj(slope))


# ---------------------------------------------------------------- degrees, odds


def _check_degrees(name: str) -> Any:
    def check(computation: DType, *_: Any) -> None:
        if computation.is_complex:
            raise RuntimeError(f"{name} is not supported for complex tensors.")

    return check


@pointwise(kind="float", inplace="function", check=_check_degrees("deg2rad"))
def deg2rad(input: Tensor):
    """Degrees to radians."""
    return input * (math.pi / 180)


deg2rad.operator.order = like_first


@pointwise(kind="float", inplace="function", check=_check_degrees("rad2deg"))
def rad2deg(input: Tensor):
    """Radians to degrees."""
    return input * (180 / math.pi)


rad2deg.operator.order = like_first


@pointwise(kind="float", types="f", kernel="logit_cpu", name="_logit", function=False, method=False, node="Logit")
def _logit(input: Tensor):
    """log(input / (1 - input))."""
    return s.log(input / (1 - input))


@_logit.vjp
def _(g, input):
    return s.where((input < 0) | (input > 1), float("nan"), g / (input * (1 - input)))


@pointwise(kind="float", types="f", kernel="logit_cpu", name="_logit_clamped", function=False, method=False, node="Logit")
def _logit_clamped(input: Tensor, eps: Number = 0.0):
    """The logit of input clamped to [eps, 1 - eps]."""
    x = s.where(input < eps, eps, s.where(input > 1 - eps, 1 - eps, input))
    return s.log(x / (1 - x))


@_logit_clamped.vjp
def _(g, input, eps):
    return s.where((input >= eps) & (input <= 1 - eps), g / (input * (1 - input)), 0)


@composite(out=True)
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of sigmoid; x is input, clamped to [eps, 1 - eps] if eps is given."""
    return _logit(input) if eps is None else _logit_clamped(input, float(eps))


@composite()
def logit_(input: Tensor, eps: float | None = None) -> Tensor:
    """In-place version of logit()."""
    return _logit.inplace(input) if eps is None else _logit_clamped.inplace(input, float(eps))


# ---------------------------------------------------------------- gamma functions


def _which_number(operands: Any) -> str:
    """The digit that ends the name of a node: 0 for tensors, 1 or 2 where the first or second operand is a number."""
    numbers = [x.__class__ in NUMBERS for x in operands] or [False, False]
    return "1" if numbers[0] else "2" if numbers[1] else "0"


@pointwise(
    kind="float",
    types="w",
    kernel="zeta_cpu",
    function=False,
    method=False,
    inplace=False,
    node=lambda operands, statics: "SpecialZetaBackward" + _which_number(operands),
    underneath="special_zeta",
)
def zeta(input: Operand, other: Operand):
    """The Hurwitz zeta function: the sum over k >= 0 of (k + other) ** -input."""
    return s.zeta(input, other)


@composite(out=Out(overlap=ALIGNED))
def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma. Raises RuntimeError if n is negative."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return digamma(input)
    if n > LARGEST_ORDER:
        n = (n + (1 << 31)) % (1 << 32) - (1 << 31)  # PyTorch counts in 32 bits: no number comes out, or infinities
    return _polygammas(n)(input)


_made_polygammas: dict[int, Callable] = {}
LARGEST_FACTORIAL = 170  # that a double holds
LARGEST_ORDER = (1 << 31) - 1
MANY_GAMMAS = 16  # that mvlgamma adds up in memory instead of one after the other


def _polygammas(n: int) -> Callable:
    made = _made_polygammas.get(n)
    if made is None:

        def body(input: Tensor):
            """A derivative of digamma."""
            if n == 1:
                return s.trigamma(input)
            factorial = float(math.factorial(n)) if 0 <= n <= LARGEST_FACTORIAL else math.inf
            return s.zeta(n + 1, input) * (factorial if n % 2 else -factorial)

        name = f"_polygamma_{n}".replace("-", "minus")
        made = pointwise(kind="float", types="f", kernel="polygamma", name=name, function=False, method=False, node="Polygamma")(
            body
        )
        _made_polygammas[n] = made
    return made


def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma."""
    return polygamma(n, self)


@named("polygamma_")
def _polygamma_in_place(self: Tensor, n: int) -> Tensor:
    """In-place version of polygamma()."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return digamma.inplace(self) if n == 0 else _polygammas(n).inplace(self)


_polygamma_method.__name__ = _polygamma_method.__qualname__ = "polygamma"
_polygamma_method.body_is_read = True  # type: ignore[attr-defined]  # its arguments aren't in the operator's order
publish("polygamma", _polygamma_method, function=False)
publish("polygamma_", _polygamma_in_place, function=False)


@composite(out=Out(refuses_first=True), inplace=True, node="MvlgammaBackward0")
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p. Raises RuntimeError unless p >= 1."""
    within_range("mvlgamma", ("p",), (p,))
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if input._layout.dtype is bool_:
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    input = input.contiguous()
    if p > MANY_GAMMAS:
        steps = (
            NAMESPACE["arange"](p, dtype=input._layout.dtype if input.is_floating_point() else None, device=input._layout.device)
            / 2
        )
        total = lgamma(input.unsqueeze(-1) - steps).sum(-1)
    else:
        total = lgamma(input)
        for j in range(1, p):
            total = total + lgamma(input - j / 2)
    return total + p * (p - 1) / 4 * math.log(math.pi)


# ---------------------------------------------------------------- of torch.special


@pointwise(
    kind="float",
    types="f",
    kernel="entr_cpu",
    function=False,
    method=False,
    inplace=False,
    node="SpecialEntr",
    underneath="special_entr",
)
def entr(input: Tensor):
    """-input * log(input); 0 at 0, minus infinity below."""
    return s.where(s.isnan(input), input, s.where(input > 0, -input * s.log(input), s.where(input == 0, 0, float("-inf"))))


@entr.vjp
def _(g, input):
    return g * (-s.log(input) - 1)


@pointwise(
    kind="float",
    types="w",
    kernel="log_ndtr_cpu",
    function=False,
    method=False,
    inplace=False,
    node="SpecialLogNdtr",
    underneath="special_log_ndtr",
)
def log_ndtr(input: Tensor):
    """The logarithm of the area under the standard Gaussian up to input."""
    x = input * math.sqrt(0.5)
    return s.where(input < -1, s.log(s.erfcx(-x) / 2) - x * x, s.log1p(-s.erfc(x) / 2))


@log_ndtr.vjp
def _(g, out, input):  # PyTorch's form, whose sum loses digits (and the result its meaning) far from 0
    return g / math.sqrt(2 * math.pi) * s.exp(-(out + input * input / 2))


@composite(function=False, method=False, out=Out(graph=COPIED, refuses_first=True))
def ndtr(input: Tensor) -> Tensor:
    """The area under the standard Gaussian up to input."""
    return _ndtr(input)


@pointwise(
    kind="float", types="f", kernel="erf_vml_cpu", name="_ndtr", function=False, method=False, inplace=False, node="MulBackward1"
)
def _ndtr(input: Tensor):
    """The area under the standard Gaussian up to input."""
    return 0.5 * s.erfc(input * -math.sqrt(0.5))


@_ndtr.vjp
def _(g, input):
    return g * (s.exp(input * input * -0.5) * (1 / math.sqrt(2 * math.pi)))


@pointwise(
    kind="float",
    types="w",
    kernel="ndtri_cpu",
    function=False,
    method=False,
    inplace=False,
    node="SpecialNdtri",
    underneath="special_ndtri",
)
def ndtri(input: Tensor):
    """The inverse of ndtr; minus infinity at 0, infinity at 1, NaN outside."""
    return s.normal_quantile(input)


@ndtri.vjp
def _(g, out):
    return g * (s.exp(out * out * 0.5) * math.sqrt(2 * math.pi))
