"""ctc_loss: connectionist temporal classification.

The forward and backward recursions over the label sequence with blanks between, one step per time, all samples and
states at once, in tensor operators. Used by nn.functional.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base.dtype import bool_, float32, float64, int64
from flambeau.core.arguments import no_combination
from flambeau.core.declare import operator
from flambeau.core.derive import NAMESPACE, explained
from flambeau.core.tensor import Tensor
from flambeau.ops.cross_entropy import REDUCTIONS

NEVER = float("-inf")


def _lengths(name: str, given: Any) -> list[int]:
    if isinstance(given, Tensor):
        if given.is_floating_point() or given.is_complex() or given.dtype is bool_:
            raise RuntimeError(f"{name} must be integral")
        given = given.reshape(-1).tolist()
    return [int(n) for n in given] if isinstance(given, Sequence) else [int(given)]


class _Problem:
    """Labels with blanks (N, S), what may be skipped, and the log-probabilities of each state (T, N, S)."""

    def __init__(self, log_probs: Tensor, targets: Tensor, input_lengths: list[int], target_lengths: list[int], blank: int):
        torch = NAMESPACE
        rows = targets.tolist()
        if targets.dim() == 1:
            starts = [sum(target_lengths[:i]) for i in range(len(target_lengths))]
            rows = [rows[start:start + n] for start, n in zip(starts, target_lengths)]
        longest = max(target_lengths, default=0)
        labels = []
        for row, n in zip(rows, target_lengths):
            spread = [blank] * (2 * longest + 1)
            spread[1:2 * n:2] = row[:n]
            labels.append(spread)
        self.labels = torch["tensor"](labels, dtype=int64)
        self.states = 2 * longest + 1
        self.time = log_probs.size(0)
        self.emit = log_probs.gather(2, self.labels.unsqueeze(0).expand(self.time, -1, -1))
        skips = [[s >= 2 and s % 2 == 1 and row[s] != row[s - 2] for s in range(self.states)] for row in labels]
        self.skips = torch["tensor"](skips)
        self.ends = torch["tensor"]([2 * n for n in target_lengths], dtype=int64).unsqueeze(1)
        self.last = torch["tensor"]([n - 1 for n in input_lengths], dtype=int64).unsqueeze(1)
        self.never = torch["full"]((len(labels), 2), NEVER, dtype=log_probs.dtype)
        self.place = torch["arange"](self.states)

    def forward(self) -> Tensor:
        """alpha (T, N, S): the log-probability of all beginnings that are in state s at time t."""
        alpha = self.emit.select(0, 0).masked_fill(self.place >= 2, NEVER)
        steps = [alpha]
        for t in range(1, self.time):
            before = NAMESPACE["cat"]([self.never, alpha], 1)
            one, two = before.narrow(1, 1, self.states), before.narrow(1, 0, self.states)
            reached = NAMESPACE["stack"]([alpha, one, two.masked_fill(self.skips.logical_not(), NEVER)], 0).logsumexp(0)
            alpha = reached + self.emit.select(0, t)
            steps.append(alpha)
        return NAMESPACE["stack"](steps, 0)

    def likelihood(self, alpha: Tensor) -> Tensor:
        """The log-probability of the targets (N,): both ends at each sample's last time."""
        count = alpha.size(1)
        final = alpha.gather(0, self.last.clamp(min=0).unsqueeze(0).expand(1, count, self.states)).squeeze(0)
        at_blank = final.gather(1, self.ends)
        at_label = final.gather(1, (self.ends - 1).clamp(min=0)).masked_fill(self.ends == 0, NEVER)
        ended = NAMESPACE["cat"]([at_blank, at_label], 1).logsumexp(1)
        # no input at all says the empty target, and no other
        nothing = NAMESPACE["zeros_like"](ended).masked_fill(self.ends.squeeze(1) > 0, NEVER)
        return NAMESPACE["where"](self.last.squeeze(1) < 0, nothing, ended)

    def backward(self) -> Tensor:
        """beta (T, N, S): the log-probability of all endings that begin in state s at time t."""
        torch = NAMESPACE
        count = self.labels.size(0)
        is_end = (self.place == self.ends) | (self.place == self.ends - 1)
        ahead = torch["cat"]([self.skips.narrow(1, 2, self.states - 2), torch["zeros"]((count, 2), dtype=self.skips.dtype)], 1) \
            if self.states > 2 else torch["zeros"]((count, self.states), dtype=self.skips.dtype)
        beta = torch["full"]((count, self.states), NEVER, dtype=self.emit.dtype)
        steps = []
        for t in range(self.time - 1, -1, -1):
            emit = self.emit.select(0, t)
            after = torch["cat"]([beta, self.never], 1)
            one, two = after.narrow(1, 1, self.states), after.narrow(1, 2, self.states)
            reached = torch["stack"]([beta, one, two.masked_fill(ahead.logical_not(), NEVER)], 0).logsumexp(0) + emit
            first = emit.masked_fill(is_end.logical_not(), NEVER)
            beta = torch["where"](self.last == t, first, reached)
            steps.append(beta)
        return torch["stack"](steps[::-1], 0)


