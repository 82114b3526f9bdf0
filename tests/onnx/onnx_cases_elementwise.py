"""Operators beside their ONNX models: arithmetic, comparisons, conversions and activations.

Run by test_onnx_operators.
"""

from onnx_cases import Cases, ints, randn

import flambeau as torch
import flambeau.nn.functional as F

CASES = case = Cases()
x = randn(2, 3, 4)
for n in """abs acos asin atan cos cosh erf exp sigmoid sin sinh tan tanh sign neg ceil floor round trunc frac
    expm1 exp2 erfc deg2rad rad2deg isnan isinf isfinite isposinf isneginf logical_not square sgn
    signbit sinc positive nan_to_num""".split():
    case(getattr(torch, n), torch.rand(2, 3) * 1.8 - 0.9)
for n in "acosh log log1p log2 log10 sqrt rsqrt reciprocal asinh logit".split():
    case(getattr(torch, n), torch.rand(2, 3) * 0.9 + (1.05 if n == "acosh" else 0.05))
case(torch.atanh, torch.rand(3) * 0.5)
for n in """add sub mul div maximum minimum fmod remainder floor_divide pow atan2 hypot copysign eq ne lt le gt
    ge logical_and logical_or logical_xor fmax fmin logaddexp true_divide""".split():
    case(getattr(torch, n), randn(2, 3), randn(3)) if n != "pow" else case(torch.pow, randn(2, 3).abs(), randn(3))
for n in "add sub mul div maximum minimum fmod remainder floor_divide eq lt bitwise_and bitwise_or bitwise_xor".split():
    case(getattr(torch, n), ints(2, 3) - 2, ints(3) + 1)
case(lambda a, b: a + b, ints(3), randn(3))
case(lambda a: a + 2.5, ints(3))
case(lambda a: 1 - a, ints(3))
case(lambda a: a / 2, ints(3))
case(lambda a: 2**a, randn(3))
case(lambda a: a**3, randn(3))
case(lambda a: a**2, ints(3))
case(lambda a: a**-0.5, randn(3).abs() + 0.1)
case(lambda a: a // 2, ints(3) - 3)
case(lambda a: a % 3, ints(3) - 3)
case(lambda a: a << 2, ints(3))
case(lambda a: a >> 1, ints(3) - 3)
case(lambda a: ~a, ints(3))
case(lambda a: ~(a > 2), ints(3))
case(lambda a: (a > 0) & (a < 1), randn(4))
case(lambda a: (a > 0) | (a < 1), randn(4))
case(lambda a: (a > 0) ^ (a < 1), randn(4))
case(lambda a: (a > 0) + (a < 1), randn(4))
case(lambda a: (a > 0) * (a < 1), randn(4))
case(lambda a, b: torch.add(a, b, alpha=2), randn(3), randn(3))
case(lambda a, b: torch.div(a, b, rounding_mode="trunc"), randn(3), randn(3))
case(lambda a, b: torch.div(a, b, rounding_mode="floor"), ints(5) - 2, ints(5) + 1)
case(lambda a: torch.round(a, decimals=2), randn(3))
case(lambda a, b: torch.lerp(a, b, 0.3), randn(3), randn(3))
case(lambda a, b, d: torch.addcmul(a, b, d, value=0.5), randn(3), randn(3), randn(3))
case(lambda a, b, d: torch.addcdiv(a, b, d, value=0.5), randn(3), randn(3), randn(3) + 5)
case(lambda a: a.clamp(-0.5, 0.5), randn(3))
case(lambda a: a.clamp(min=0), randn(3))
case(lambda a, b: a.clamp(max=b), randn(3), randn(3))
case(lambda a: a.clamp(1, 3), ints(4))
case(lambda a: a.clamp_min(0.1), randn(3))
case(lambda a, b: torch.xlogy(a, b), torch.tensor([0.0, 1, 2]), torch.rand(3) + 0.1)
case(lambda a, b: torch.heaviside(a, b), torch.tensor([0.0, 1, -2]), randn(3))
case(lambda a, b: torch.isclose(a, b), randn(3), randn(3))
case(lambda a: torch.where(a > 0, a, 0.0), randn(3))
case(lambda a, b: torch.where(a > 0, a, b), randn(3), randn(2, 3))
case(lambda a: a.masked_fill(a > 0, -1e9), randn(3))
case(lambda a: a.to(torch.float64), randn(3))
case(lambda a: a.long(), randn(3) * 4)
case(lambda a: a.bool(), ints(3))
case(lambda a: a.int().float(), randn(3) * 3)
case(lambda a, b: a.type_as(b), ints(3), randn(3))
case(lambda a: a.half().float(), randn(3))
for n in """relu relu6 elu selu celu leaky_relu gelu silu mish hardswish hardsigmoid hardtanh hardshrink
    softshrink softplus logsigmoid softsign tanhshrink rrelu sigmoid tanh""".split():
    case(getattr(F, n), randn(2, 5) * 3)
case(lambda a: F.gelu(a, approximate="tanh"), randn(5))
case(lambda a: F.softplus(a, 2.0, 1.0), randn(5))
case(lambda a: F.threshold(a, 0.1, 20.0), randn(5))
case(lambda a: F.glu(a, -1), randn(3, 4))
case(lambda a: F.softmax(a, 1), x)
case(lambda a: F.log_softmax(a, -1), x)
case(lambda a: F.softmin(a, 0), x)
case(lambda a, w: F.prelu(a, w), randn(2, 3, 4), torch.rand(3))
case(lambda a, w: F.prelu(a, w), randn(2, 3, 4), torch.rand(1))
case(lambda a: F.elu(a, 0.5), randn(4))
case(lambda a: F.normalize(a, dim=1), x)
