"""torch.Tag: what is known of an operator besides its schema, such as that it is a view or draws random numbers."""

from __future__ import annotations

import enum

from flambeau.base.naming import PACKAGE

__all__ = ["Tag"]

#: A property of an operator, given to `torch.library.define(..., tags=...)`.
Tag = enum.IntEnum(  # type: ignore[misc]
    "Tag",
    {
        name: value
        for value, name in enumerate(
            """core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated inplace
            inplace_view maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides
            needs_fixed_stride_order nondeterministic_bitwise nondeterministic_seeded out out_variant pointwise
            pt2_compliant_tag reduction view_copy""".split()
        )
    },
)
Tag.__module__ = PACKAGE
Tag.__str__ = lambda tag: f"Tag.{tag.name}"  # type: ignore[assignment]
