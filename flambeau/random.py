"""torch.random: seeds and states of the generator that operators draw from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from flambeau.base.device import device as Device
from flambeau.base.naming import public_module
from flambeau.base.rng import Generator as _Stream
from flambeau.base.rng import default_generator as _stream
from flambeau.core.modes.modes import local
from flambeau.core.modes.observing import settle
from flambeau.core.tensor.create import array_of, from_array
from flambeau.core.tensor.tensor import Tensor


class Generator(_Stream):
    """A stream of random numbers of its own; `Generator().manual_seed(0)` repeats what the default one gives after that seed."""

    __module__ = public_module("_C")

    def __init__(self, device: Any = "cpu"):
        super().__init__()
        self.device = Device(device)
        if self.device.type != "cpu":
            raise RuntimeError(f"Device type {self.device.type} is not supported for torch.Generator() api.")

    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream from a seed; gives the generator."""
        settle()
        super().manual_seed(seed)
        return self

    def seed(self) -> int:
        """Restart the stream from a random seed, which is returned."""
        settle()
        return super().seed()

    def get_state(self) -> Tensor:
        """The state as a tensor of bytes, in PyTorch's format."""
        settle()
        return from_array(super().get_state())

    def set_state(self, state: Any) -> Generator:
        """Go on from a state of `get_state`."""
        settle()
        for mode in local.dispatch_modes:
            if mode._reseeded is not None:
                mode._reseeded()
        super().set_state(np.ascontiguousarray(array_of(state) if isinstance(state, Tensor) else state))
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # PyTorch's generators of accelerators have an offset besides
        return type(self), (self.device,), (self.initial_seed(), None, self.get_state())

    def __setstate__(self, state: tuple[int, None, Tensor]) -> None:
        self.set_state(state[2])


default_generator = _stream
_stream.__class__, _stream.device = Generator, Device("cpu")  # the base made it, which knows no tensors


def manual_seed(seed: Any) -> Any:
    """Start the default generator at `seed`. Returns the generator."""
    return _stream.manual_seed(int(seed))


def seed() -> int:
    """Start the default generator at a random seed, and return that."""
    return _stream.seed()


def initial_seed() -> int:
    """The seed the default generator was started with."""
    return _stream.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator, a tensor of bytes."""
    return _stream.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Put the default generator into a state of `get_rng_state`."""
    if not isinstance(new_state, Tensor) or new_state.dtype.name != "uint8":
        raise TypeError("RNG state must be a torch.ByteTensor")
    _stream.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **_: Any) -> Iterator[None]:
    """Run a block whose draws leave the default generator's state as it was."""
    if not enabled:
        yield
        return
    state = _stream.get_state()
    try:
        yield
    finally:
        _stream.set_state(state)


def thread_safe_generator() -> None:
    """The generator of a data loader's worker thread: None outside of one."""
