"""Instance normalisation in one to three dimensions and its lazy forms."""

from __future__ import annotations

import warnings

from flambeau.core.tensor.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.batchnorm import _LazyNormBase, _NormBase, expect_dims


class _InstanceNorm(_NormBase):
    """(x - mean) / sqrt(var + eps) * weight + bias, statistics per sample and channel."""

    _unbatched_dims: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device=None,
        dtype=None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype, bias=bias)

    def _check_input_dim(self, input: Tensor) -> None:
        expect_dims(input, (self._unbatched_dims, self._unbatched_dims + 1))

    def _get_no_batch_dim(self) -> int:
        return self._unbatched_dims

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        version = local_metadata.get("version", None)
        # Before version 2 running statistics were saved even when they were not tracked.
        if version is None and not self.track_running_stats:
            stale = [name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if stale:
                names = " and ".join(f'"{prefix + name}"' for name in stale)
                kind = type(self).__name__
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {kind} with track_running_stats=False. "
                    "If state_dict is a checkpoint saved before 0.4.0, this may be expected because "
                    f"{kind} does not track running stats by default since 0.4.0. Please remove these keys from "
                    "state_dict. If the running stats are actually needed, instead set "
                    f"track_running_stats=True in {kind} to enable them. See the documentation of {kind} for details."
                )
                for name in stale:
                    state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = input.dim() == self._unbatched_dims
        feature_dim = input.dim() - self._unbatched_dims
        if input.size(feature_dim) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={feature_dim} to match num_features "
                    f"({self.num_features}), but got: {input.size(feature_dim)}."
                )
            warnings.warn(
                f"input's size at dim={feature_dim} does not match num_features. "
                "You can silence this warning by not passing in num_features, "
                "which is not used because affine=False",
                stacklevel=2,
            )
        output = F.instance_norm(
            input.unsqueeze(0) if unbatched else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return output.squeeze(0) if unbatched else output


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L)."""

    _unbatched_dims = 2


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W)."""

    _unbatched_dims = 3


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""

    _unbatched_dims = 4


class _LazyInstanceNorm(_LazyNormBase, _InstanceNorm):
    """Takes num_features from the channel dimension of the first input, batched or not."""

    def initialize_parameters(self, input: Tensor) -> None:
        """Give parameters and statistics their shapes."""
        super().initialize_parameters(input.unsqueeze(0) if input.dim() == self._unbatched_dims else input)


class LazyInstanceNorm1d(_LazyInstanceNorm):
    """An InstanceNorm1d that takes num_features from its first input."""

    cls_to_become, _unbatched_dims = InstanceNorm1d, 2


class LazyInstanceNorm2d(_LazyInstanceNorm):
    """An InstanceNorm2d that takes num_features from its first input."""

    cls_to_become, _unbatched_dims = InstanceNorm2d, 3


class LazyInstanceNorm3d(_LazyInstanceNorm):
    """An InstanceNorm3d that takes num_features from its first input."""

    cls_to_become, _unbatched_dims = InstanceNorm3d, 4
