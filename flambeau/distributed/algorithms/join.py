"""torch.distributed.algorithms.join: processes with unequal amounts of data.

A process whose data have ended stays in the context and takes part in the others' collectives, by hooks that each participant
(a Joinable, such as DistributedDataParallel) gives, until all have ended. Stands on collectives; DistributedDataParallel.join
makes a Join.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

import flambeau as torch
from flambeau.distributed.collectives import all_reduce
from flambeau.distributed.work import Work
from flambeau.nn.parallel import DistributedDataParallel

__all__ = ["Join", "JoinHook", "Joinable"]

_MANY = 1000  # iterations that one process is behind others before it is worth a warning


class JoinHook:
    """What a process that has ended does in place of its iterations."""

    def main_hook(self) -> None:
        """Take part in the collectives of an iteration of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """After all have ended. is_last_joiner: whether this process was among the last."""


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config() -> _JoinConfig:
        """That of a Joinable outside of every context."""
        return _JoinConfig(enable=False, throw_on_early_termination=False, is_first_joinable=False)


class Joinable(ABC):
    """What can take part in a Join. Its iterations begin with Join.notify_join_context(self)."""

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook for a context that was given these keywords."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of its collectives."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group of its collectives."""


Joinable.register(DistributedDataParallel)


class Join:
    """A context inside of which processes may make different numbers of iterations.

    throw_on_early_termination: instead of going on, all raise RuntimeError when the first has ended. Further keywords go to the
    joinables' hooks.
    """

    def __init__(
        self, joinables: Sequence[Any], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable, self._throw = list(joinables), enable, throw_on_early_termination
        self._hooks = [each.join_hook(**kwargs) for each in self._joinables]
        for index, each in enumerate(self._joinables):
            each._join_config = _JoinConfig(enable, throw_on_early_termination, index == 0)
        groups = {id(each.join_process_group): each.join_process_group for each in self._joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._group = next(iter(groups.values()))

    def __enter__(self) -> Join:
        return self

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            if self._enable and type is None:
                self._shadow()
        finally:
            for each in self._joinables:
                each._join_config = _JoinConfig.construct_disabled_join_config()

    def _shadow(self) -> None:
        """Take part in the others' iterations until all have ended."""
        last, count = True, 0
        while True:
            active = torch.zeros(1)
            all_reduce(active, group=self._group)
            if active.item() == 0:
                break
            if self._throw:
                _ended_somewhere(self._group, True)
                raise RuntimeError(f"Rank {self._group.rank()} exhausted all inputs.")
            last, count = False, count + 1
            if count == _MANY:
                warnings.warn(
                    f"Detected uneven input skew of greater than {_MANY}. This means that rank {self._group.rank()} "
                    f"has at least {_MANY} fewer inputs than other currently-active ranks.",
                    stacklevel=3,
                )
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)

    @staticmethod
    def notify_join_context(joinable: Any) -> Work | None:
        """Tell those that have ended that this process makes an iteration. The Work of the sum of those that do; None outside of
        a context, and of a joinable that isn't the first.
        """
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        group = joinable.join_process_group
        work = all_reduce(torch.ones(1), group=group, async_op=True)
        if config.throw_on_early_termination and work is not None:
            work.wait()
            if work.result()[0].item() < group.size():
                _ended_somewhere(group, False)
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return work


def _ended_somewhere(group: Any, ended: bool) -> bool:
    flag = torch.tensor([float(ended)])
    all_reduce(flag, group=group)
    return flag.item() > 0
