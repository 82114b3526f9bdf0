"""torch.distributed.algorithms.join: processes with unequal amounts of data; names to import."""

from flambeau.core import absent as _absent
from flambeau.distributed.without_group import ADVICE as _ADVICE

Join = _absent.kind("distributed.algorithms.Join", _ADVICE)
JoinHook = _absent.kind("distributed.algorithms.JoinHook", _ADVICE)
Joinable = _absent.kind("distributed.algorithms.Joinable", _ADVICE)
