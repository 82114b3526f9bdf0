"""torch.sparse: sparse tensors are not there; the room says what to do."""

from flambeau.core import absent as _absent

globals().update(
    _absent.all_of(
        "sparse.",
        "flambeau has no sparse tensors; use dense ones, with index_add or scatter_add to build them",
        "addmm as_sparse_gradcheck log_softmax mm softmax spdiags sum to_sparse_semi_structured",
        "SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS "
        "check_sparse_tensor_invariants",
    )
)
