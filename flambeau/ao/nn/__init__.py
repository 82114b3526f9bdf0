"""torch.ao.nn: modules of quantized models and of those that become quantized; each room is imported at first use."""

from __future__ import annotations

from flambeau.base.lazy_import import submodules

__getattr__ = submodules(__name__)
