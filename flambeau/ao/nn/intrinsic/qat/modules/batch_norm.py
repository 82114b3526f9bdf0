"""What layers that are trained with their batch norm have in common. Stands on nn; used by conv_fused and linear_fused."""

from __future__ import annotations

from typing import Any

from flambeau import nn

__all__ = ["TrainedBatchNorm"]


class TrainedBatchNorm:
    """A module with a weight, a bias or None and a batch norm `bn`, which follows the batches or is frozen."""

    bn: Any
    weight: Any
    bias: Any
    freeze_bn: bool

    def reset_running_stats(self) -> None:
        """Forget the means and variances."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self) -> None:
        """Forget the means and variances, and draw the batch norm's parameters anew."""
        self.bn.reset_running_stats()
        nn.init.uniform_(self.bn.weight)
        nn.init.zeros_(self.bn.bias)
        if self.bias is not None:
            fan_in, _ = nn.init._calculate_fan_in_and_fan_out(self.weight)  # type: ignore[attr-defined]
            bound = fan_in**-0.5
            nn.init.uniform_(self.bias, -bound, bound)

    def update_bn_stats(self) -> Any:
        """Let the means and variances follow the batches."""
        self.freeze_bn, self.bn.training = False, True
        return self

    def freeze_bn_stats(self) -> Any:
        """Let the means and variances be."""
        self.freeze_bn, self.bn.training = True, False
        return self

    def train(self, mode: bool = True) -> Any:
        """Training mode, or not; a batch norm that is frozen stays so."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():  # type: ignore[attr-defined]
                module.train(mode)
        return self
