"""Modules of several that follow each other. Stands on fused."""

from flambeau.ao.nn.intrinsic.modules.fused import *
from flambeau.ao.nn.intrinsic.modules.fused import _FusedModule as _FusedModule
