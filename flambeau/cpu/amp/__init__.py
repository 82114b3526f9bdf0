"""torch.cpu.amp: the older names of torch.amp, fixed to the device "cpu"."""

from __future__ import annotations

import flambeau as torch
from flambeau.amp.older import names_for

__all__ = ["GradScaler", "autocast"]

autocast, GradScaler = names_for("cpu", torch.bfloat16)
