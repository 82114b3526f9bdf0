"""torch._export.serde: exported programs as data, by PyTorch's inner names. A face of export.serde."""

from flambeau.base.lazy_import import submodules

__getattr__ = submodules(__name__)
