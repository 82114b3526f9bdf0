"""torch.distributed.tensor._random: seeds of DTensors' random numbers, under the names that training programs ask by.

Each rank draws its part's numbers from its own generator: `torch.manual_seed` with a seed of the rank's own makes parts differ.
"""

from __future__ import annotations

import warnings

from flambeau.distributed.device_mesh import DeviceMesh

__all__ = ["is_rng_supported_mesh", "manual_seed"]


def is_rng_supported_mesh(device_mesh: DeviceMesh) -> bool:
    """Whether parts get the numbers that the whole tensor would: on no CPU, which is warned of."""
    warnings.warn(
        f"DTensor random operators may not have complete support on {device_mesh.device_type} device mesh", stacklevel=2
    )
    return False


def manual_seed(seed: int, device_mesh: DeviceMesh) -> None:
    """Does nothing on the CPU's meshes but warn, as in PyTorch: seed each rank by torch.manual_seed."""
    if not is_rng_supported_mesh(device_mesh):
        warnings.warn(
            f"DTensor manual_seed() may not have complete support on {device_mesh.device_type} device mesh", stacklevel=2
        )
