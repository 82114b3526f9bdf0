"""torch.utils.mkldnn: modules in oneDNN's layouts, which flambeau has none of; the names say what to do instead."""

from flambeau.core.operator import unsupported as _unsupported

globals().update(
    _unsupported.all_of(
        "utils.mkldnn.",
        "flambeau compiles the module's own layers; use them as they are",
        "to_mkldnn",
        "MkldnnBatchNorm MkldnnConv1d MkldnnConv2d MkldnnConv3d MkldnnLinear MkldnnPrelu",
    )
)
