"""torch._higher_order_ops.flex_attention: the operators behind torch.nn.attention.flex_attention; use that function."""

from flambeau.core.operator import unsupported as _unsupported

globals().update(
    _unsupported.all_of(
        "_higher_order_ops.", "use torch.nn.attention.flex_attention.flex_attention", "flex_attention flex_attention_backward"
    )
)
