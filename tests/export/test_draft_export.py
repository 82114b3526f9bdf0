"""torch.export.draft_export: programs where export refuses, what they check, and the report. PyTorch 2.13 gives the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau._functorch import config
from flambeau._library.fake_profile import MissingOpProfile, OpProfile, TensorMetadata, unsafe_generate_fake_kernels
from flambeau._subclasses.fake_tensor import FakeTensorMode, MetadataMismatchError
from flambeau.export import Dim, draft_export, export
from flambeau.export._draft_export import DraftExportReport, FailureType
from flambeau.fx.experimental.symbolic_shapes import CallMethodKey, ShapeEnv
from flambeau.utils import _pytree as pytree


class Module(torch.nn.Module):
    """A module whose forward is a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        """What the function gives."""
        return self.function(*args)


def _kinds(program: Any) -> list[Any]:
    return [f.failure_type for f in program._report.failures]


def _meta(rank: int, dtype: Any = torch.float32) -> TensorMetadata:
    return TensorMetadata(rank, dtype, torch.device("cpu"), torch.strided)


# ---------------------------------------------------------------- what values decide


def _by_sum(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x + 1
    return x - 1


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_goes_as_the_example_does_and_a_run_checks_it(sign: int) -> None:
    """Also where the answer was no."""
    x = sign * torch.ones(3)
    program = draft_export(Module(_by_sum), (x,))
    assert program.module()(x).tolist() == [2.0 * sign] * 3
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program.module()(-x)
    assert _kinds(program) == [FailureType.DATA_DEPENDENT_ERROR]
    assert program._report.failures[0].data["expr"] == "Eq(u0, 1)" and program._report.failures[0].data["result"] == str(sign > 0)


def test_a_count_that_was_asked_for_is_checked() -> None:
    """nonzero gave two rows, and the program says so."""

    def f(x: torch.Tensor) -> torch.Tensor:
        n = x.nonzero()
        return n + 1 if n.shape[0] == 2 else n

    program = draft_export(Module(f), (torch.tensor([0, 1, 2.0]),))
    assert program.module()(torch.tensor([3, 0, 2.0])).tolist() == [[1], [3]]
    with pytest.raises(RuntimeError, match=r"u0 (<=|>=) 2"):
        program.module()(torch.ones(3))


def test_questions_at_one_place_are_one_failure() -> None:
    """A loop asks twice; the inputs' values are beside the placeholders."""

    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        made = 0
        for v in (x, y):
            n = v.item()
            made += v * n if n > 10 else v + n
        return made

    program = draft_export(Module(f), (torch.tensor(5), torch.tensor(3)))
    (failure,) = program._report.failures
    assert failure.data["occurrences"] == 2 and failure.data["frame_locals"]["locals"]["n"] == ["u0"]
    assert [n.meta["val"].real_tensor.item() for n in program.graph.nodes if n.op == "placeholder"] == [5, 3]


def test_the_state_and_the_inputs_are_as_they_were() -> None:
    """Real tensors are copies."""

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.tensor(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.a.add_(1)
            x.sin_()
            return x * 2 if self.a.item() == 3 else x

    module, x = Counting(), torch.ones(2)
    program = draft_export(module, (x,))
    assert module.a.item() == 2 and x.tolist() == [1.0, 1.0]
    assert _kinds(program) == [FailureType.DATA_DEPENDENT_ERROR]


def test_numbers_of_the_example_stand_in_for_sizes() -> None:
    """view needs u0 to be even, which 4 is, so it is asserted; a program that nothing is wrong with has a good report."""
    program = draft_export(Module(lambda x: torch.zeros(x.item(), 3).view(-1, 6)), (torch.tensor(4),))
    assert program._report.successful() and "Congratulations" in str(program._report)
    with pytest.raises(RuntimeError):
        program.module()(torch.tensor(3))


# ---------------------------------------------------------------- dimensions


def _of_three(a: torch.Tensor) -> torch.Tensor:
    assert a.shape[0] == 3
    return a * a


def test_a_dimension_that_is_less_free_than_said_is_found_out() -> None:
    """export refuses; draft_export takes hints instead, and says which."""
    said = {"args": ({0: Dim("a0")},)}
    with pytest.raises(Exception, match="specialized it to be a constant"):
        export(Module(_of_three), (torch.ones(3, 3),), dynamic_shapes=said)
    program = draft_export(Module(_of_three), (torch.ones(3, 3),), dynamic_shapes=said)
    (failure,) = program._report.failures
    assert failure.failure_type == FailureType.GUARD_ADDED and failure.data["expr"].endswith(", 3)")
    assert str(failure.data["new_dynamic_shapes"]) == "{'args': ({0: DimHint(AUTO, min=0, max=int_oo)},)}"
    assert "dynamic_shapes = {'args'" in str(program._report)


def test_a_deferred_guard_keeps_the_symbol() -> None:
    """With prefer_deferred_runtime_asserts_over_guards a size that has to be 3 has the range from 3 to 3."""
    program = export(
        Module(_of_three),
        (torch.ones(3, 3),),
        dynamic_shapes={"args": ({0: Dim.AUTO},)},
        prefer_deferred_runtime_asserts_over_guards=True,
    )
    with pytest.raises(AssertionError, match=r"size\(\)\[0\] <= 3"):
        program.module()(torch.ones(4, 3))
    with pytest.raises(AssertionError, match=r"size\(\)\[0\] >= 3"):
        program.module()(torch.ones(2, 3))


def test_slices_by_numbers_of_known_sign_have_known_sizes() -> None:
    """No new symbol is needed."""

    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        u = x.item()
        torch._check(u >= 0)
        return y[:u], y[u:], y[:, u:3]

    program = export(Module(f), (torch.tensor(2), torch.randn(5, 6)))
    shapes = [str(n.meta["val"].shape) for n in program.graph.nodes if n.name.startswith("slice")]
    assert shapes == ["torch.Size([Min(5, u0), 6])", "torch.Size([5 - Min(5, u0), 6])", "torch.Size([5, Max(0, 3 - Min(6, u0))])"]
    y = torch.randn(5, 6)
    for n in (0, 3, 9):
        for made, expected in zip(program.module()(torch.tensor(n), y), f(torch.tensor(n), y)):
            assert torch.equal(made, expected)


# ---------------------------------------------------------------- fakes


def _library() -> Any:
    return torch.library._scoped_library("drafted", "FRAGMENT")


def test_an_operator_without_a_fake_has_results_like_the_example() -> None:
    """Of new sizes; dtypes and devices of its arguments are checked, and a fake can be made of what was seen."""
    with _library():

        @torch.library.custom_op("drafted::add", mutates_args={})
        def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a + b

        given = torch.ones(3, 3), torch.ones(3, 3)
        free = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
        program = draft_export(Module(add), given, dynamic_shapes={"args": (free, free)})
        assert _kinds(program) == [FailureType.MISSING_FAKE_KERNEL]
        seen = OpProfile((_meta(2), _meta(2)), _meta(2))
        assert program._report.op_profiles == {"drafted.add.default": {seen}}
        called = next(n for n in program.graph.nodes if n.name == "add")
        assert list(called.meta["unbacked_bindings"].values()) == [
            (CallMethodKey("size"), pytree.SequenceKey(i)) for i in range(2)
        ]
        assert program.module()(torch.ones(2, 5), torch.ones(2, 5)).tolist() == [[2.0] * 5] * 2
        with pytest.raises(RuntimeError, match="dtype mismatch"):
            program.module()(*[torch.ones(3, 3).half()] * 2)
        with pytest.raises(Exception, match="no fake impl"):
            program.run_decompositions()
        with unsafe_generate_fake_kernels(program._report.op_profiles):
            again = program.run_decompositions()
            with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()):
                assert str(add(*given).shape) == "torch.Size([u0, u1])"
                with pytest.raises(MissingOpProfile, match="no profiles match the given inputs"):
                    add(torch.ones(3), torch.ones(3))
        assert again.module()(*given).tolist() == [[2.0] * 3] * 3
        with pytest.raises(RuntimeError, match="no fake impl"), FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()):
            add(*given)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (lambda x: (x * 2)[:, :-1, :-1], "a return was not dense in memory"),
        (lambda x: (x * 2)[1:], "a return has a non-zero storage offset"),
    ],
)
def test_results_that_no_fake_can_be_like(part: Any, words: str) -> None:
    """Their strides would have to be told."""
    with _library():

        @torch.library.custom_op("drafted::part", mutates_args={})
        def cut(a: torch.Tensor) -> torch.Tensor:
            return part(a)

        with pytest.raises(RuntimeError, match=words):
            draft_export(Module(cut), (torch.randn(4, 6, 8),))


