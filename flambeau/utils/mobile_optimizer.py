"""torch.utils.mobile_optimizer: not there; says what to do instead."""

from flambeau.core.operator import unsupported as _unsupported

globals().update(
    _unsupported.all_of(
        "utils.mobile_optimizer.",
        "flambeau doesn't run on phones; deploy it where Python runs",
        "optimize_for_mobile generate_mobile_module_lints",
        "LintCode MobileOptimizerType",
    )
)
