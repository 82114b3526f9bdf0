"""torch._higher_order_ops.wrap: operators that call a function, which graphs have as a graph within them."""

import flambeau as torch

wrap = torch.ops.higher_order.wrap
tag_activation_checkpoint = torch.ops.higher_order.tag_activation_checkpoint
wrap_with_autocast = torch.ops.higher_order.wrap_with_autocast
wrap_with_set_grad_enabled = torch.ops.higher_order.wrap_with_set_grad_enabled

__all__ = ["tag_activation_checkpoint", "wrap", "wrap_with_autocast", "wrap_with_set_grad_enabled"]
