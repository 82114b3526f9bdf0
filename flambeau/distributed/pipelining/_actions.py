"""What a rank does in a step of a pipeline, as a list of actions, and their texts. Used by `_orders` and `schedules`.

`2F0` is the forward of stage 2 with microbatch 0; B a backward, I its inputs' part and W its weights' part (Qi et al. 2023).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from flambeau.base.naming import called

__all__ = ["COMPUTATIONS", "Action", "ComputationType", "Order", "format_order", "merge_backwards"]

_ROOM = "distributed.pipelining.schedules"


@called(_ROOM, "_ComputationType")
class ComputationType(str, Enum):  # noqa: UP042 - StrEnum prints otherwise
    """Kinds of actions. What a message or a fully sharded module needs is done where it is needed, and has no actions here."""

    FORWARD = "F"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    UNSHARD = "UNSHARD"
    RESHARD = "RESHARD"
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"
    FULL_BACKWARD = "B"
    OVERLAP_F_B = "OVERLAP_F_B"
    REDUCE_GRAD = "REDUCE_GRAD"

    __str__ = Enum.__str__

    @staticmethod
    def from_str(action: str) -> ComputationType:
        """The kind of a text. RuntimeError for another."""
        try:
            return ComputationType(action)
        except ValueError:
            raise RuntimeError(f"Invalid computation type {action}") from None


F, B = ComputationType.FORWARD, ComputationType.FULL_BACKWARD
I, W = ComputationType.BACKWARD_INPUT, ComputationType.BACKWARD_WEIGHT
COMPUTATIONS = frozenset({F, B, I, W, ComputationType.OVERLAP_F_B})
_TEXT = re.compile(r"(\d+)(F|I|B|W|UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)(\d*)")
_PAIR = re.compile(r"\((.*);(.*)\)OVERLAP_F_B")


@called(_ROOM, "_Action")
class Action(NamedTuple):
    """A stage does something with a microbatch; OVERLAP_F_B is two actions, which are done one after the other."""

    stage_index: int
    computation_type: ComputationType
    microbatch_index: int | None = None
    sub_actions: tuple[Any, ...] | None = None

    def __repr__(self) -> str:
        if self.sub_actions is not None:
            return f"({';'.join(map(str, self.sub_actions))}){self.computation_type.value}"
        number = "" if self.microbatch_index is None else self.microbatch_index
        return f"{self.stage_index}{self.computation_type.value}{number}"

    @property
    def is_compute_op(self) -> bool:
        """Whether a stage computes."""
        return self.computation_type in COMPUTATIONS

    @staticmethod
    def from_str(action_string: str) -> Action | None:
        """The action of a text, None of blanks. RuntimeError for a text that is none."""
        text = action_string.strip()
        if not text:
            return None
        if pair := _PAIR.fullmatch(text):
            parts = tuple(part for each in pair.groups() if (part := Action.from_str(each)) is not None)
            if parts:
                return Action(-1, ComputationType.OVERLAP_F_B, None, parts)
        if found := _TEXT.fullmatch(text):
            stage, kind, microbatch = found.groups()
            return Action(int(stage), ComputationType.from_str(kind), int(microbatch) if microbatch else None)
        raise RuntimeError(
            f"Invalid action string: {action_string}, should be formatted as [stage][action type][(microbatch)] e.g. 2F0"
        )


Order = Mapping[int, list[Action | None]]


def merge_backwards(actions: Iterable[Action | None]) -> list[Action]:
    """Actions without pauses, in which an I with its W right behind it is a B."""
    result: list[Action] = []
    for action in actions:
        if action is None:
            continue
        before = result[-1] if result else None
        if action.computation_type is W and before == action._replace(computation_type=I):
            result[-1] = action._replace(computation_type=B)
        else:
            result.append(action)
    return result


def format_order(pipeline_order: Order, error_step_number: int | None = None) -> str:
    """The ranks' actions side by side, a line for each step."""
    width = max((len(str(each)) for actions in pipeline_order.values() for each in actions if each), default=0)
    width = max(width, len(f"Rank {max(pipeline_order)}"))
    steps = max(len(actions) for actions in pipeline_order.values())
    digits = len(str(steps - 1)) if steps else 1
    lines = [" " * (digits + 7) + " ".join(f"Rank {rank}".ljust(width) for rank in pipeline_order)]
    for step in range(steps):
        shown = [str(actions[step] or "") if step < len(actions) else "" for actions in pipeline_order.values()]
        mark = " <-- ERROR HERE" if step == error_step_number else ""
        lines.append(f"Step {step:0{digits}}: " + " ".join(each.ljust(width) for each in shown) + mark)
    return "\n".join(lines) + "\n"
