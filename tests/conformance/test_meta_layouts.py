"""Every sample gives the shapes, dtypes and strides of the real run on the meta device and for fake tensors; nothing is compiled.

As a call, in place, with `out=`, for other dtypes and layouts, and the gradients. What can't be told without values is listed
with the reason. PyTorch's own outcomes on that device, of calls alone, are part of `test_conformance`.
"""

import ast
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from conformance.forms import Sample
from conformance.inputs import Inputs
from conformance.record import read

import flambeau as torch
from flambeau._subclasses.fake_tensor import FakeTensorMode
from flambeau.codegen import jit

DTYPES = ("bfloat16", "complex64")
UNKNOWN = {
    "the result is a value": "allclose equal is_nonzero item tolist numpy data_ptr const_data_ptr cpu "
    "__bool__ __int__ __float__ __index__",
    "the size is that of what is found": "nonzero argwhere where masked_select unique unique_consecutive bincount __getitem__ "
    "repeat_interleave to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr "
    "to_sparse_bsc",
    "PyTorch has it for no tensors on meta": "dequantize",
    "lengths in tensors say what is read": "ctc_loss",
    "the way depends on a value, as in PyTorch": "gaussian_nll_loss",
    "memory that processes share is real": "share_memory_",
    "PyTorch's meta function gives parts of other sizes": "torch.embedding_bag",
    "sparse tensors on meta have dense places": "to_dense sparse_mask sparse_resize_ sspaddmm",
}
REASONS = {name: reason for reason, names in UNKNOWN.items() for name in names.split()}
FAMILIES: dict[str, list[Sample]] = {}
for recorded in read():
    FAMILIES.setdefault(recorded.family, []).append(Sample(torch, recorded.line))


class Compiled(Exception):
    """Kernels were compiled where nothing is computed."""