@operator(function=False, method=False, differentiable=1, name="ctc_loss")
def fused_ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths, target_lengths, blank, zero_infinity):
    """(negative log-likelihoods (N,), alpha (T, N, S))."""
    problem = _Problem(log_probs, targets, input_lengths, target_lengths, blank)
    alpha = problem.forward()
    return -problem.likelihood(alpha), alpha


@fused_ctc_loss.vjp
def _(g, outs, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    """PyTorch's gradient, which takes log_probs for the result of log_softmax: exp(log_probs) less the share of each class."""
    problem = _Problem(log_probs, targets, input_lengths, target_lengths, blank)
    loss, alpha = outs
    beta = problem.backward()
    share = (alpha + beta - problem.emit + loss.unsqueeze(1)).exp()
    share = share.masked_fill(share.isnan(), 0)
    shares = NAMESPACE["zeros_like"](log_probs).scatter_add(2, problem.labels.unsqueeze(0).expand(problem.time, -1, -1), share)
    times = NAMESPACE["arange"](problem.time).reshape(-1, 1, 1)
    grad = (log_probs.exp() - shares) * g.reshape(1, -1, 1)
    grad = grad.masked_fill(times > problem.last.unsqueeze(0), 0)
    if zero_infinity:
        grad = grad.masked_fill(loss.isinf().reshape(1, -1, 1), 0)
    return grad, None


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
        raise no_combination("ctc_loss", (log_probs, targets, input_lengths, target_lengths, blank, REDUCTIONS.index(reduction),
                                          zero_infinity))
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
        raise RuntimeError(f"Expected 3-dimensional tensor, but got {log_probs.dim()}-dimensional tensor for argument #1 "
                           f"'log_probs' {checking}")
    count = log_probs.size(1)
    if not 0 <= blank < log_probs.size(2):
        raise RuntimeError("blank must be in label range")
    if len(inputs) != count:
        raise RuntimeError("input_lengths must be of size batch_size")
    if len(lengths) != count:
        raise RuntimeError("target_lengths must be of size batch_size")
    if not 1 <= targets.dim() <= 2:
        raise RuntimeError(f"Expected 1 to 2 dimensions, but got {targets.dim()}-dimensional tensor for argument #2 'targets' "
                           f"{checking}")
    if targets.dim() == 2 and targets.size(0) != count:
        raise RuntimeError(f"Expected tensor to have size {count} at dimension 0, but got size {targets.size(0)} for argument "
                           f"#2 'targets' {checking}")
    for n in lengths:
        if n < 0:
            raise RuntimeError(f"Expected target_lengths to have value at least 0, but got value {n} {checking}")
    longest, together = max(lengths, default=0), sum(lengths)
    if targets.dim() == 2 and targets.size(1) < longest:
        raise RuntimeError(f"Expected tensor to have size at least {longest} at dimension 1, but got size {targets.size(1)} for "
                           f"argument #2 'targets' {checking}")
    if targets.dim() == 1 and targets.size(0) != together:
        raise RuntimeError(f"Expected tensor to have size {together} at dimension 0, but got size {targets.size(0)} for argument "
                           f"#2 'targets' {checking}")
    for n in inputs:
        if n < 0 or n > log_probs.size(0):
            raise RuntimeError(f"Expected input_lengths to have value at {'least 0' if n < 0 else f'most {log_probs.size(0)}'}, "
                               f"but got value {n} {checking}")
    loss = fused_ctc_loss(log_probs, targets, inputs, lengths, blank, zero_infinity)[0]
    if zero_infinity:
        loss = loss.masked_fill(loss.detach().isinf(), 0)
    if reduction == "mean":
        sizes = NAMESPACE["tensor"](lengths, dtype=loss.dtype).clamp(min=1)
        return (loss / sizes).mean()
    if reduction == "sum":
        return loss.sum()
    return loss if batched else loss.squeeze(0)


def torch_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """torch.ctc_loss: see nn.functional.ctc_loss; reduction: 0, 1, 2 for none, mean, sum."""
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, REDUCTIONS[reduction], zero_infinity)


NAMESPACE["ctc_loss"] = torch_ctc_loss
