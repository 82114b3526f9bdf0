"""Operators beside their ONNX models: reductions, norms and cumulative sums.

Run by test_onnx_operators.
"""

from onnx_cases import Cases, ints, randn

import flambeau as torch

CASES = case = Cases()
x = randn(2, 3, 4)
for n in "sum mean prod amax amin max min argmax argmin logsumexp var std norm any all count_nonzero".split():
    f = getattr(torch, n)
    if n != "logsumexp":
        case(lambda a, f=f: f(a), x)
    case(lambda a, f=f: f(a, dim=1), x)
    if n != "count_nonzero":
        case(lambda a, f=f: f(a, dim=-1, keepdim=True), x)
case(lambda a: a.sum((0, 2)), x)
case(lambda a: a.mean((0, 2), True), x)
case(lambda a: a.sum(), ints(3, 2))
case(lambda a: (a > 0).sum(1), x)
case(lambda a: a.var((1, 2), unbiased=False), x)
case(lambda a: torch.var_mean(a, dim=1), x)
case(lambda a: torch.std_mean(a), x)
case(lambda a: torch.aminmax(a, dim=1), x)
case(lambda a: a.max(1), ints(3, 4))
case(lambda a: torch.linalg.norm(a, dim=1), x)
case(lambda a: a.norm(p=1, dim=1), x)
case(lambda a: a.norm(p=3, dim=1), x)
case(lambda a: torch.linalg.vector_norm(a, float("inf"), 1), x)
case(lambda a: a.cumsum(1), x)
case(lambda a: a.cumsum(-1), ints(3, 4))
case(lambda a: a.cumprod(1), x)
case(lambda a: torch.logcumsumexp(a, 1), x)
case(lambda a: torch.diff(a), x)
case(lambda a: torch.cummax(a, 1), x)
case(lambda a: a.nansum(1), x)
case(lambda a: a.median(1), x)
case(lambda a: a.median(), x)
