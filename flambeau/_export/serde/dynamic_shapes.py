"""torch._export.serde.dynamic_shapes: what is said of dynamic sizes, as data. A face of export.serde.dynamic_shapes."""

from flambeau.export.serde.dynamic_shapes import DynamicShapesSpec, RootDim, _dump_dynamic_shapes, _load_dynamic_shapes

__all__ = ["DynamicShapesSpec", "RootDim", "_dump_dynamic_shapes", "_load_dynamic_shapes"]
