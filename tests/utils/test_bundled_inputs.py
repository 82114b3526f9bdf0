"""Inputs that compiled modules carry, the throughput of modules, and pickles that are shown without being run."""

import io
import pickle

import pytest

import flambeau as torch
from flambeau.utils import ThroughputBenchmark, bundled_inputs, show_pickle
from flambeau.utils.throughput_benchmark import format_time

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


class Same(torch.nn.Module):
    def forward(self, arg):
        return arg

    @torch.jit.export
    def other(self, arg):
        return arg


class Words(torch.nn.Module):
    def forward(self, text: str, number: int):
        return text.format(number)


def reloaded(module):
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    size = buffer.tell()
    buffer.seek(0)
    return torch.jit.load(buffer), size


def test_inputs_travel_with_the_module_in_few_bytes():
    samples = [
        (torch.tensor([1]),),
        (torch.zeros(1 << 14),),
        (torch.tensor([[2, 3, 4]]).expand(1 << 10, -1)[:, ::2],),
        (torch.arange(1 << 12)[-8:],),
        (torch.ones(4, 8, 16, 16).contiguous(memory_format=torch.channels_last),),
        (bundled_inputs.bundle_randn(1 << 10),),
        (bundled_inputs.bundle_large_tensor(torch.arange(40.0)),),
    ]
    module, told = torch.jit.script(Same()), []
    before = reloaded(module)[1]
    bundled_inputs.augment_model_with_bundled_inputs(module, samples, told, ["first"])
    loaded, size = reloaded(module)
    assert size < before + (1 << 13) and "torch.randn_like(deflated[5][0])" in told[0]
    found = loaded.get_all_bundled_inputs()
    assert loaded.get_num_bundled_inputs() == len(samples) == len(found) and loaded(*found[0]) is found[0][0]
    for number in (0, 1, 2, 3, 4):
        assert torch.equal(found[number][0], samples[number][0]) and found[number][0].stride() == samples[number][0].stride()
    assert found[5][0].shape == (1 << 10,) and found[5][0].std() > 0 and torch.equal(found[6][0], torch.arange(40.0))
    assert loaded.get_bundled_inputs_functions_and_info() == {
        "forward": {"get_inputs_function_name": ["get_all_bundled_inputs_for_forward"], "info": ["first"]}
    }
    assert not hasattr(torch.jit.script(Same()), "_bundled_inputs_deflated_forward")


def test_inputs_of_several_methods_and_of_other_kinds():
    module = torch.jit.script(Same())
    copy = bundled_inputs.bundle_inputs(
        module, {module.forward: [(torch.ones(1),)], module.other: [(torch.ones(2),)]}, info={module.other: ["x"]}
    )
    assert not hasattr(module, "get_all_bundled_inputs") and copy.get_all_bundled_inputs_for_other()[0][0].shape == (2,)
    assert copy.get_bundled_inputs_functions_and_info()["other"]["info"] == ["x"]
    again = bundled_inputs.bundle_inputs(copy, [(torch.ones(3),)])
    assert again.get_all_bundled_inputs()[0][0].shape == (3,) and not hasattr(again, "get_all_bundled_inputs_for_other")
    words = torch.jit.script(Words())
    bundled_inputs.augment_model_with_bundled_inputs(words, [("a {}", 1), ("b {}", 2)])
    assert reloaded(words)[0].get_all_bundled_inputs() == [("a {}", 1), ("b {}", 2)]
    helper = bundled_inputs.InflatableArg(torch.zeros(1).expand(40), fmt_fn="\ndef {}(self, value):\n    return value + 1\n")
    made = torch.jit.script(Same())
    bundled_inputs.augment_model_with_bundled_inputs(made, [(helper,)])
    assert torch.equal(made.get_all_bundled_inputs()[0][0], torch.ones(40))


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        ("foo", TypeError, "is not a Tuple"),
        ([torch.ones(1)], TypeError, "is not a Tuple"),
        (None, Exception, "must be specified"),
        ([(torch.randn(1 << 10),)], Exception, "Bundled input argument at position 'deflated"),
        ([(torch.randn(2, 1 << 10)[:, 0:1],)], Exception, "is a tensor with storage size 2048"),
    ],
)
def test_inputs_that_are_refused(inputs, error, words):
    with pytest.raises(error, match=words):
        bundled_inputs.augment_model_with_bundled_inputs(torch.jit.script(Same()), inputs)


def test_modules_that_are_refused():
    module = torch.jit.script(Same())
    bundled_inputs.augment_model_with_bundled_inputs(module, [(torch.ones(1),)])
    with pytest.raises(Exception, match="only be augmented with bundled inputs once"):
        bundled_inputs.augment_model_with_bundled_inputs(module, [(torch.ones(1),)])
    with pytest.raises(Exception, match=r"Only ScriptModule is supported\."):
        bundled_inputs.augment_model_with_bundled_inputs(Same(), [(torch.ones(1),)])


def test_throughput(tmp_path):
    calls = []

    class Counts(torch.nn.Module):
        def forward(self, x, y=0):
            calls.append(float(x))
            return x + y

    bench = ThroughputBenchmark(Counts())
    with pytest.raises(RuntimeError, match="Please provide benchmark inputs"):
        bench.benchmark()
    bench.add_input(torch.tensor(1.0), y=2)
    bench.add_input(torch.tensor(2.0))
    assert bench.run_once(torch.tensor(1.0), 2) == 3
    calls.clear()
    with pytest.warns(UserWarning, match="Starting benchmark on an nn.Module"):
        stats = bench.benchmark(2, num_warmup_iters=3, num_iters=10, profiler_output_path=str(tmp_path / "profile.json"))
    assert len(calls) == 16 and set(calls) == {1.0, 2.0} and stats.num_iters == 10 and stats.latency_avg_ms > 0
    assert (tmp_path / "profile.json").exists() and "Total number of iterations: 10" in str(stats)
    assert [format_time(1.5), format_time(time_ms=1200.0), format_time(time_s=0.5)] == ["1.500us", "1.200s", "500.000ms"]
    with pytest.raises(AssertionError):
        format_time()


def test_pickles_are_shown_and_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return print, ("ran",)

    (tmp_path / "plain.pkl").write_bytes(pickle.dumps({"a": [1, Evil()]}, protocol=2))
    torch.save({"weight": torch.ones(2)}, tmp_path / "saved.pt")
    out = io.StringIO()
    show_pickle.main(["", str(tmp_path / "plain.pkl")], out)
    show_pickle.main(["", f"{tmp_path / 'saved.pt'}@*/data.pkl"], out)
    text = out.getvalue()
    assert "builtin" in text and "print" in text and "ran" in text and "'weight'" in text and "_rebuild_tensor_v2" in text
    with pytest.raises(Exception, match="Could not find member"):
        show_pickle.main(["", f"{tmp_path / 'saved.pt'}@none"], out)
