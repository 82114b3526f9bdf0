"""Targets: what plans are lowered for and run by (target.py says what one is).

`lowered(plan)` is the door that operators' planners use, who name no target: there is one that runs plans so far, the processor.
"""

from flambeau.codegen.targets.cpu import lowered

__all__ = ["lowered"]
