"""torch.distributed.algorithms.join: processes with unequal amounts of data; names to import."""

from flambeau.core.operator import unsupported as _unsupported
from flambeau.distributed.without_group import ADVICE as _ADVICE

Join = _unsupported.kind("distributed.algorithms.Join", _ADVICE)
JoinHook = _unsupported.kind("distributed.algorithms.JoinHook", _ADVICE)
Joinable = _unsupported.kind("distributed.algorithms.Joinable", _ADVICE)
