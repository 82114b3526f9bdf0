"""torch.distributed.device_mesh: processes in an n-dimensional array, with a process group along each of its dimensions.

A mesh is a list of ranks and an axis per dimension. An axis is a tuple of (size, stride) pairs over that list, outer pairs first:
one pair for a dimension as it was made, several for dimensions that were flattened into one. So a slice of a mesh takes some of
the axes, and a flattened one joins their pairs. Stands on `distributed_c10d`; used by `tensor` and `fsdp`.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import flambeau as torch
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.registry import named_group

__all__ = ["DeviceMesh", "init_device_mesh"]

Axis = tuple[tuple[int, int], ...]


class _MeshStack(threading.local):
    """The meshes whose `with` blocks this thread is in."""

    def __init__(self) -> None:
        self.mesh_stack: list[DeviceMesh] = []

    def get_current_mesh(self) -> DeviceMesh:
        """The innermost mesh; RuntimeError outside of every block."""
        if not self.mesh_stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.mesh_stack[-1]


_mesh_resources = _MeshStack()


class DeviceMesh:
    """Ranks of the default process group in an array, and a process group along each dimension.

    Args:
        device_type: what the processes compute on: "cpu".
        mesh: the ranks: a tensor of integers or nested lists, one dimension per dimension of the mesh.
        mesh_dim_names: a name per dimension, by which it can be sliced: `mesh["dp"]`.

    Every process of the default group has to make the mesh, also those that aren't in it. Without a default group one is made
    from the environment. RuntimeError where the mesh has more ranks than the default group.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        backend_override: tuple[tuple[str | None, Any], ...] | None = None,
        _init_backend: bool = True,
        _rank: int | None = None,
    ) -> None:
        if mesh is None:
            raise TypeError("The mesh argument is required except for PRIVATE USAGE ONLY!")
        ranks = mesh.detach().to(dtype=torch.int) if isinstance(mesh, torch.Tensor) else torch.tensor(mesh, dtype=torch.int)
        if backend_override is not None and len(backend_override) != ranks.ndim:
            raise ValueError(
                "backend_override should have the same length as the number of mesh dimensions, "
                f"but got {len(backend_override)} and {ranks.ndim}."
            )
        self._place(device_type, _contiguous_axes(ranks.shape), tuple(ranks.flatten().tolist()), mesh_dim_names, None)
        if len(set(self._rank_map)) != len(self._rank_map):
            raise AssertionError(f"every rank may stand in a mesh once, but it is {ranks.tolist()}")
        if _init_backend:
            self._init_groups(backend_override)
        self._find_coordinate(_rank)

    def _place(
        self,
        device_type: str,
        axes: tuple[Axis, ...],
        rank_map: tuple[int, ...],
        mesh_dim_names: Sequence[str] | None,
        root: DeviceMesh | None,
    ) -> None:
        self._device_type = device_type
        self._axes = axes
        self._rank_map = rank_map
        self._mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        self._root_mesh = root
        self._flatten_mapping: dict[str, DeviceMesh] = {}
        self._groups: list[Any] | None = None
        self._group_names: list[str] | None = None

    def _find_coordinate(self, rank: int | None = None) -> None:
        self._rank = (c10d.get_rank() if c10d.is_initialized() else 0) if rank is None else rank
        own = self._ranks()
        shape = self.shape
        self._coordinate_on_dim: tuple[int, ...] | None = None
        if self._rank in own:
            place = own.index(self._rank)
            steps = [math.prod(shape[index + 1 :]) for index in range(len(shape))]
            self._coordinate_on_dim = tuple(place // step % size for step, size in zip(steps, shape, strict=True))

    def _derived(self, axes: tuple[Axis, ...], names: Sequence[str]) -> DeviceMesh:
        """A mesh over the same root with other axes, without groups as yet."""
        root = self._get_root_mesh()
        mesh = DeviceMesh.__new__(DeviceMesh)
        mesh._place(root._device_type, axes, root._rank_map, names, root)
        mesh._find_coordinate(root._rank)
        return mesh

    # Groups

    def _init_groups(self, overrides: Sequence[tuple[str | None, Any]] | None) -> None:
        if not c10d.is_initialized():
            c10d.init_process_group()
        world = c10d.get_world_size()
        if self.size() > world:
            raise RuntimeError(f"Mesh should not be bigger than default world size {world}, but found {self.size()} ranks!")
        names = self._mesh_dim_names or tuple(f"dim_{index}" for index in range(self.ndim))
        chosen = overrides or ((None, None),) * self.ndim
        self._groups = [
            self._init_group(axis, name, override) for axis, name, override in zip(self._axes, names, chosen, strict=True)
        ]

    def _init_group(self, axis: Axis, name: str, override: tuple[str | None, Any]) -> Any:
        """The group of this process along an axis; every process makes all of them, in the same order."""
        backend, options = override
        lists = _rank_lists(self._rank_map, (axis,))
        if override == (None, None) and len(lists) == 1 and lists[0] == list(range(c10d.get_world_size())):
            return c10d._get_default_group()
        own = None
        for ranks in lists:
            group = c10d.new_group(ranks=ranks, backend=backend, pg_options=options, group_desc=f"mesh_{name}")
            if c10d.get_rank() in ranks:
                own = group
        return own

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The process group of this process along a dimension, by its index or name; the only one of a mesh of one dimension."""
        if self._groups is None:
            self._groups = self._named_groups()
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions",
                    "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                    "If you want to get the list of all the ProcessGroups in the DeviceMesh,"
                    "please use `get_all_groups()` instead.",
                )
            return self._groups[0]
        if isinstance(mesh_dim, str):
            flattened = self._get_root_mesh()._flatten_mapping.get(mesh_dim)
            if flattened is not None:
                return flattened.get_group()
            mesh_dim = self._get_mesh_dim_by_name(mesh_dim)
        return self._groups[mesh_dim]

    def _named_groups(self) -> list[Any]:
        """The groups that a mesh had when it was saved, if this process has them. RuntimeError if it has not."""
        found = []
        for axis, name in zip(self._axes, self._group_names or (), strict=False):
            with suppress(ValueError):
                group = named_group(name)
                if c10d.get_process_group_ranks(group) in _rank_lists(self._rank_map, (axis,)):
                    found.append(group)
        if len(found) != self.ndim:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        return found

    def get_all_groups(self) -> list[Any]:
        """The process groups of this process, one per dimension."""
        return [self.get_group(index) for index in range(self.ndim)]

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: tuple[str, ...] | None = None
    ) -> DeviceMesh:
        """A mesh over groups that exist: one group for a mesh of one dimension, else a list of them with `mesh` and its names."""
        if not isinstance(group, (list, tuple)):
            ranks = c10d.get_process_group_ranks(group)
            if mesh is not None and (mesh.tolist() if isinstance(mesh, torch.Tensor) else mesh) != ranks:
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {ranks}")
            result = DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _init_backend=False)
            result._groups = [group]
            return result
        groups = list(group)
        if not groups:
            raise ValueError("Expects at least one ProcessGroup to be passed")
        if mesh is None:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        if mesh_dim_names is None:
            raise ValueError("Must pass mesh_dim_names if passing multiple ProcessGroups")
        result = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if result.ndim != len(groups):
            raise ValueError(
                "Expects mesh with ndim equal to number of ProcessGroups but got "
                f"mesh {result.mesh.tolist()} and {len(groups)} ProcessGroups"
            )
        result._groups = groups
        return result

    # Other meshes over the same ranks

    def _get_root_mesh(self) -> DeviceMesh:
        return self._root_mesh if self._root_mesh is not None else self

    def _get_mesh_dim_by_name(self, mesh_dim_name: str) -> int:
        if not self._mesh_dim_names:
            raise KeyError("No `mesh_dim_names` found.")
        if mesh_dim_name not in self._mesh_dim_names:
            raise KeyError(
                f"Mesh dimension '{mesh_dim_name}' does not exist.",
                f"Available mesh dimensions are: mesh_dim_names={self._mesh_dim_names}",
            )
        return self._mesh_dim_names.index(mesh_dim_name)

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of the dimensions with these names that this process is in."""
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self._mesh_dim_names:
            return self
        flattened = self._flatten_mapping if self is self._get_root_mesh() else {}
        valid = [*self._mesh_dim_names, *flattened]
        if not all(name in valid for name in names):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {valid}.")
        parts: list[tuple[Axis, Any]] = []
        for name in names:
            if name in self._mesh_dim_names:
                index = self._mesh_dim_names.index(name)
                parts.append((self._axes[index], None if self._groups is None else self._groups[index]))
            else:
                warnings.warn(
                    "Slicing a flattened dim from root mesh will be deprecated in PT 2.11. "
                    "Users need to bookkeep the flattened mesh directly. ",
                    stacklevel=2,
                )
                parts.append((flattened[name]._axes[0], flattened[name].get_group()))
        pairs = [pair for axis, _ in parts for pair in axis]
        if sorted(pairs, key=lambda pair: -pair[1]) != pairs:
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order.")
        if len(set(_offsets(pairs))) != math.prod(size for size, _ in pairs) or _overlap(pairs):
            raise RuntimeError(f"Slicing overlapping dim_names {names} is not allowed.")
        mesh = self._derived(tuple(axis for axis, _ in parts), names)
        if self._groups is not None:
            mesh._groups = [group for _, group in parts]
        return mesh

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> DeviceMesh:
        """A mesh of one dimension with this mesh's ranks, under a name of its own (by default the names joined by "_")."""
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        name = mesh_dim_name or "_".join(self._mesh_dim_names)
        if self.ndim == 1 and name in self._mesh_dim_names:
            return self
        root = self._get_root_mesh()
        if name in (root._mesh_dim_names or ()):
            raise ValueError(
                f"{name} already exists for submesh of the {root}. ",
                f"The mesh_dim_names of submesh and flattened mesh are {root._mesh_dim_names}. "
                "Please specify another valid mesh_dim_name.",
            )
        axis = _collapsed([pair for axis in self._axes for pair in axis])
        known = root._flatten_mapping.get(name)
        if known is None:
            known = self._derived((axis,), (name,))
            known._init_groups(_overrides({0: backend_override}, 1) if backend_override is not None else None)
            root._flatten_mapping[name] = known
        elif known._axes != (axis,):
            raise ValueError(
                f"Flatten mesh with mesh_dim_name {name} has been created before, Please specify another valid mesh_dim_name."
            )
        return known

    def _unflatten(
        self, dim: int | str, mesh_sizes: tuple[int, ...], mesh_dim_names: tuple[str, ...], backend_override: Any = None
    ) -> DeviceMesh:
        """This mesh with one dimension taken apart into several, of these sizes and names."""
        index = self._get_mesh_dim_by_name(dim) if isinstance(dim, str) else dim
        if index < 0 or index >= self.ndim:
            raise ValueError(f"dim {dim} specified in `_unflatten` is out of range {self.ndim}")
        if math.prod(mesh_sizes) != self.size(index):
            raise ValueError(
                f"The product of mesh_sizes={mesh_sizes} is {math.prod(mesh_sizes)}, "
                f"but the original dimension at dim={index} has size {self.size(index)}. "
                "These must be equal for unflatten to work correctly."
            )
        if len(self._axes[index]) != 1:
            raise NotImplementedError(
                "a flattened dimension that isn't one stride can't be unflattened; slice the mesh it came from"
            )
        stride = self._axes[index][0][1]
        inner = [((size, stride * math.prod(mesh_sizes[place + 1 :])),) for place, size in enumerate(mesh_sizes)]
        names = list(self._mesh_dim_names or [f"dim_{place}" for place in range(self.ndim)])
        names[index : index + 1] = mesh_dim_names
        mesh = self._derived((*self._axes[:index], *inner, *self._axes[index + 1 :]), names)
        if self._groups is not None:
            overrides = _overrides(backend_override, len(mesh_sizes), mesh_dim_names) if backend_override else None
            made = [
                mesh._init_group(axis, name, override)
                for axis, name, override in zip(inner, mesh_dim_names, overrides or ((None, None),) * len(inner), strict=True)
            ]
            mesh._groups = [*self._groups[:index], *made, *self._groups[index + 1 :]]
        return mesh

    # What it is

    def _ranks(self) -> list[int]:
        """The ranks of the mesh that this process is in, in order of its dimensions; of the first one if it is in none."""
        lists = _rank_lists(self._rank_map, self._axes)
        return next((ranks for ranks in lists if self._rank in ranks), lists[0])

    @property
    def mesh(self) -> torch.Tensor:
        """The ranks, a tensor of int32 with the mesh's shape."""
        return torch.tensor(self._ranks(), dtype=torch.int).reshape(self.shape)

    @property
    def device_type(self) -> str:
        """What the processes compute on."""
        return self._device_type

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The dimensions' names, or None."""
        return self._mesh_dim_names

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions' sizes."""
        return tuple(math.prod(size for size, _ in axis) for axis in self._axes)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of ranks, in the mesh or along a dimension."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """This process's rank in the default group."""
        return c10d.get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's rank in the group along a dimension."""
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions",
                    "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                )
            mesh_dim = 0
        return c10d.get_rank(self.get_group(mesh_dim))

    def get_coordinate(self) -> tuple[int, ...] | None:
        """This process's place in the mesh, or None where it is in none."""
        return self._coordinate_on_dim

    def _is_current_rank_part_of_mesh(self) -> bool:
        return self._coordinate_on_dim is not None

    def __enter__(self) -> DeviceMesh:
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _mesh_resources.mesh_stack.pop()

    def __repr__(self) -> str:
        names = self._mesh_dim_names
        shape = f"({', '.join(f'{n}={s}' for n, s in zip(names, self.shape, strict=True))})" if names else f"{self.shape}"
        # A dimension of one rank steps over nothing: its stride is written ().
        steps = [tuple(step for size, step in axis if size > 1) for axis in self._axes]
        stride = tuple(each[0] if len(each) == 1 else each for each in steps)
        ranks = f", Mesh: {self.mesh.tolist()}" if os.environ.get("TORCH_DISTRIBUTED_DEBUG", "") == "DETAIL" else ""
        return f"DeviceMesh({shape}, '{self.device_type}', stride={stride}{ranks})"

    def _key(self) -> tuple[Any, ...]:
        return self._rank_map, self._axes, self._device_type, self._mesh_dim_names

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __getstate__(self) -> dict[str, Any]:
        # Process groups belong to this process, but another that has the mesh's may call them by the same names.
        names = self._group_names if self._groups is None else [group.group_name for group in self._groups]
        return {**self.__dict__, "_groups": None, "_group_names": names, "_flatten_mapping": {}}


def _contiguous_axes(shape: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(((size, math.prod(shape[index + 1 :])),) for index, size in enumerate(shape))


def _offsets(pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Where the elements of axes lie in the list of ranks, the last pair fastest."""
    return [sum(place) for place in itertools.product(*(range(0, size * stride, stride) for size, stride in pairs))]


def _overlap(pairs: Sequence[tuple[int, int]]) -> bool:
    """Whether two pairs step over the same ranks, by the strides at which they begin and end."""
    ordered = sorted((stride, size) for size, stride in pairs if size > 1)
    return any(stride * size > after for (stride, size), (after, _) in itertools.pairwise(ordered))


def _collapsed(pairs: list[tuple[int, int]]) -> Axis:
    """The same elements in the same order by as few pairs as there can be."""
    result: list[tuple[int, int]] = []
    for size, stride in pairs:
        if result and result[-1][1] == size * stride:
            result[-1] = (result[-1][0] * size, stride)
        else:
            result.append((size, stride))
    return tuple(result)


def _rank_lists(rank_map: tuple[int, ...], axes: Sequence[Axis]) -> list[list[int]]:
    """The ranks of every mesh with these axes: one list for each place of the dimensions that aren't among them."""
    offsets = _offsets([pair for axis in axes for pair in axis])
    seen: set[int] = set()
    lists = []
    for base in range(len(rank_map)):
        if base not in seen:
            places = [base + offset for offset in offsets]
            seen.update(places)
            lists.append([rank_map[place] for place in places])
    return lists


def _overrides(chosen: dict[int | str, Any], ndim: int, names: Sequence[str] | None = None) -> list[tuple[str | None, Any]]:
    """Backend and options of each dimension, from a table by index or name."""
    left = dict(chosen)

    def each() -> Iterator[tuple[str | None, Any]]:
        for index in range(ndim):
            name = names[index] if names else None
            if name in left and index in left:
                raise RuntimeError(f"Found redundant dim index {index} and name {name} in backend_override")
            value = left.pop(name, None) if name in left else left.pop(index, None)
            yield value if isinstance(value, tuple) else (value, None) if isinstance(value, str) else (None, value)

    result = list(each())
    if left:
        raise RuntimeError(
            f"Found invalid keys in backend_override: got {list(left)}, "
            f"expected integers in range [0, {ndim}) or one of {tuple(names or ())}"
        )
    return result


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: dict[int | str, Any] | None = None,
) -> DeviceMesh:
    """A mesh of the first ranks in order: `init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))`.

    Every process has to call it with the same shape. Without a default group one is made from the environment. RuntimeError where
    names repeat or are not as many as the dimensions, and where the device has an index.
    """
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}"
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}."
            )
    overrides = None
    if backend_override is not None:
        overrides = tuple(_overrides(backend_override, len(mesh_shape), mesh_dim_names))
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    ranks = torch.arange(math.prod(mesh_shape), dtype=torch.int, device="cpu").reshape(tuple(mesh_shape))
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=overrides)
