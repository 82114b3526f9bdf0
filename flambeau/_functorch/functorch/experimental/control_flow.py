"""functorch.experimental.control_flow: torch.cond, and map. A face of _higher_order_ops."""

import flambeau as torch

cond = torch.cond
map = torch._higher_order_ops.map

__all__ = ["cond", "map"]
