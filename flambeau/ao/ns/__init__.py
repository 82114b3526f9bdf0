"""torch.ao.ns: comparing quantized models with the float ones that they were made of. Its modules are imported at first use."""

from __future__ import annotations

from flambeau.base.lazy_import import submodules

__getattr__ = submodules(__name__)
