"""torch.ao: architecture optimisation; see flambeau.ao.quantization. Its rooms are imported at first use."""

from __future__ import annotations

from flambeau.base.lazy_import import submodules

__getattr__ = submodules(__name__)
