"""What the results of operators were like that have no fake (`OpProfile`), and fakes made of that.

torch.export.draft_export fills profiles in; `unsafe_generate_fake_kernels` has operators answer fake tensors by them. Stands on
fakes and record; `_library.fake_profile` is PyTorch's name of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.fakes import get_ctx, without_values
from flambeau.dispatcher.record import record_of
from flambeau.ops.creation.factories import empty

__all__ = ["MissingOpProfile", "OpProfile", "TensorMetadata", "unsafe_generate_fake_kernels"]


class MissingOpProfile(RuntimeError):
    """An operator was never seen with arguments like these."""


@dataclass(frozen=True)
class TensorMetadata:
    """What a tensor is like, but for its sizes."""

    rank: int
    dtype: Any
    device: Any
    layout: Any

    @staticmethod
    def maybe_from_tensor(t: Any) -> TensorMetadata | None:
        """Of a tensor; None for anything else."""
        return TensorMetadata(t.dim(), t.dtype, t.device, t.layout) if isinstance(t, Tensor) else None


@dataclass(frozen=True)
class OpProfile:
    """What the arguments and the results of a call were like; None for those that are no tensors."""

    args_profile: tuple[TensorMetadata | None, ...]
    out_profile: TensorMetadata | tuple[TensorMetadata | None, ...] | None

    @staticmethod
    def of_call(args: Any, made: Any) -> OpProfile:
        """Of a call's arguments and results."""
        of = TensorMetadata.maybe_from_tensor
        return OpProfile(tuple(map(of, args)), tuple(map(of, made)) if isinstance(made, (list, tuple)) else of(made))


@contextlib.contextmanager
def unsafe_generate_fake_kernels(op_profiles: Mapping[str, set[OpProfile]]) -> Iterator[None]:
    """Context: operators, by names such as "mylib.foo.default", have fakes by their profiles in the place of their own: results
    of the ranks, dtypes and devices of a call that was seen with arguments like these, in sizes that only a run tells.

    The fakes raise MissingOpProfile for arguments that none was seen with. Unsafe, as an operator may have others, too.
    """
    made = []
    for name, profiles in op_profiles.items():
        namespace, short, overload = name.split(".")
        record = record_of(f"{namespace}::{short}" + ("" if overload == "default" else f".{overload}"))
        if record is None or record.schema is None:
            raise RuntimeError(f"operator {name} does not exist")
        kernel = without_values(record, _fake_by(name, profiles))
        record.set_kernel("Meta", kernel, "generated from profiles", override=True)
        made.append((record, kernel))
    try:
        yield
    finally:
        for record, kernel in reversed(made):
            record.remove_kernel("Meta", kernel)


def _fake_by(name: str, profiles: set[OpProfile]) -> Callable[..., Any]:
    outcomes: dict[tuple[TensorMetadata | None, ...], Any] = {}
    for profile in profiles:
        if outcomes.setdefault(profile.args_profile, profile.out_profile) != profile.out_profile:
            raise RuntimeError(
                f"The operator {name} was seen with arguments of one kind, and results of several: no fake can be generated"
            )

    def fake(*args: Any, **kwargs: Any) -> Any:
        key = tuple(map(TensorMetadata.maybe_from_tensor, args))
        if key not in outcomes:
            raise MissingOpProfile(f"no profiles match the given inputs: {name} was seen with {list(outcomes)}, not with {key}")
        found = outcomes[key]
        return tuple(map(_made_by, found)) if isinstance(found, tuple) else _made_by(found)

    return fake


def _made_by(found: TensorMetadata | None) -> Any:
    if found is None:
        return None
    context = get_ctx()
    assert context is not None
    sizes = [context.new_dynamic_size() for _ in range(found.rank)]
    return empty(sizes, dtype=found.dtype, device=found.device, layout=found.layout)
