"""torch.distributed.pipelining: the stages of a module on several processes; names to import."""

import enum

from flambeau.distributed.without_group import absent as _absent

globals().update(
    _absent(
        "pipelining",
        "build_stage pipe_split pipeline",
        "Pipe PipelineStage Schedule1F1B ScheduleDualPipeV ScheduleGPipe ScheduleInterleaved1F1B "
        "ScheduleInterleavedZeroBubble ScheduleLoopedBFS ScheduleZBVZeroBubble",
    )
)


class SplitPoint(enum.Enum):
    """Whether a module is divided in front of a submodule or behind it."""

    BEGINNING = 1
    END = 2
