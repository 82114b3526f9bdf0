"""Pipelines in one process: orders of schedules, the backward in two parts, models that are cut along their traces."""

import copy

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.distributed.pipelining import SplitPoint, pipe_split, pipeline
from flambeau.distributed.pipelining._backward import stage_backward, stage_backward_input, stage_backward_weight
from flambeau.distributed.pipelining._orders import check_order, dual_pipe_v, interleaved, zero_bubble
from flambeau.distributed.pipelining.schedules import _Action, _format_pipeline_order, _merge_bw, get_schedule_class


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_orders_run_and_have_everything_once(ranks):
    for count in (1, 2, 3, 8, 11):
        for loops in (1, 2, 3):
            there = [stage % ranks for stage in range(loops * ranks)]
            limits = [(loops - 1) * ranks + 2 * ranks - 1] * ranks
            order = zero_bubble(there, ranks, count, limits)
            check_order(order, there.__getitem__, loops * ranks, count, True)
        if count % max(1, count // ranks) == 0:
            per_round = count // max(1, count // ranks)
            order = {rank: interleaved(rank, ranks, 2, count, per_round) for rank in range(ranks)}
            check_order(order, lambda stage: stage % ranks, 2 * ranks, count, True)
        in_a_v = [*range(ranks), *reversed(range(ranks))]
        order = zero_bubble(in_a_v, ranks, count, [2 * ranks] * ranks)
        check_order(order, in_a_v.__getitem__, 2 * ranks, count, True)
        if count >= 2 * ranks:
            order = {rank: dual_pipe_v(rank, ranks, count) for rank in range(ranks)}
            check_order(order, in_a_v.__getitem__, 2 * ranks, count, True)


def test_pauses_are_shorter_without_bubbles():
    """Four ranks, one stage each, parts of the same cost: 1F1B pauses for 9 units, with weights' parts in the pauses fewer."""
    order = zero_bubble([0, 1, 2, 3], 4, 8, [7] * 4)
    assert max(len(actions) for actions in order.values()) < 3 * 8 + 9
    kept, most = 0, 0
    for action in filter(None, order[0]):
        kept += {"F": 1, "I": 0, "W": -1}[action.computation_type.value]
        most = max(most, kept)
    assert most <= 7


def test_orders_that_cant_run():
    def order(*lists):
        return {rank: [_Action.from_str(text) for text in texts.split()] for rank, texts in enumerate(lists)}

    check_order(order("0F0 0B0", "1F0 1B0"), int, 2, 1, True)
    check_order(order("0F0 0I0 0W0", "1F0 1B0"), int, 2, 1, True)
    for lists, words in (
        (("0B0 0F0", "1F0 1B0"), "wait for ever"),
        (("0F0 0B0", "1F0"), "wait for ever"),
        (("0F0 0F0 0B0", "1F0 1B0"), "done before"),
        (("0F0 1F0 1B0 0B0", ""), "another rank"),
        (("0F0 0I0", "1F0 1B0"), "lacks"),
    ):
        with pytest.raises(ValueError, match=words):
            check_order(order(*lists), int, 2, 1, True)


def test_texts_of_actions():
    texts = ["1F0", "2I1", "0W3", "0B3", "1UNSHARD", "3RESHARD", "2SEND_B2", "1RECV_F1", "(0F1;1B0)OVERLAP_F_B"]
    assert [str(_Action.from_str(text)) for text in texts] == texts
    assert _Action.from_str("   ") is None
    with pytest.raises(RuntimeError, match="Invalid action string: xyz"):
        _Action.from_str("xyz")
    merged = _merge_bw([_Action.from_str(text) for text in "0F0 0I0 0W0 0I1 0I2 0W1 0W2".split()])
    assert " ".join(map(str, merged)) == "0F0 0B0 0I1 0I2 0W1 0W2"
    shown = _format_pipeline_order({0: [_Action.from_str("0F0")], 1: [None, _Action.from_str("1F0")]})
    assert shown.splitlines()[0].split() == ["Rank", "0", "Rank", "1"]
    assert shown.splitlines()[2].split() == ["Step", "1:", "1F0"]
    assert get_schedule_class("dualpipev").__name__ == "ScheduleDualPipeV"
    with pytest.raises(ValueError, match="Unknown schedule name 'x'"):
        get_schedule_class("x")


class Mixed(nn.Module):
    """Weights that several ways lead to, an output that no input has part in, one that has no weights."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.c = nn.Conv1d(1, 1, 3, padding=1)
        self.free = nn.Parameter(torch.ones(4))

    def forward(self, x, y):
        h = torch.relu(self.a(x))
        h = self.norm(self.b(h)) * self.a(h)
        return self.c(h.unsqueeze(1)).squeeze(1) + y, self.free * 2, x * 3


def test_backward_in_two_parts():
    torch.manual_seed(0)
    whole = Mixed()
    module = copy.deepcopy(whole)
    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    other = x.detach().clone().requires_grad_()
    for _ in range(2):  # gradients are added up
        outputs = module(x, y)
        gradients = [torch.randn_like(each) for each in outputs]
        before = module.b.weight.grad
        found, groups = stage_backward_input(outputs, gradients, [x, y], module.parameters())
        assert module.b.weight.grad is before  # that is put off
        assert any(group["params"] for group in groups)
        stage_backward_weight(module.parameters(), groups)
        other.grad = None
        wanted = stage_backward(whole(other, y), gradients, (other, y))
        assert torch.allclose(found[0], wanted[0], atol=1e-5)
        assert found[1] is wanted[1] is None
        for (name, a), b in zip(module.named_parameters(), whole.parameters(), strict=True):
            assert torch.allclose(a.grad, b.grad, atol=1e-5), name


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x, more=None):
        for layer in self.layers:
            x = layer(x)
        return {"out": x + self.shift, "more": more["z"] + 1}


def test_a_model_is_cut_at_its_submodules():
    module = Named()
    x, more = torch.randn(2, 3), {"z": torch.zeros(2)}
    spec = {"layers.1": SplitPoint.BEGINNING, "layers.2": SplitPoint.BEGINNING}
    pipe = pipeline(module, (x,), {"more": more}, split_spec=spec)
    assert pipe.num_stages == pipe.info().num_stages == 3
    for wanted, found in zip(module(x, more).values(), pipe(x, more=more), strict=True):
        assert torch.allclose(wanted, found)
    assert list(pipe.get_stage_module(2).state_dict()) == ["shift", "layers.2.weight", "layers.2.bias"]
    assert "forward" not in vars(module.layers[1])  # what was put around it is gone
    assert pipeline(module, (x,), {"more": more}, split_spec={"layers.2": SplitPoint.END}).num_stages == 2


def test_what_cant_be_cut():
    module = Named()
    arguments = (torch.ones(2, 3),), {"more": {"z": torch.zeros(1)}}
    with pytest.raises(AttributeError, match="zz"):
        pipeline(module, *arguments, split_spec={"zz": SplitPoint.END})
    with pytest.raises(ValueError, match="has to be a SplitPoint"):
        pipeline(module, *arguments, split_spec={"layers.0": 1})
    with pytest.raises(ValueError, match="only one of them"):
        pipeline(module, *arguments, split_spec={}, split_policy=lambda traced: traced)
    with pytest.raises(ValueError, match="Invalid stage index 1"):
        pipeline(module, *arguments).get_stage_module(1)
    assert pipe_split() is None
