"""torch.jit._logging: statistics of compiled programs, which nobody keeps; the names say what to do instead."""

from flambeau.core.operator import unsupported as _unsupported

globals().update(
    _unsupported.all_of(
        "jit._logging.",
        "measure a program by torch.profiler",
        "add_stat_value set_logger time_point",
        "AggregationType LockingLogger NoopLogger",
    )
)
