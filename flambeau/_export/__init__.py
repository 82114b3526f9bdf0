"""torch._export: inner names of torch.export that classes of tensors use."""

from flambeau.base.lazy_import import submodules

__getattr__ = submodules(__name__)
