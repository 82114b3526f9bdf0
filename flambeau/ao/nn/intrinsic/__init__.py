"""torch.ao.nn.intrinsic: modules of several that are computed at once. Stands on its modules."""

from flambeau.ao.nn.intrinsic.modules import *
from flambeau.ao.nn.intrinsic.modules.fused import __all__ as __all__
from flambeau.ao.nn.intrinsic.modules.fused import _FusedModule as _FusedModule