def layouts(value: Any) -> Any:
    """What is known of a result without its values."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return [value.layout, *value.shape, value.dtype]
        return [*value.shape, value.dtype, value.stride() if value.numel() else None, value.is_conj(), value.is_neg()]
    if isinstance(value, (tuple, list)):
        return [layouts(x) for x in value]
    return type(value)


def gave(sample: Sample, form: str, device: str) -> Any:
    """The layouts that a form gives on the CPU, on meta or, "fake", for fake tensors. Compiled if kernels are compiled where
    nothing is computed.
    """
    gradient = "gradient" in form
    inputs = Inputs(torch, sample.line, form if form in DTYPES else "float32", grad=gradient, scattered="scattered" in form)
    args, named = inputs.arguments(sample.arguments)
    given = sample._called(sample.room, sample.name, args, named) if form == "out" else None
    there: dict[int, torch.Tensor] = {}
    mode = FakeTensorMode() if device == "fake" else None
    place = mode.from_tensor if mode else on_meta if device == "meta" else torch.Tensor.detach
    args, named = (moved(x, place, there) for x in (args, named))
    if not there:
        raise LookupError("a factory: nothing is on a device")
    if form == "out":
        named["out"] = moved(tuple(given) if isinstance(given, (tuple, list)) else given, place, {})
    room, name = next(((r, n) for f, r, n in sample.variants() if f == form), (sample.room, sample.name))
    loaded = jit.loaded()
    with mode or nullcontext():
        if sample.writes or form.endswith("in place"):
            args = (args[0].clone(), *args[1:])
        made = sample._called(room, name, args, named)
        if gradient:
            made = [x for x in (made if isinstance(made, (tuple, list)) else [made]) if x.requires_grad]
            operands = [x for x in there.values() if x.requires_grad]
            made = torch.autograd.grad(made, operands, [torch.ones_like(x) for x in made], allow_unused=True)
    if device != "cpu" and jit.loaded() != loaded:
        raise Compiled
    return layouts(made)


def on_meta(x: torch.Tensor) -> torch.Tensor:
    """A tensor on meta that lies as x does."""
    if x.layout is not torch.strided:
        return x.to("meta")
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")


def moved(value: Any, place: Callable[[torch.Tensor], torch.Tensor], there: dict[int, torch.Tensor]) -> Any:
    """Arguments with other tensors, which `place` gives, once for each."""
    if isinstance(value, torch.Tensor):
        if id(value) not in there:
            there[id(value)] = place(value.detach()).requires_grad_(value.requires_grad)
        return there[id(value)]
    if type(value) in (tuple, list):
        return type(value)(moved(x, place, there) for x in value)
    return {name: moved(x, place, there) for name, x in value.items()} if isinstance(value, dict) else value


def forms(sample: Sample, first: bool) -> Iterator[str]:
    """The forms to try of a sample. first: whether it is the first of its name."""
    yield from ("call", "gradient")
    if first:
        own = {form for form, room, name in sample.variants() if hasattr(sample.place(room), name)} - {"method"}
        yield from ("scattered", "scattered gradient", *DTYPES, *sorted(own), *(() if sample.writes else ("out",)))


def listed(sample: Sample) -> str | None:
    """What a sample is listed as unknown by: its name, or that with its room."""
    return next((name for name in (sample.name, sample.line.partition("(")[0]) if name in REASONS), None)


def devices(sample: Sample) -> list[str]:
    """Where a sample is compared with the real run: as in PyTorch, there are no sparse fake tensors."""
    return [] if listed(sample) else ["meta"] if "to_sparse" in sample.line else ["meta", "fake"]


@pytest.mark.parametrize("family", FAMILIES)
def test_results_lie_as_those_of_a_real_run(family: str) -> None:
    wrong, seen = [], set()
    for sample in FAMILIES[family]:
        first = (sample.room, sample.name) not in seen
        seen.add((sample.room, sample.name))
        for form in forms(sample, first):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    real = gave(sample, form, "cpu")
                except Exception:
                    continue  # there is no such form
                for device in devices(sample):
                    try:
                        got = gave(sample, form, device)
                    except Exception as error:
                        got = f"{type(error).__name__}: {error}"[:200]
                    if got != real:
                        wrong.append(f"{sample.line}, {form}, {device}: {got}, not {real}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)


def test_what_is_listed_as_unknown_still_is() -> None:
    """A name of which all samples have their real layouts on meta leaves the list."""
    unlike = set()
    for sample in (sample for family in FAMILIES.values() for sample in family if listed(sample)):
        try:
            same = gave(sample, "call", "cpu") == gave(sample, "call", "meta")
        except Exception:
            same = False
        if not same:
            unlike.add(listed(sample))
    assert unlike == set(REASONS)


def compiled_on_meta() -> list[str]:
    """The samples for which kernels are compiled on the meta device, in a process that has none of them yet."""
    found = []
    for sample in (sample for family in FAMILIES.values() for sample in family):
        for form in ("call", "gradient") if "to_sparse" not in sample.line else ():
            try:
                gave(sample, form, "meta")
            except Compiled:
                found.append(f"{sample.line}, {form}")
            except Exception:
                pass  # the other tests' business
    return found


def test_no_kernel_is_compiled() -> None:
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from conformance.test_meta_layouts import compiled_on_meta; print(*compiled_on_meta(), sep='\\n')"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert not run.stdout.strip(), f"compiled:\n{run.stdout}"


FACTORIES = set(
    "zeros ones full empty eye arange linspace rand randn randint randperm tensor as_tensor tril_indices "
    "triu_indices empty_strided".split()
)


def test_operators_say_on_which_device_they_make_tensors() -> None:
    """Otherwise it is the default one, not that of the operands."""
    ops = Path(torch.__file__).parent / "ops"
    silent = []
    for path in sorted(ops.rglob("*.py")):
        if path.relative_to(ops).parts[0] not in ("creation", "random", "sparse"):
            tree = ast.parse(path.read_text())
            silent += [
                f"{path.relative_to(ops)}:{call.lineno}"
                for call in ast.walk(tree)
                if isinstance(call, ast.Call) and _factory(call.func) and "device" not in {k.arg for k in call.keywords}
            ]
    assert not silent


def _factory(function: ast.expr) -> bool:
    """Whether it is a factory of the namespace, as operators call them."""
    return (
        isinstance(function, ast.Subscript)
        and ast.unparse(function.value) == "NAMESPACE"
        and (isinstance(function.slice, ast.Constant) and function.slice.value in FACTORIES)
    )
