"""torch._export.serde.union: classes of values of which one field is set. A face of export.serde.union."""

from flambeau.export.serde.union import _Union, _union_dataclass

__all__ = ["_Union", "_union_dataclass"]