def test_a_wrong_fake_is_found_out() -> None:
    """draft_export goes by the results; export with real tensors beside refuses."""
    with _library():

        @torch.library.custom_op("drafted::several", mutates_args={})
        def several(a: torch.Tensor) -> list[torch.Tensor]:
            return [a * 2, a.repeat(2, 2), a.to(torch.bfloat16)]

        @several.register_fake
        def _(a: torch.Tensor) -> list[torch.Tensor]:
            return [torch.empty_like(a), torch.empty_like(a), torch.empty_like(a)]

        x = torch.randn(3, 3)
        program = draft_export(Module(several), (x,))
        assert [f.data["reason"] for f in program._report.failures] == [
            "mismatch between fake value 3 and real value 6 ",
            "Dtypes torch.bfloat16 and torch.float32 are not equal!",
        ]
        assert program._report.op_profiles == {
            "drafted.several.default": {OpProfile((_meta(2),), (_meta(2), _meta(2), _meta(2, torch.bfloat16)))}
        }
        for made, expected in zip(program.module()(x), several(x)):
            assert torch.equal(made, expected)
        with (
            config.patch(fake_tensor_propagate_real_tensors=True),
            pytest.raises(
                MetadataMismatchError,
                match=r"output size mismatch between fake shape 3 and real shape 6, at output\[1\].size\(0\)",
            ),
        ):
            export(Module(several), (x,))


