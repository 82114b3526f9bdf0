"""Programs that look inside: hooks, gradient flow, NaN detection, recomputation."""

import pytest
from implementation import torch

nn = torch.nn


def small_model():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


class DebugLayer(nn.Module):
    def __init__(self, name: str):
        super().__init__()
        self.name = name

    def forward(self, x):
        print(f"[{self.name}] shape={x.shape}, dtype={x.dtype}, device={x.device}")
        return x


def test_a_debug_layer_prints_shapes(capsys):
    nn.Sequential(nn.Linear(4, 8), DebugLayer("hidden"), nn.Linear(8, 2))(torch.randn(3, 4))
    assert capsys.readouterr().out == "[hidden] shape=torch.Size([3, 8]), dtype=torch.float32, device=cpu\n"


def test_forward_hooks_come_and_go(capsys):
    model, hooks = small_model(), []
    for name, layer in model.named_modules():
        h = layer.register_forward_hook(lambda m, inp, out, n=name: print(f"{n}: {out.shape}"))
        hooks.append(h)
    model(torch.randn(3, 4))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{n}: torch.Size([3, {width}])" for n, width in [("0", 8), ("1", 8), ("2", 2), ("", 2)]]
    for h in hooks:
        h.remove()
    model(torch.randn(3, 4))
    assert capsys.readouterr().out == ""


def test_gradient_flow_can_be_read():
    model = small_model()
    model[0].bias.requires_grad_(False)
    model(torch.randn(3, 4))[:, 0].sum().backward()
    lines = []
    for name, param in model.named_parameters():
        if param.grad is not None:
            lines.append(f"{name}: grad_norm={param.grad.norm():.6f}, param_norm={param.norm():.6f}")
        else:
            lines.append(f"{name}: NO GRADIENT")
    assert lines[1] == "0.bias: NO GRADIENT"
    assert lines[3] == f"2.bias: grad_norm=3.000000, param_norm={model[2].bias.detach().norm().item():.6f}"


def test_a_hook_sees_and_may_change_a_gradient():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    handle = x.register_hook(lambda grad: seen.append(grad.tolist()) or grad * 2)
    (x * 3).sum().backward()
    assert seen == [[3, 3]] and x.grad.tolist() == [6, 6]
    handle.remove()
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3] and len(seen) == 1


def test_a_hook_catches_nan():
    model = small_model()

    def nan_hook(grad):
        if torch.isnan(grad).any():
            raise RuntimeError(f"NaN gradient detected: {grad}")

    for param in model.parameters():
        param.register_hook(nan_hook)
    model(torch.randn(3, 4)).sum().backward()
    with pytest.raises(RuntimeError, match="NaN gradient detected"):
        (model(torch.randn(3, 4)) * float("nan")).sum().backward()


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled:UserWarning")
@pytest.mark.filterwarnings("ignore:Error detected in SqrtBackward0:UserWarning")
def test_anomaly_detection_names_the_node():
    with torch.autograd.detect_anomaly():
        x = torch.tensor([-1.0], requires_grad=True)
        loss = (x.sqrt() * 1).sum()
        with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
            loss.backward()


def test_finite_checks():
    loss, output = torch.tensor(1.0), torch.tensor([1.0, float("inf"), float("nan")])
    assert not torch.isnan(loss), "NaN loss detected"
    assert torch.isfinite(output).tolist() == [True, False, False] and not torch.isfinite(output).all()
    assert torch.isinf(output).tolist() == [False, True, False]
    assert torch.nan_to_num(output, nan=0.0, posinf=9.0).tolist() == [1, 9, 0]


def test_full_backward_hook():
    model, shapes = small_model(), []
    model[2].register_full_backward_hook(
        lambda module, grad_input, grad_output: shapes.append((grad_input[0].shape, grad_output[0].shape))
    )
    model(torch.randn(3, 4)).sum().backward()
    assert shapes == [((3, 8), (3, 2))]


def test_gradient_checkpointing_recomputes_and_agrees():
    checkpoint = torch.utils.checkpoint.checkpoint

    class CheckpointedBlock(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer1, self.layer2, self.relu = nn.Linear(8, 8), nn.Linear(8, 8), nn.ReLU()
            self.runs = 0

        def forward(self, x, recompute=True):
            return checkpoint(self._inner_forward, x, use_reentrant=False) if recompute else self._inner_forward(x)

        def _inner_forward(self, x):
            self.runs += 1
            return self.layer2(self.relu(self.layer1(x)))

    block, x = CheckpointedBlock(), torch.randn(3, 8, requires_grad=True)
    block(x, recompute=False).sum().backward()
    plain, x.grad, block.runs = x.grad, None, 0
    block(x).sum().backward()
    assert torch.equal(x.grad, plain) and block.runs == 2
