"""Fake tensors whose sizes have symbols: what operators make of such sizes.

A fake tensor always has the numbers of the example in its layout, and operators compute with these. Beside them `state` keeps the
expressions. `run` calls an operator: rules (`rules`, `rules_views`, `rules_images`) say what its results' sizes are and which
guards it asks for; `evidence` calls it again at other sizes, which must agree, and finds expressions where there is no rule.
Used by fake_tensor, and by the tracers of fx and export.
"""

from flambeau._subclasses.symbolic.run import run
from flambeau._subclasses.symbolic.state import describe, plain_sizes, sizes_of

__all__ = ["describe", "plain_sizes", "run", "sizes_of"]
