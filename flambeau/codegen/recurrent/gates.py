"""What cells do to the products of a time step, as functions of some rows and units: new states, or gradients before products.

They are compiled by themselves; sequence.py calls them. Stands on cells.py and strip_mine.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.base.dtype import float32, float64
from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Kernel, vector
from flambeau.codegen.llvm import EXPLICIT
from flambeau.codegen.recurrent.cells import CELLS
from flambeau.codegen.scalar import Lowering
from flambeau.codegen.strip_mine import Strip, strips
from flambeau.ir.scalar import Expr, leaf

#: The arguments of a function of gates: how many rows and units, units of the layer, and the addresses of the first row's.
#: `tile`: the product, `tile_row` elements to a row and `tile_part` to the next gate's; `given`: the projected input, or the
#: gradient of the outputs, with `given_row`. Rows of states have `size` elements, those of kept values and gates as many parts.
WORDS = ("rows", "units", "size", "tile_row", "tile_part", "given_row")
FORWARD = ("tile", "given", "bias", "hidden", "cell", "new_hidden", "new_cell", "kept")
BACKWARD = ("tile", "given", "kept", "hidden", "new_hidden", "cell", "new_cell", "grad_cell", "direct", "gates", "product")


class _Gates:
    """Emits such a function: of each operand the parts that its expressions ask for are loaded, the results stored."""

    def __init__(self, name: str, kind: Kind, operands: Sequence[str]) -> None:
        self.kind, self.dtype = kind, float64 if kind.compute == "double" else float32
        self.f = Kernel(name, [*((word, "i64") for word in WORDS), *((operand, "ptr") for operand in operands)])
        self._places: dict[Expr, tuple[str, int]] = {}

    def leaves(self, operand: str, parts: int) -> list[Expr]:
        """An operand's parts as leaves of expressions."""
        made = [leaf(f"{operand}{part}", self.dtype) for part in range(parts)]
        self._places.update({x: (operand, part) for part, x in enumerate(made)})
        return made

    def write(self, parts: dict[str, int], *passes: Sequence[tuple[str, int, Expr]]) -> str:
        """The text: passes over the rows, each of which stores (operand, part, expression); parts: how many an operand's rows
        have, if not one. What a pass stores is loaded by later ones: so a chain of functions is cut into pieces that a processor
        does several of at the same time.
        """
        stored: dict[Expr, tuple[str, int]] = {}
        for results in passes:
            known = {**self._places, **stored}
            inputs = _first_known([e for _, _, e in results], known)
            with self.f.loop(0, self.f["rows"]) as row:
                self._pass(row, parts, {x: known[x] for x in inputs}, results)
            stored |= {e: (operand, part) for operand, part, e in results}
        return module(self.f)

    def _pass(
        self, row: Value, parts: dict[str, int], inputs: dict[Expr, tuple[str, int]], results: Sequence[tuple[str, int, Expr]]
    ) -> None:
        f, kind, size = self.f, self.kind, self.f["size"]
        row_of = {"tile": f["tile_row"], "given": f["given_row"], "bias": f.i64(0)}
        part_of = {"tile": f["tile_part"]}
        operands = dict.fromkeys(operand for operand, *_ in (*inputs.values(), *results))
        first = {x: f.at(kind.storage, f[x], row * row_of.get(x, size * parts.get(x, 1))) for x in operands}

        def several(strip: Strip) -> None:
            def place(operand: str, part: int) -> Value:
                return f.at(kind.storage, first[operand], part_of.get(operand, size) * part + strip.x)

            low = Lowering(f.line, f.fresh, kind.lanes)
            known = {x: strip.load(kind.storage, place(*at)).name for x, at in inputs.items()}
            made = [Value(f, vector(kind.storage, kind.lanes), str(low.value(e, known))) for _, _, e in results]
            f.declarations |= low.declarations
            for (operand, part, _), value in zip(results, made, strict=True):
                strip.store(value, kind.storage, place(operand, part))

        strips(f, f["units"], kind.lanes, several)


def _first_known(roots: Sequence[Expr], known: dict[Expr, tuple[str, int]]) -> dict[Expr, None]:
    """What is found in memory on the ways down from expressions."""
    found: dict[Expr, None] = {}
    ways = list(roots)
    while ways:
        x = ways.pop()
        if x in known:
            found[x] = None
        else:
            ways += x.args
    return found


@compiled(EXPLICIT, "forward")
def forward_gates(kind: Kind, mode: str, biased: bool, keep: bool) -> str:
    """Address of forward(*WORDS, *FORWARD). biased: the bias is added to the product; keep: kept values are written."""
    cell, made = CELLS[mode], _Gates("forward", kind, FORWARD)
    product, projected = made.leaves("tile", cell.gates), made.leaves("given", cell.gates)
    if biased:
        product = [x + b for x, b in zip(product, made.leaves("bias", cell.gates), strict=True)]
    (hidden,), (state,) = made.leaves("hidden", 1), made.leaves("cell", 1)
    kept, new, new_cell = cell.forward(product, projected, hidden, state)
    place = "kept" if keep else "tile"
    early = [(place, part, kept[part]) for part in cell.early]
    late = [(place, part, x) for part, x in enumerate(kept) if keep and part not in cell.early]
    if new_cell is not None:
        early.append(("new_cell", 0, new_cell))
    if not keep:
        wanted = _first_known([new], {x: (operand, part) for operand, part, x in early})
        early = [result for result in early if result[2] in wanted]
    return made.write({"kept": cell.kept}, *([early] if early else []), [*late, ("new_hidden", 0, new)])


@compiled(EXPLICIT, "backward")
def backward_gates(kind: Kind, mode: str) -> str:
    """Address of backward(*WORDS, *BACKWARD); gradients of the cell and past the product take their predecessors' places."""
    cell, made = CELLS[mode], _Gates("backward", kind, BACKWARD)
    (g,), (through,), (past,) = (made.leaves(x, 1) for x in ("given", "tile", "direct"))
    states = [made.leaves(x, 1)[0] for x in ("hidden", "new_hidden", "cell", "new_cell", "grad_cell")]
    of_hidden = g + (through if cell.adds else through + past)
    gates, product, of_cell, direct = cell.backward(of_hidden, made.leaves("kept", cell.kept), *states)
    results = [("gates", part, x) for part, x in enumerate(gates)]
    if product is not None:
        results += [("product", part, x) for part, x in enumerate(product)]
    if of_cell is not None:
        results.append(("grad_cell", 0, of_cell))
    if direct is not None:
        results.append(("direct", 0, direct))
    return made.write({"kept": cell.kept, "gates": cell.gates, "product": cell.gates}, results)
