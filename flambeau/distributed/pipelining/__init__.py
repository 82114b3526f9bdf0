"""torch.distributed.pipelining: the stages of a model on several processes, through which microbatches go.

A model is cut into modules by hand, or by `pipeline` from a trace; each rank makes its `PipelineStage`, and a schedule runs the
steps.
"""

from flambeau.distributed.pipelining._pipe import Pipe, SplitPoint, pipe_split, pipeline
from flambeau.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
)
from flambeau.distributed.pipelining.schedules import _ScheduleForwardOnly as _ScheduleForwardOnly
from flambeau.distributed.pipelining.stage import PipelineStage, build_stage

__all__ = [
    "Pipe",
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "SplitPoint",
    "build_stage",
    "pipe_split",
    "pipeline",
]
