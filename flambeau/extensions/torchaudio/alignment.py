"""torchaudio's forced_align: the most likely way in which a recording spells given labels.

The best path through the states of connectionist temporal classification: a label each, and blanks between and around. Source:
A. Viterbi, "Error bounds for convolutional codes", 1967, on the states of A. Graves et al., ICML 2006. Stands on NumPy.
"""

from __future__ import annotations

import numpy as np

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor


def _check(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> None:
    """RuntimeError, in torchaudio's words."""

    def need(holds: bool, words: str) -> None:
        if not holds:
            raise RuntimeError(words)

    need(
        log_probs.dtype in (torch.float64, torch.float32, torch.float16),
        "log_probs must be float64, float32 or float16 (half) type",
    )
    need(targets.dtype in (torch.int32, torch.int64), "targets must be int32 or int64 type")
    need(log_probs.is_contiguous(), "log_probs must be contiguous")
    need(targets.is_contiguous(), "targets must be contiguous")
    need(log_probs.dim() == 3, "log_probs must be 3-D (batch_size, input length, num classes)")
    need(targets.dim() == 2, "targets must be 2-D (batch_size, target length,)")
    need(input_lengths.dim() == 1, "input_lengths must be 1-D (batch_size,)")
    need(target_lengths.dim() == 1, "target_lengths must be 1-D (batch_size,)")
    need(log_probs.size(0) == 1, "The batch dimension for log_probs must be 1 at the current version.")
    need(targets.size(0) == 1, "The batch dimension for targets must be 1 at the current version.")
    need(0 <= blank < log_probs.size(-1), "blank must be within [0, num classes)")
    need(log_probs.size(1) == int(input_lengths.max()), "input length mismatch")
    need(targets.size(1) == int(target_lengths.max()), "target length mismatch")


def forced_align(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """(label at each time, of (1, T) and the targets' dtype; log_probs itself), for log_probs (1, T, C) and targets (1, L).

    RuntimeError if shapes or dtypes don't fit, or if there are more labels, and blanks between equal ones, than times.
    """
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    scores, labels = log_probs.detach().numpy()[0], targets.numpy()[0]
    times, count = len(scores), len(labels)
    repeats = int((labels[1:] == labels[:-1]).sum())
    if times < count + repeats:
        raise RuntimeError(
            f"targets length is too long for CTC. Found log_probs length: {times}, targets length: {count}, and "
            f"number of repeats: {repeats}"
        )
    states = np.full(2 * count + 1, blank, labels.dtype)
    states[1::2] = labels
    never = scores.dtype.type(-np.inf)
    skips = np.zeros(len(states), bool)  # whether a state may follow the one before the last
    skips[3::2] = labels[1:] != labels[:-1]
    best = np.full(len(states), never)
    best[:2] = scores[0, states[:2]]
    steps = np.zeros((times, len(states)), np.int8)
    one, two = np.full(len(states), never), np.full(len(states), never)
    for t in range(1, times):
        one[1:], two[2:] = best[:-1], best[:-2]
        two[~skips] = never
        jump = (two > one) & (two > best)
        move = (one > best) & (one > two)
        steps[t] = np.where(jump, 2, move)
        best = np.where(jump, two, np.where(move, one, best)) + scores[t, states]
    state = len(states) - (1 if len(states) == 1 or best[-1] > best[-2] else 2)
    path = np.empty(times, labels.dtype)
    for t in reversed(range(times)):
        path[t] = states[state]
        state -= steps[t, state]
    return torch.from_numpy(path)[None], log_probs
