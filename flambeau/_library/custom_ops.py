"""torch._library.custom_ops: `custom_op` and what it gives."""

from flambeau.library.custom_ops import CustomOpDef, custom_op

__all__ = ["CustomOpDef", "custom_op"]