def test_a_fake_that_shares_memory_wrongly_is_found_out() -> None:
    """It gives its argument."""
    with _library():

        @torch.library.custom_op("drafted::pair", mutates_args={})
        def pair(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return a * 2, a + 2

        @pair.register_fake
        def _(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return a, torch.empty_like(a)

        program = draft_export(Module(pair), (torch.ones(2),))
        (failure,) = program._report.failures
        assert failure.data["reason"] == (
            "Mismatched aliasing spec between fake kernel and real kernel: Real tensor propagation "
            "found mismatch in outputs_alias_inputs check True != False"
        )
        assert [x.tolist() for x in program.module()(torch.zeros(2))] == [[0.0, 0.0], [2.0, 2.0]]


def test_the_text_of_a_report() -> None:
    """Each failure has a number; nothing is fixed by itself."""
    program = draft_export(Module(_by_sum), (torch.ones(3),))
    text = str(program._report)
    assert "WARNING: 1 issue(s) found during export" in text
    assert "1. Data dependent error.\n    When exporting, we were unable to evaluate the value of `Eq(u0, 1)`." in text
    assert "            if x.sum() > 0:" in text
    assert "x: ['Tensor(shape: torch.Size([3]), stride: (1,), storage_offset: 0)']" in text
    assert repr(DraftExportReport([], {}, {}, {})) == "DraftExportReport([])"
    with pytest.raises(NotImplementedError, match="Not implemented yet"):
        program._report.apply_suggested_fixes()
