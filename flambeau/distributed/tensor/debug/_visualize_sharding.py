"""visualize_sharding: a table of which ranks hold which part of a DTensor."""

from __future__ import annotations

import itertools
from typing import Any

from flambeau.distributed.tensor._dtensor_spec import local_shape_and_offset

__all__ = ["visualize_sharding"]


def visualize_sharding(dtensor: Any, header: str = "", use_rich: bool = False) -> None:
    """Prints, on the mesh's first rank, which ranks hold which rows and columns of a DTensor of one or two dimensions.

    Prints nothing for an empty tensor. ValueError for more dimensions, NotImplementedError for use_rich, which colours cells.
    """
    if use_rich:
        raise NotImplementedError("visualize_sharding(use_rich=True) isn't supported; leave it out for a plain table")
    if dtensor.numel() == 0:
        return
    if dtensor.ndim > 2:
        raise ValueError("visualize_sharding only supports 1D or 2D DTensor")
    mesh = dtensor.device_mesh
    if mesh.get_coordinate() is None or any(mesh.get_coordinate()):
        return
    cells: dict[tuple[str, str], list[str]] = {}
    for place in itertools.product(*map(range, mesh.shape)):
        shape, offset = local_shape_and_offset(dtensor.shape, mesh, dtensor.placements, place)
        if 0 in shape:
            continue
        ranges = [f"{start}-{start + size - 1}" for start, size in zip(offset, shape, strict=True)]
        row, column = (["", *ranges] if dtensor.ndim == 1 else ranges) if ranges else ("", "")
        row = "Row " + row if dtensor.ndim == 2 else row
        cells.setdefault((row, "Col " + column), []).append(f"{mesh.device_type}:{mesh.mesh[place].item()}")
    rows, columns = (list(dict.fromkeys(key[side] for key in cells)) for side in (0, 1))
    table = [[row, *(", ".join(cells.get((row, column), [])) for column in columns)] for row in rows]
    print(header)
    print(_grid([["", *columns], *table]))


def _grid(rows: list[list[str]]) -> str:
    """A table with lines between its cells, the first row its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(stroke: str) -> str:
        return "+" + "+".join(stroke * (width + 2) for width in widths) + "+"

    lines = [line("-")]
    for place, row in enumerate(rows):
        lines.append("|" + "|".join(f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True)) + "|")
        lines.append(line("-" if place else "="))
    return "\n".join(lines)
