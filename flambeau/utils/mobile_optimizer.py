"""torch.utils.mobile_optimizer: not there; says what to do instead."""

from flambeau.core import absent as _absent

globals().update(
    _absent.all_of(
        "utils.mobile_optimizer.",
        "flambeau doesn't run on phones; deploy it where Python runs",
        "optimize_for_mobile generate_mobile_module_lints",
        "LintCode MobileOptimizerType",
    )
)
