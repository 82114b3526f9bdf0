"""Plans are values: they say what a call does, print themselves, and are lowered for a target; nothing is compiled before."""

import pytest

import flambeau as torch
from flambeau.base.layout import Layout, clear_caches
from flambeau.codegen import jit
from flambeau.codegen.plan import SCRATCH, Loops, Phase, Plan, elementwise
from flambeau.codegen.runtime import launch
from flambeau.codegen.targets.cpu import CPU, described, lowered, plan_of, plans_made
from flambeau.codegen.targets.target import Target
from flambeau.ir.loops import Loop, Nest, element


def plans_of(call) -> list[Plan]:
    clear_caches()
    with plans_made() as plans:
        call()
    return plans


def doubled(name: str = "doubled") -> Nest:
    x = element(0, torch.float32)
    return Nest(name, (torch.float32,), (torch.float32,), (Loop((), ((0, x + x),)),))


def test_a_plan_made_by_hand_runs():
    x = torch.arange(6.0).view(2, 3)
    plan = Plan([elementwise(doubled(), (2, 3), [(3, 1), (3, 1)])], [x._layout], [x._layout])
    run = lowered(plan)
    assert torch.equal(run(None, x), x + x)
    assert plan_of(run) is plan and plan_of(len) is None


def test_a_plan_says_what_it_reads_and_writes():
    layout = Layout.contiguous((2, 3), torch.float32, torch.device("cpu"))
    turned = Layout.of((2, 3), (1, 2), torch.float32, torch.device("cpu"))
    step = elementwise(doubled(), (2, 3), [(3, 1), (1, 2)])
    through = elementwise(doubled("kept"), (2, 3), [(3, 1), (3, 1)], slots=(SCRATCH, 1))
    assert (step.reads, step.writes, through.writes) == ((1,), (0,), (SCRATCH,))
    assert str(Plan([step, through], [layout], [turned], "f")).splitlines() == [
        "(float32[2, 3] strides [1, 2], f) -> float32[2, 3]",
        "  loops doubled over [2, 3]: in0 -> out0",
        "  loops kept over [2, 3]: in0 -> scratch",
    ]


def test_making_a_plan_compiles_nothing():
    x, own = torch.empty(5, 3), element(0, torch.float32)
    nest = Nest("never_run", (torch.float32,), (torch.float32,), (Loop((), ((0, own * own * own + 0.123),)),))
    before = jit.loaded()
    plan = Plan([elementwise(nest, (5, 3), [(3, 1), (3, 1)])], [x._layout], [x._layout])
    phases, _ = CPU.lower(plan.steps[0])
    assert [phase.kernel.name for phase in phases] == ["never_run.float32"] and "never_run.float32 over 1" in described(plan)
    assert jit.loaded() == before


def test_operators_plans_are_made_of_neutral_steps():
    from flambeau.codegen.attention.steps import Attend, AttendBackward
    from flambeau.codegen.convolution.steps import Convolve, ConvolveInput, ConvolveWeight
    from flambeau.codegen.gather_scatter.steps import Moves
    from flambeau.codegen.products.steps import Contraction

    F = torch.nn.functional
    x, image, heads = torch.rand(13, 17), torch.rand(1, 3, 9, 7, requires_grad=True), torch.rand(1, 2, 19, 16, requires_grad=True)
    weight = torch.rand(4, 3, 3, 3, requires_grad=True)

    def kinds(call) -> set[type]:
        return {step.__class__ for plan in plans_of(call) for step in plan.steps}

    assert kinds(lambda: torch.softmax(x + 1, -1).sum()) == {Loops}
    assert kinds(lambda: x @ x.T) == {Contraction}
    assert kinds(lambda: F.conv2d(image, weight).sum().backward()) >= {Convolve, ConvolveInput, ConvolveWeight}
    assert kinds(lambda: F.scaled_dot_product_attention(heads, heads, heads).sum().backward()) >= {Attend, AttendBackward}
    assert kinds(lambda: x.sort()) == {Phase}
    picked = torch.tensor([3, 1])
    (plan,) = plans_of(lambda: x.index_select(0, picked))[-1:]
    assert [type(step) for step in plan.steps] == [Moves] and plan.steps[0].writes == (0,) and set(plan.steps[0].reads) == {1, 2}
    assert "gather of [2, 17]" in str(plan)
    (plan,) = plans_of(lambda: torch.rand(11, 12) @ torch.rand(12, 14))[-1:]
    assert str(plan).splitlines()[1] == "  product 11 x 12 by 12 x 14: in0, in1 -> out0"
    assert "products." in described(plan)


@pytest.mark.parametrize("make", [lambda: torch.ones(3, 29), lambda: torch.full((3, 29), 2.5), lambda: torch.zeros(3, 29)])
def test_factories_make_one_plan(make):
    assert len(plans_of(make)) == 1


def test_on_the_meta_device_nothing_is_lowered():
    x, before = torch.empty(3, 23, device="meta"), jit.loaded()
    own = element(0, torch.float32)
    nest = Nest("nowhere", (torch.float32,), (torch.float32,), (Loop((), ((0, own * own * own + 0.321),)),))
    made = lowered(Plan([elementwise(nest, (3, 23), [(23, 1), (23, 1)])], [x._layout], [x._layout]))(None, x)
    assert made.shape == (3, 23) and made.is_meta and jit.loaded() == before


def test_a_step_that_a_target_has_no_kernels_for_is_refused():
    with pytest.raises(NotImplementedError, match="the CPU has no kernels for a wish"):
        lowered(Plan(["a wish"], [torch.empty(2)._layout]))


def test_working_memory_of_two_owners_is_refused():
    x = torch.ones(1 << 18)
    (plan,) = plans_of(lambda: x.sum())[-1:]
    _, size = CPU.lower(plan.steps[0])
    if not size:
        pytest.skip("a sum that needs no working memory")
    with pytest.raises(NotImplementedError, match="working memory for loops sum"):
        lowered(plan._replace(scratch=64))


def test_the_processor_is_a_target():
    target: Target = CPU
    assert target.name == "cpu" and target.vector_bytes in (16, 32, 64) and target.threads == torch.get_num_threads()
    assert target.allocate(256).nbytes() == 256


def test_a_row_of_plans_runs_plans_that_were_lowered():
    x = torch.ones(4)
    run = lowered(Plan([elementwise(doubled(), (4,), [(1,), (1,)])], [x._layout], [x._layout]))
    launch.rows_plan([run], 1, 0, 0)((x,))
    assert x.tolist() == [2.0] * 4
