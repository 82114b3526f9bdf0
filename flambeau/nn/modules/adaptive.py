"""AdaptiveLogSoftmaxWithLoss: a softmax over many classes in clusters, rare classes in smaller projections."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence

import flambeau
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.container import ModuleList, Sequential
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes sorted by frequency are split at `cutoffs`; the head holds the first cluster and one entry per other.

    input (N, in_features) or (in_features), target (N) or (); returns (log-probability of each target, mean loss).
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if len(cutoffs) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(cutoffs)
            or min(cutoffs) <= 0
            or max(cutoffs) > n_classes - 1
            or len(set(cutoffs)) != len(cutoffs)
            or any(int(cutoff) != cutoff for cutoff in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive "
                "integers sorted in an increasing order, where "
                "each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        factory = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **factory)
        self.tail = ModuleList()
        for cluster in range(self.n_clusters):
            width = int(in_features // (div_value ** (cluster + 1)))
            classes = self.cutoffs[cluster + 1] - self.cutoffs[cluster]
            self.tail.append(
                Sequential(Linear(in_features, width, bias=False, **factory), Linear(width, classes, bias=False, **factory))
            )

    def reset_parameters(self) -> None:
        """Those of every projection, head first."""
        self.head.reset_parameters()
        for projection, classes in self.tail:
            projection.reset_parameters()
            classes.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        if target_.dim() == 1:
            if input_.size(0) != target_.size(0):
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input_.dim() != 2:
                raise RuntimeError("1D target tensor expects 2D input tensors, but found inputs with size " + str(input_.size()))
        elif target_.dim() == 0:
            if input_.dim() != 1:
                raise RuntimeError("0D target tensor expects 1D input tensors, but found inputs with size " + str(input_.size()))
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)

        used_rows = 0
        output = input.new_empty(target.size(0))
        gather_positions = target.new_empty(target.size(0))
        for cluster, (low, high) in enumerate(zip([0, *self.cutoffs], self.cutoffs)):
            mask = (target >= low) & (target < high)
            rows = mask.nonzero().squeeze()
            if rows.numel() == 0:
                continue
            if cluster == 0:
                gather_positions = gather_positions.index_copy(0, rows, target[mask])
            else:
                relative = target[mask] - low
                logits = self.tail[cluster - 1](input.index_select(0, rows))
                log_probability = F.log_softmax(logits, dim=1)
                gather_positions = gather_positions.index_fill(0, rows, self.shortlist_size + cluster - 1)
                output = output.index_copy(0, rows, log_probability.gather(1, relative.unsqueeze(1)).squeeze(1))
            if cluster == 0:
                output = output.index_fill(0, rows, 0.0)
            used_rows += rows.numel()
        if used_rows != target.size(0):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], "
                f"but values in range [{target.min().item()}, {target.max().item()}] "
                "were found. "
            )
        head_log_probability = F.log_softmax(self.head(input), dim=1)
        output = output + head_log_probability.gather(1, gather_positions.unsqueeze(1)).squeeze()
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        """(N, n_classes) log-probabilities from the head's logits."""
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for cluster, tail in enumerate(self.tail):
            position = self.shortlist_size + cluster
            parts.append(F.log_softmax(tail(input), dim=1) + head[:, position].unsqueeze(1))
        return flambeau.cat(parts, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """(N, n_classes) log-probabilities of (N, in_features)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """(N) most likely classes; clusters are only evaluated where the head chooses one."""
        head_output = self.head(input)
        output = flambeau.argmax(head_output, dim=1)
        in_tail = output >= self.shortlist_size
        if not in_tail.any():
            return output
        if in_tail.all():
            return flambeau.argmax(self._get_full_log_prob(input, head_output), dim=1)
        log_probability = self._get_full_log_prob(input[in_tail], head_output[in_tail])
        output[in_tail] = flambeau.argmax(log_probability, dim=1)
        return output
