"""ctc_loss: connectionist temporal classification.

The recursions over the label sequence with blanks between are kernels (codegen.losses.ctc), parallel over the samples. Used by
nn.functional.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from flambeau.base.dtype import bool_, float32, float64, int64
from flambeau.base.layout import Layout
from flambeau.base.naming import named
from flambeau.codegen.element_type import kind_of
from flambeau.codegen.losses import ctc as kernels
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime import launch as launching
from flambeau.codegen.runtime.messages import KernelCheck
from flambeau.codegen.targets import lowered
from flambeau.core.modes.autocast import single
from flambeau.core.operator.arguments import no_combination
from flambeau.core.operator.define import operator
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import NAMESPACE, explained
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known, needs_values
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.indexing.gather_plans import first_bad, plans
from flambeau.ops.nn.cross_entropy import REDUCTIONS

UNIT = 4096  # states and classes of all times that are worth another thread


def _lengths(name: str, given: Any) -> list[int]:
    if isinstance(given, Tensor):
        if given.is_floating_point() or given.is_complex() or given.dtype is bool_:
            raise RuntimeError(f"{name} must be integral")
        if not known(given):
            raise needs_values(given, "_ctc_loss.Tensor")
        given = given.reshape(-1).tolist()
    return [int(n) for n in given] if isinstance(given, Sequence) else [int(given)]


class _Problem:
    """What both kernels are given: contiguous tensors, lengths as a tensor, and the constants of codegen.losses.ctc."""

    def __init__(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: list[int],
        target_lengths: list[int],
        blank: int,
        zero_infinity: bool,
    ):
        if log_probs._layout.strides[2] != 1:
            log_probs = contiguous(log_probs)
        self.log_probs, self.targets = log_probs, contiguous(targets.to(int64))
        time, count, classes = self.sizes = tuple(log_probs._layout.shape)
        width = targets._layout.shape[1] if targets._layout.ndim == 2 else 0
        starts = [n * width for n in range(count)] if targets._layout.ndim == 2 else [0, *accumulate(target_lengths)][:count]
        self.lengths = NAMESPACE["tensor"](
            [*input_lengths, *target_lengths, *starts], dtype=int64, device=log_probs._layout.device
        )
        self.states = 2 * max(target_lengths, default=0) + 1
        self.kind = kind_of(log_probs._layout.dtype)
        strides = log_probs._layout.strides
        self.pitch = kernels.pitch_of(self.states, self.kind)
        self.constants = [
            count,
            time,
            classes,
            strides[0],
            strides[1],
            blank,
            self.pitch,
            kernels.slice_of(self.pitch, self.kind),
            int(zero_infinity),
        ]

    def run(self, kernel: Any, shapes: list[tuple[int, ...]], others: Sequence[Tensor] = ()) -> Any:
        """Results of these shapes from a kernel over the samples."""
        layout = self.log_probs._layout
        given = [self.log_probs, self.targets, self.lengths, *map(contiguous, others)]
        outputs = [Layout.contiguous(shape, layout.dtype, layout.device) for shape in shapes]
        threads = launching.planned_threads()
        key = ("ctc", kernel, threads, self.states, *self.constants, *outputs, *[x._layout for x in given])
        launch = plans.get(key)
        if launch is None:
            time, count, classes = self.sizes
            work = count * time * (self.states + classes)
            launch = plans[key] = lowered(
                Plan(
                    [Phase(kernel(layout.dtype), count, count if work < UNIT else 1, self.constants)],
                    outputs,
                    [x._layout for x in given],
                    scratch=threads * self.constants[7],
                    release=work >= RELEASE_FROM,
                )
            )
        try:
            return launch(*[None] * len(shapes), *given)
        except KernelCheck:
            bad = first_bad(self.targets, self.sizes[2], False)
        raise RuntimeError(f"index {bad} is out of bounds for dimension 2 with size {self.sizes[2]}")


@operator(function=False, method=False, differentiable=1, name="ctc_loss", autocast=single)
def fused_ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths, target_lengths, blank, zero_infinity):
    """(negative log-likelihoods (N,), alpha (N, T, row): the logarithms of the forward recursion)."""
    problem = _Problem(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    time, count, _ = problem.sizes
    return problem.run(kernels.forward_kernel, [(count,), (count, time, problem.pitch)])


@fused_ctc_loss.vjp
def _(g, outs, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    return _backward(g, log_probs, targets, *outs, input_lengths, target_lengths, blank, zero_infinity), None


@operator(function=False, method=False, name="_ctc_loss_backward")
def _backward(
    g: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    loss: Tensor,
    alpha: Tensor,
    input_lengths,
    target_lengths,
    blank,
    zero_infinity,
) -> Tensor:
    """PyTorch's gradient, which takes log_probs for the result of log_softmax: exp(log_probs) less the share of each class."""
    problem = _Problem(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    return problem.run(kernels.gradient_kernel, [problem.sizes], (loss, alpha, g))


@_backward.vjp
def _(g):
    raise RuntimeError("derivative for aten::_ctc_loss_backward is not implemented")


@explained
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """The negative log-likelihood of label sequences, summed over all alignments with the inputs.

    log_probs: (T, N, C) or (T, C), logarithms of probabilities; targets: (N, S), or all of them one after the other;
    input_lengths, target_lengths: (N,) tensors or sequences. reduction "mean" divides each loss by its target's length
    first; zero_infinity makes losses of impossible targets, and their gradients, zero. Raises RuntimeError for lengths
    that don't fit.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if not log_probs.is_floating_point():
        raise RuntimeError(f"log_probs tensor must be floating point, got {log_probs.dtype}")
    if isinstance(input_lengths, Tensor) is not isinstance(target_lengths, Tensor):
        raise no_combination(
            "ctc_loss", (log_probs, targets, input_lengths, target_lengths, blank, REDUCTIONS.index(reduction), zero_infinity)
        )
    if log_probs.dtype not in (float32, float64):
        raise NotImplementedError(f"\"ctc_loss_cpu\" not implemented for '{log_probs.dtype.scalar_name}'")
    if not log_probs.numel():
        raise RuntimeError("log_probs tensor must not be empty")
    batched = log_probs.dim() >= 3
    if not batched:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets.dim() == 1 else targets
    inputs, lengths = _lengths("input_lengths", input_lengths), _lengths("target_lengths", target_lengths)
    checking = "(while checking arguments for ctc_loss_allocate_outputs)"
    if log_probs.dim() != 3:
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {log_probs.dim()}-dimensional tensor for argument #1 'log_probs' {checking}"
        )
    count = log_probs.size(1)
    if not 0 <= blank < log_probs.size(2):
        raise RuntimeError("blank must be in label range")
    if len(inputs) != count:
        raise RuntimeError("input_lengths must be of size batch_size")
    if len(lengths) != count:
        raise RuntimeError("target_lengths must be of size batch_size")
    if not 1 <= targets.dim() <= 2:
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.dim()}-dimensional tensor for argument #2 'targets' {checking}"
        )
    if targets.dim() == 2 and targets.size(0) != count:
        raise RuntimeError(
            f"Expected tensor to have size {count} at dimension 0, but got size {targets.size(0)} for argument "
            f"#2 'targets' {checking}"
        )
    for n in lengths:
        if n < 0:
            raise RuntimeError(f"Expected target_lengths to have value at least 0, but got value {n} {checking}")
    longest, together = max(lengths, default=0), sum(lengths)
    if targets.dim() == 2 and targets.size(1) < longest:
        raise RuntimeError(
            f"Expected tensor to have size at least {longest} at dimension 1, but got size {targets.size(1)} for "
            f"argument #2 'targets' {checking}"
        )
    if targets.dim() == 1 and targets.size(0) != together:
        raise RuntimeError(
            f"Expected tensor to have size {together} at dimension 0, but got size {targets.size(0)} for argument "
            f"#2 'targets' {checking}"
        )
    for n in inputs:
        if n < 0 or n > log_probs.size(0):
            raise RuntimeError(
                f"Expected input_lengths to have value at {'least 0' if n < 0 else f'most {log_probs.size(0)}'}, "
                f"but got value {n} {checking}"
            )
    loss = fused_ctc_loss(log_probs, targets, inputs, lengths, blank, zero_infinity)[0]
    if zero_infinity:
        loss = loss.masked_fill(loss.detach().isinf(), 0)
    if reduction == "mean":
        sizes = NAMESPACE["tensor"](lengths, dtype=loss.dtype, device=loss._layout.device).clamp(min=1)
        return (loss / sizes).mean()
    if reduction == "sum":
        return loss.sum()
    return loss if batched else loss.squeeze(0)


@named("ctc_loss")
def torch_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0, zero_infinity=False):
    """torch.ctc_loss: see nn.functional.ctc_loss; reduction: 0, 1, 2 for none (if left out, as in PyTorch), mean, sum."""
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, REDUCTIONS[reduction], zero_infinity)


NAMESPACE["ctc_loss"] = torch_ctc_loss
