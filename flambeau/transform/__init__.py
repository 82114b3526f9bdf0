"""Function transforms below their public names: batched tensors (vmap), dual tensors (forward mode), gradients through
both.

Nothing here is imported before a program uses it. Stands on core and ops; flambeau.func and flambeau.autograd are its
faces.
"""

from flambeau.transform import (
    batch_elements,
    batch_images,
    batch_moves,
    batch_norms,
    batch_products,
    batch_random,
    batch_refusals,
    batch_rows,
    batch_searches,
    batch_views,
    functions,
    printing,
    tangents,
)
