"""torchaudio's loss of transducers, with its gradient.

A path through the grid of times and labels emits a label or, by a blank, goes on to the next time; the loss of a sample is the
negative logarithm of the sum over all paths. Source: A. Graves, "Sequence Transduction with Recurrent Neural Networks", 2012.
Stands on the public operators, and NumPy for the recursions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor


def _check(logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor, blank: int) -> None:
    """RuntimeError, in torchaudio's words."""

    def need(holds: bool, words: str) -> None:
        if not holds:
            raise RuntimeError(words)

    named = {"targets": targets, "logit_lengths": logit_lengths, "target_lengths": target_lengths}
    need(logits.dtype in (torch.float32, torch.float16), "logits must be float32 or float16 (half) type")
    for name, each in named.items():
        need(each.dtype is torch.int32, f"{name} must be int32 type")
    for name, each in {"logits": logits, **named}.items():
        need(each.is_contiguous(), f"{name} must be contiguous")
    need(logits.dim() == 4, "logits must be 4-D (batch, time, target, class)")
    need(targets.dim() == 2, "targets must be 2-D (batch, max target length)")
    need(logit_lengths.dim() == 1, "logit_lengths must be 1-D")
    need(target_lengths.dim() == 1, "target_lengths must be 1-D")
    for name in ("logit_lengths", "target_lengths", "targets"):
        need(named[name].size(0) == logits.size(0), f"batch dimension mismatch between logits and {name}")
    need(0 <= blank < logits.size(-1), "blank must be within [0, logits.shape[-1])")
    need(logits.size(1) == int(logit_lengths.max()), "input length mismatch")
    need(logits.size(2) == int(target_lengths.max()) + 1, "output length mismatch")
    need(targets.size(1) + 1 == logits.size(2), "target length mismatch")
    if targets.numel():
        need(int(targets.min()) >= 0 and int(targets.max()) < logits.size(-1), "targets must be within [0, logits.shape[-1])")


def _diagonals(times: int, labels: int) -> list[Any]:
    """The cells (t, u) of a grid, by their sums: each needs only those of the sums before."""
    sums = np.add.outer(np.arange(times), np.arange(labels))
    return [np.nonzero(sums == each) for each in range(times + labels - 1)]


def rnnt_loss_forward(
    logits: Tensor,
    targets: Tensor,
    logit_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    clamp: float,
    fused_log_softmax: bool,
) -> tuple[Tensor, Tensor]:
    """(losses (N,), their gradients, of the shape of logits), for logits (N, T, U + 1, C) and targets (N, U).

    fused_log_softmax: logits become log-probabilities first; otherwise they are taken for these. clamp: if it is above 0,
    gradients are cut at -clamp and clamp. RuntimeError if shapes or dtypes don't fit.
    """
    _check(logits, targets, logit_lengths, target_lengths, blank)
    batch, times, labels, _ = logits.shape
    with torch.no_grad():
        values = logits.float()
        log_probs = values.log_softmax(-1) if fused_log_softmax else values
        places = torch.nn.functional.pad(targets.long(), (0, 1))[:, None, :, None].expand(batch, times, labels, 1)
        t = torch.arange(times)[None, :, None]
        u = torch.arange(labels)[None, None, :]
        ends, lasts = logit_lengths.long()[:, None, None], target_lengths.long()[:, None, None]
        inside = (t < ends) & (u <= lasts)
        never = torch.tensor(-torch.inf)
        blanks = torch.where(inside, log_probs[..., blank], never)
        emitted = torch.where(inside & (u < lasts), log_probs.gather(-1, places)[..., 0], never)
        forward, backward = _recursions(blanks.numpy(), emitted.numpy(), logit_lengths.numpy(), target_lengths.numpy())
        losses = -torch.from_numpy(backward[:, 0, 0].copy())
        reached = torch.where(inside, torch.from_numpy(forward) + losses[:, None, None], never)
        by_blank = (reached + blanks + torch.from_numpy(backward[:, 1:, :labels])).exp()
        by_label = (reached + emitted + torch.from_numpy(backward[:, :times, 1:])).exp()
        if fused_log_softmax:
            gradients = (log_probs + (reached + torch.from_numpy(backward[:, :times, :labels]))[..., None]).exp()
        else:
            gradients = torch.zeros_like(values)
        gradients[..., blank] -= by_blank
        gradients.scatter_add_(-1, places, -by_label[..., None])
        if clamp > 0:
            gradients.clamp_(-clamp, clamp)
    return losses.to(logits.dtype), gradients.to(logits.dtype)


def _recursions(blanks: Any, emitted: Any, times_of: Any, labels_of: Any) -> tuple[Any, Any]:
    """(forward (N, T, U + 1): log-probability of all ways to a cell; backward (N, T + 1, U + 2): of all from it to the end).

    The end of a sample, one time after its last, has 0 in backward; what lies outside has -inf.
    """
    batch, times, labels = blanks.shape
    samples = np.arange(batch)
    forward = np.full((batch, times + 1, labels + 1), -np.inf, np.float32)  # what comes before has an index of -1
    backward = forward.copy()
    backward[samples, times_of, labels_of] = 0
    with np.errstate(invalid="ignore"):
        for t, u in _diagonals(times, labels):
            ways = np.logaddexp(forward[:, t - 1, u] + blanks[:, t - 1, u], forward[:, t, u - 1] + emitted[:, t, u - 1])
            forward[:, t, u] = np.where((t == 0) & (u == 0), 0, ways)
        for t, u in reversed(_diagonals(times, labels)):
            ways = np.logaddexp(backward[:, t + 1, u] + blanks[:, t, u], backward[:, t, u + 1] + emitted[:, t, u])
            backward[:, t, u] = np.where(backward[:, t, u] == 0, 0, ways)
    return forward[:, :times, :labels], backward
