"""Tables as text: columns under headers that are underlined, as the library tabulate lays them out.

Used by Graph.print_tabular.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def simple_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """The table with left-aligned columns; cells of several lines take several."""
    cells = [[str(cell).splitlines() or [""] for cell in row] for row in rows]
    widths = [max([len(title) + 2, *[len(line) for row in cells for line in row[i]]]) for i, title in enumerate(headers)]

    def line(parts: Sequence[str]) -> str:
        return "  ".join(part.ljust(width) for part, width in zip(parts, widths)).rstrip()

    text = [line(headers), "  ".join("-" * width for width in widths)]
    for row in cells:
        for i in range(max(len(cell) for cell in row)):
            text.append(line([cell[i] if i < len(cell) else "" for cell in row]))
    return "\n".join(text)
