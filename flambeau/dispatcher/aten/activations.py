"""Gradients of activations as operators of their own, and activations with the scales that only the dispatcher has.

Each is the rule of its activation, made a pointwise operator of gradient and input (or result). Stands on
ops.elementwise.activation.
"""

from __future__ import annotations

import inspect
from typing import Any

from flambeau.core.operator.annotations import Number
from flambeau.core.operator.pointwise import signature_of
from flambeau.core.operator.publishing import NAMESPACE, OPERATORS
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.gradients import gradient_of
from flambeau.dispatcher.aten.registry import IMPLEMENTATIONS, implementation
from flambeau.ir import scalar as s
from flambeau.ops.random.samplers import rrelu_slopes


def _declared(body: Any) -> Any:
    """A pointwise operator that only the dispatcher knows."""
    return implementation(body.__name__)(pointwise(function=False, method=False, inplace=False, types="fc")(body))


def _gradient(name: str, first: str = "grad_output") -> None:
    """`name_backward`, by the rule of the activation: of the gradient, its input (or its result) and its numbers."""
    declared = OPERATORS[name]
    rule = signature_of(declared.rule).parameters
    saved = "output" if "out" in rule else "self"
    numbers = [n for n in rule if n in declared.numbers]

    def body(*values: Any, **statics: Any) -> Any:
        gradient, x, *rest = values
        given = {"g": gradient, "out": x, "input": x, **dict(zip(numbers, rest)), **statics}
        return declared.rule(**{n: given[n] for n in rule})

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(n, kind, annotation="Tensor") for n in (first, saved)]
    parameters += [inspect.Parameter(n, kind, annotation="Number") for n in numbers]
    parameters += [
        inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=declared.statics[n]) for n in rule if n in declared.statics
    ]
    body.__name__, body.__doc__ = f"{name}_backward", f"The gradient of {name}."
    body.__signature__ = inspect.Signature(parameters)
    _declared(body)


for _name in "tanh sigmoid gelu silu mish hardsigmoid hardswish softshrink hardtanh softplus".split():
    _gradient(_name)
_gradient("hardshrink", "grad_out")


@_declared
def threshold_backward(grad_output: Tensor, self: Tensor, threshold: Number):
    """The gradient of threshold: nothing where the input is at most that."""
    return s.where(self <= threshold, 0, grad_output)


@_declared
def leaky_relu_backward(grad_output: Tensor, self: Tensor, negative_slope: Number, self_is_result=False):
    """The gradient of leaky_relu, whose result has its input's sign."""
    return s.where(self > 0, grad_output, grad_output * negative_slope)


@_declared
def _elu_backward(
    grad_output: Tensor, self: Tensor, alpha: Number = 1.0, scale: Number = 1.0, input_scale: Number = 1.0, is_result=False
):
    """The gradient of elu, of its input or of its result."""
    low = input_scale * (self + alpha * scale) if is_result else scale * alpha * input_scale * s.exp(self * input_scale)
    return s.where(self <= 0, grad_output * low, grad_output * scale)


@implementation()
def elu_backward(
    grad_output: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, self_or_result: Tensor
) -> Any:
    """The gradient of elu, in the order of PyTorch's arguments."""
    return _elu_backward(grad_output, self_or_result, alpha, scale, input_scale, is_result)


@_declared
def _logit_backward(grad_output: Tensor, self: Tensor, eps: Number = -1.0):
    """The gradient of logit, nothing outside of [eps, 1 - eps]; of a negative eps NaN outside of [0, 1]."""
    inside = grad_output / (self * (1 - self))
    unclamped = s.where((self < 0) | (self > 1), float("nan"), inside)
    return s.where(eps < 0, unclamped, s.where((self < eps) | (self > 1 - eps), 0, inside))


@implementation()
def logit_backward(grad_output: Tensor, self: Tensor, eps: float | None = None) -> Any:
    """The gradient of logit, whose `eps` may be None: then it is NaN outside of [0, 1]."""
    return _logit_backward(grad_output, self, -1.0 if eps is None else eps)


_gradient("logsigmoid")


@implementation()
def log_sigmoid_backward(grad_output: Tensor, self: Tensor, buffer: Tensor) -> Any:
    """The gradient of logsigmoid; `buffer` is what the forward pass kept, which isn't needed."""
    return IMPLEMENTATIONS["logsigmoid_backward"](grad_output, self)


@implementation()
def log_sigmoid(self: Tensor) -> Any:
    """logsigmoid."""
    return OPERATORS["logsigmoid"].public(self)


@implementation()
def log_sigmoid_forward(self: Tensor) -> tuple[Tensor, Tensor]:
    """logsigmoid, and the exponentials that PyTorch's CPU kernel keeps for the gradient."""
    return OPERATORS["logsigmoid"].public(self), self.abs().neg().exp()


@_declared
def elu(self: Tensor, alpha: Number = 1.0, scale: Number = 1.0, input_scale: Number = 1.0):
    """elu with all of its scales."""
    return s.where(self <= 0, s.expm1(self * input_scale) * alpha * scale, self * scale)


@implementation()
def elu_(self: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    """elu in place."""
    return self.copy_(elu(self, alpha, scale, input_scale))


@implementation()
def glu_backward(grad_output: Tensor, self: Tensor, dim: int) -> Tensor:
    """The gradient of glu."""
    return gradient_of(lambda x: OPERATORS["glu"].public(x, dim), self, grad_output)


@implementation()
def _prelu_kernel_backward(grad_output: Tensor, self: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of prelu's kernel, whose weight has the input's shape or broadcasts to it."""
    negative = self <= 0
    where = NAMESPACE["where"]
    return where(negative, weight * grad_output, grad_output), where(negative, self * grad_output, 0)


def _slopes(self: Tensor, noise: Tensor, lower: float, upper: float, training: bool, generator: Any) -> Any:
    """The slope of each element of rrelu: drawn, and written to `noise`, in training; else the mean of the bounds."""
    if not training:
        return NAMESPACE["where"](self <= 0, (lower + upper) / 2, 1.0)
    noise.copy_(rrelu_slopes(self, lower, upper, generator))
    return noise


@implementation()
def rrelu_with_noise(
    self: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    """rrelu, with the slopes that were drawn in `noise`."""
    return self * _slopes(self, noise, lower, upper, training, generator)


@implementation()
def rrelu_with_noise_(
    self: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    """rrelu in place."""
    return self.mul_(_slopes(self, noise, lower, upper, training, generator))


@implementation()
def rrelu_with_noise_backward(
    grad_output: Tensor, self: Tensor, noise: Tensor, lower: float, upper: float, training: bool, self_is_result: bool
) -> Tensor:
    """The gradient of rrelu."""
    if training and upper - lower > 1e-6:
        return noise * grad_output
    made: Tensor = leaky_relu_backward(grad_output, self, (lower + upper) / 2, self_is_result)
    return made


#: torch.special's names for operators that have others elsewhere.
for _name, _own in {
    "special_expit": "sigmoid", "special_gammainc": "igamma", "special_gammaincc": "igammac", "special_gammaln": "lgamma",
    "special_multigammaln": "mvlgamma", "special_psi": "digamma", "special_modified_bessel_i0": "i0",
    "special_modified_bessel_i1": "i1",
}.items():  # fmt: skip
    implementation(_name)(OPERATORS[_own].public)
