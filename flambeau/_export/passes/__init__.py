"""torch._export.passes: passes over exported programs."""

from flambeau._export.passes.replace_view_ops_with_view_copy_ops_pass import ReplaceViewOpsWithViewCopyOpsPass

__all__ = ["ReplaceViewOpsWithViewCopyOpsPass"]
