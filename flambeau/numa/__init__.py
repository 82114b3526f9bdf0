"""torch.numa: on which processors of a machine with several memories the started processes run."""

from flambeau.base.lazy_import import submodules

__getattr__ = submodules(__name__)
