"""torch.fx.passes.reinplace: a name without work; calls aren't turned into in-place ones."""

from flambeau.core.operator import unsupported

_ADVICE = "write the in-place operator (torch.ops.aten.add_.Tensor) into the graph yourself; fx.Node.target can be assigned"
globals().update(unsupported.all_of("fx.passes.reinplace.", _ADVICE, "reinplace"))
