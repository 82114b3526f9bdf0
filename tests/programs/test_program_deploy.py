"""Programs that ship a model: compile, trace, script, ONNX. What flambeau does not do says so and names a way on."""

import pytest
from implementation import NAME, torch

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

nn = torch.nn


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)).eval()


def test_a_traced_model_is_saved_and_loaded(model, tmp_path):
    dummy_input = torch.randn(1, 16)
    traced = torch.jit.trace(model, dummy_input)
    traced.save(tmp_path / "model_traced.pt")
    loaded = torch.jit.load(tmp_path / "model_traced.pt")
    torch.testing.assert_close(loaded(dummy_input), model(dummy_input))


class ScriptedModel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1.0


def test_a_scripted_model(tmp_path):
    scripted = torch.jit.script(ScriptedModel())
    scripted.save(str(tmp_path / "model_scripted.pt"))
    assert torch.jit.load(str(tmp_path / "model_scripted.pt"))(torch.zeros(2)).tolist() == [1, 1]


def test_a_compiled_model_agrees(model):
    compiled = torch.compile(model, backend="eager")
    x = torch.randn(4, 16)
    torch.testing.assert_close(compiled(x), model(x))


def test_a_backend_of_the_program_gets_the_graph(model):
    graphs = []
    compiled = torch.compile(model, backend=lambda graph, inputs: graphs.append(len(inputs)) or graph.forward)
    x = torch.randn(2, next(model.parameters()).shape[1])
    torch.testing.assert_close(compiled(x), model(x))
    assert graphs == [len([*model.parameters(), *model.buffers()]) + 1]


def test_onnx(model, tmp_path):
    pytest.importorskip("onnxruntime")
    import onnxruntime

    if NAME == "flambeau":
        pytest.importorskip("onnx")
    dummy_input = torch.randn(1, 16)
    torch.onnx.export(
        model,
        dummy_input,
        tmp_path / "model.onnx",
        input_names=["input"],
        output_names=["output"],
        opset_version=17,
        dynamic_axes={"input": {0: "batch_size"}, "output": {0: "batch_size"}},
        dynamo=False,
    )
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    x = torch.randn(5, 16)
    (output,) = session.run(None, {"input": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(output), model(x).detach(), rtol=1e-4, atol=1e-5)
