"""torch.distributed.pipelining: the stages of a model on several processes, through which microbatches go.

A model is cut into modules by hand, each rank makes its `PipelineStage`, and a schedule runs the steps.
"""

import enum

from flambeau.core.operator import unsupported as _unsupported
from flambeau.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)
from flambeau.distributed.pipelining.stage import PipelineStage

globals().update(
    _unsupported.all_of(
        "distributed.pipelining.",
        "cut the model into modules by hand, and make a PipelineStage of each rank's",
        "build_stage pipe_split pipeline",
        "Pipe",
    )
)
globals().update(
    _unsupported.all_of(
        "distributed.pipelining.",
        "backward passes aren't taken apart into inputs' and weights'; use ScheduleInterleaved1F1B",
        "",
        "ScheduleDualPipeV ScheduleInterleavedZeroBubble ScheduleZBVZeroBubble",
    )
)

__all__ = [
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
    "SplitPoint",
]


class SplitPoint(enum.Enum):
    """Whether a module is divided in front of a submodule or behind it."""

    BEGINNING = 1
    END = 2
