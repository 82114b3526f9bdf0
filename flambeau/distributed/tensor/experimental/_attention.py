"""torch.distributed.tensor.experimental._attention: attention over a sequence that several devices share."""

from flambeau.distributed.without_group import absent as _absent

globals().update(
    _absent("tensor.experimental._attention", "context_parallel context_parallel_unshard set_rotate_method")
)
