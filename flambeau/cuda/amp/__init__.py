"""torch.cuda.amp: the older names of torch.amp, fixed to the device "cuda"."""

from __future__ import annotations

import functools

import flambeau as torch
from flambeau.amp.older import names_for

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

autocast, GradScaler = names_for("cuda", torch.float16)
custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="cuda")
