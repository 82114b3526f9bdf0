"""The random streams against figures recorded from PyTorch 2.13 (CPU)."""

from __future__ import annotations

import copy
import hashlib
import pickle

import numpy as np
import pytest

import flambeau as torch
from flambeau.base import rng

# fmt: off
# Sampler, arguments, first call, second call (the start of the SHA-256 of the bytes; first and last value where libm
# decides the last bit), and the next int32 of random(): all from seed 7.
RECORDED = [
    ("uniform", (1, "float32"), "59aac407653d", "fa8844033d5c", 1202242073),
    ("uniform", (1, "float32", -0.3, 2.5), "325e22a933e8", "b66e066830ce", 1202242073),
    ("normal", (1, "float32"), "a09b31571c5d", "a480ea2ff009", 1882953283),
    ("normal", (1, "float32", 1.5, 0.02), "e4df338796c1", "9d8e2c21b95a", 1882953283),
    ("normal", (1, "float32", 1.5, 0.02, False), "e4df338796c1", "9d8e2c21b95a", 1882953283),
    ("uniform", (15, "float32"), "4db4aff98e43", "c9507e53cad4", 1759190803),
    ("uniform", (15, "float32", -0.3, 2.5), "49a59c29ed0f", "6fe3c0154ee8", 1759190803),
    ("normal", (15, "float32"), "e8fe4bd30d2a", "a4d5b05232e5", 879820150),
    ("normal", (15, "float32", 1.5, 0.02), "d2555cdc0895", "9667d205850f", 879820150),
    ("normal", (15, "float32", 1.5, 0.02, False), "d2555cdc0895", "9667d205850f", 879820150),
    ("uniform", (16, "float32"), "fd89f5510753", "ead9fbda9168", 916483116),
    ("uniform", (16, "float32", -0.3, 2.5), "3285cd685b8f", "b3dc8355eefd", 916483116),
    ("normal", (16, "float32"), "c14326a9b25c", "4842220c0284", 916483116),
    ("normal", (16, "float32", 1.5, 0.02), "f35322fb0228", "05a43b16c843", 916483116),
    ("normal", (16, "float32", 1.5, 0.02, False), "651b672743aa", "10247766d9b4", 1599380060),
    ("uniform", (37, "float32"), "b4498b156495", "6609f7e4c3b0", 1348596887),
    ("uniform", (37, "float32", -0.3, 2.5), "947c7549ce24", "abaa7061bba1", 1348596887),
    ("normal", (37, "float32"), "ea626b0995d5", "8fead7417ea0", 98381379),
    ("normal", (37, "float32", 1.5, 0.02), "670645db4ec4", "1eb4912b2017", 98381379),
    ("normal", (37, "float32", 1.5, 0.02, False), "fe38e7cae50c", "310574cf5069", 1038725798),
    ("uniform", (1000, "float32"), "40cacda114f1", "c62ddc542aea", 359857568),
    ("uniform", (1000, "float32", -0.3, 2.5), "6e0fc618ef95", "0726cdba1f65", 359857568),
    ("normal", (1000, "float32"), "4b1786693e24", "57d5f5aa9d89", 1664672233),
    ("normal", (1000, "float32", 1.5, 0.02), "e39ff5cb3674", "a60ebf9bb298", 1664672233),
    ("normal", (1000, "float32", 1.5, 0.02, False), "2fc7e47866d6", "c3a39107deb5", 424996818),
    ("random", (20, "float32"), "7e31f32229dd", "cc53306d903d", 431854331),
    ("random", (20, "float32", -5, 77), "433476270a54", "191e645cccf1", 431854331),
    ("exponential", (5, "float32", 2.0), "2e49b1245365", "1e916883b0ad", 769786948),
    ("geometric", (5, "float32", 0.3), "836777fc4448", "4ea63a1ed864", 769786948),
    ("cauchy", (5, "float32", 1.0, 2.0), "b2ec781f872e", "21cebf0e417f", 769786948),
    ("log_normal", (5, "float32", 1.0, 2.0), "b26a6142c3fc", "9f7994d00fed", 769786948),
    ("exponential", (20, "float32", 2.0), "850bbd0c1170", "566464bf9ae3", 1944945571),
    ("geometric", (20, "float32", 0.3), "8ef6226b6824", "a6051f9c5c90", 1944945571),
    ("cauchy", (20, "float32", 1.0, 2.0), "a3ec761b60d3", "9f160cf521a8", 1944945571),
    ("log_normal", (20, "float32", 1.0, 2.0), "5faa2ae83147", "e501db23688a", 1944945571),
    ("uniform", (1, "float64"), "d3e3692b8914", "c47e1df69f71", 1882953283),
    ("uniform", (1, "float64", -0.3, 2.5), "23227cc9863d", "150ff344ee1f", 1882953283),
    ("normal", (1, "float64"),
     (-0.1467950974849952, -0.1467950974849952), (0.7861412987235358, 0.7861412987235358), 1882953283),
    ("normal", (1, "float64", 1.5, 0.02),
     (1.4970640980503, 1.4970640980503), (1.5157228259744706, 1.5157228259744706), 1882953283),
    ("normal", (1, "float64", 1.5, 0.02, False),
     (1.4970640980503, 1.4970640980503), (1.5157228259744706, 1.5157228259744706), 1882953283),
    ("uniform", (15, "float64"), "fce256332041", "af976a0f4c6a", 879820150),
    ("uniform", (15, "float64", -0.3, 2.5), "0105a2714717", "38b0602d85b8", 879820150),
    ("normal", (15, "float64"),
     (-0.1467950974849952, 1.3954507962006726), (1.3470226203485132, 1.930198142133551), 879820150),
    ("normal", (15, "float64", 1.5, 0.02),
     (1.4970640980503, 1.5279090159240134), (1.5269404524069703, 1.538603962842671), 879820150),
    ("normal", (15, "float64", 1.5, 0.02, False),
     (1.4970640980503, 1.5279090159240134), (1.5269404524069703, 1.538603962842671), 879820150),
    ("uniform", (16, "float64"), "55e12d49767a", "c54cfd8bbf2e", 1599380060),
    ("uniform", (16, "float64", -0.3, 2.5), "cd134d978c30", "b615f91a3bc6", 1599380060),
    ("normal", (16, "float64"),
     (0.06626753966449943, -1.0492146121597965), (0.12877206565947644, 0.45257550210102954), 1599380060),
    ("normal", (16, "float64", 1.5, 0.02),
     (1.50132535079329, 1.479015707756804), (1.5025754413131895, 1.5090515100420205), 1599380060),
    ("normal", (16, "float64", 1.5, 0.02, False),
     (1.4970640980503, 1.5269404524069703), (1.5487641632462366, 1.4983362723731066), 1599380060),
    ("uniform", (37, "float64"), "0fe2e208efae", "d1c4f1549619", 1038725798),
    ("uniform", (37, "float64", -0.3, 2.5), "36a995e11fe7", "8a70cbe1f4ef", 1038725798),
    ("normal", (37, "float64"),
     (0.06626753966449943, 0.6869951990820099), (-1.7196224128603383, 2.1794688860578373), 1379662071),
    ("normal", (37, "float64", 1.5, 0.02),
     (1.50132535079329, 1.5137399039816402), (1.4656075517427933, 1.5435893777211567), 1379662071),
    ("normal", (37, "float64", 1.5, 0.02, False),
     (1.4970640980503, 1.5026106852220145), (1.5066051144309351, 1.5136086054970077), 1038725798),
    ("uniform", (1000, "float64"), "b6c3547a5861", "6ed9ff2119a3", 424996818),
    ("uniform", (1000, "float64", -0.3, 2.5), "faa8fd53dd2b", "76f5dec7c76c", 424996818),
    ("normal", (1000, "float64"),
     (0.06626753966449943, -0.47778118391520147), (-0.622596354403892, 0.5965755126994288), 649365813),
    ("normal", (1000, "float64", 1.5, 0.02),
     (1.50132535079329, 1.490444376321696), (1.4875480729119221, 1.5119315102539885), 649365813),
    ("normal", (1000, "float64", 1.5, 0.02, False),
     (1.4970640980503, 1.4856575505374854), (1.4786313124874373, 1.4905215678221742), 424996818),
    ("random", (20, "float64"), "d9f7a2c5ed4a", "da0d0da46d7f", 1944945571),
    ("random", (20, "float64", -5, 77), "149b0d3734de", "4abafab779f7", 431854331),
    ("exponential", (5, "float64", 2.0),
     (0.1638219614915395, 1.2789281746570265), (0.9148720457069704, 0.7122208578679312), 769786948),
    ("geometric", (5, "float64", 0.3), "d78659571b84", "12c14d42c638", 769786948),
    ("cauchy", (5, "float64", 1.0, 2.0),
     (-0.6611115499249394, 9.054664112297473), (4.625710523436556, 3.1211836822358894), 769786948),
    ("log_normal", (5, "float64", 1.0, 2.0),
     (2.0267019263526733, 79.96429732229538), (0.45400105445958694, 0.09400597150251745), 769786948),
    ("exponential", (20, "float64", 2.0),
     (0.1638219614915395, 2.5270537545110843), (1.2897762089261653, 0.2142080599146611), 1944945571),
    ("geometric", (20, "float64", 0.3), "838e228dc8fb", "0a73c4230b1b", 1944945571),
    ("cauchy", (20, "float64", 1.0, 2.0),
     (-0.6611115499249394, 100.72244235829422), (9.238424173811387, -0.0312711984105587), 1944945571),
    ("log_normal", (20, "float64", 1.0, 2.0),
     (2.0267019263526733, 156.21036377346127), (95.4220838621531, 0.4296283790251486), 1944945571),
    ("uniform", (1, "float16"), "2022230f1eba", "a5f9f6cc3358", 1202242073),
    ("uniform", (1, "float16", -0.3, 2.5), "ced67708aedd", "f860bf530f91", 1202242073),
    ("normal", (1, "float16"), "c0f4e79c696a", "51dbfe12f007", 1882953283),
    ("normal", (1, "float16", 1.5, 0.02), "c924d8f3a06e", "8fc06a4fb7ec", 1882953283),
    ("normal", (1, "float16", 1.5, 0.02, False), "c924d8f3a06e", "8fc06a4fb7ec", 1882953283),
    ("uniform", (15, "float16"), "80c7064bfee0", "c30724309277", 1759190803),
    ("uniform", (15, "float16", -0.3, 2.5), "d74935b85c91", "e2267811baf9", 1759190803),
    ("normal", (15, "float16"), "31f22dc3d872", "1492eb9b3cfd", 879820150),
    ("normal", (15, "float16", 1.5, 0.02), "09d5943a6dea", "1ab66611a932", 879820150),
    ("normal", (15, "float16", 1.5, 0.02, False), "09d5943a6dea", "1ab66611a932", 879820150),
    ("uniform", (16, "float16"), "ab7b52d0000f", "10d5d2cca5ea", 916483116),
    ("uniform", (16, "float16", -0.3, 2.5), "98885d199764", "c4967103709a", 916483116),
    ("normal", (16, "float16"), "29efcaac30f8", "83eb1beec9f2", 916483116),
    ("normal", (16, "float16", 1.5, 0.02), "60835af94346", "7bf43e93999a", 916483116),
    ("normal", (16, "float16", 1.5, 0.02, False), "e1219ddaf098", "e37346bb2c1c", 1599380060),
    ("uniform", (37, "float16"), "d1be8a76717f", "4034cf833d28", 1348596887),
    ("uniform", (37, "float16", -0.3, 2.5), "435ba5b9d3f4", "e1560e0c98b1", 1348596887),
    ("normal", (37, "float16"), "b7a1e51bab01", "70d3677d5f94", 775033821),
    ("normal", (37, "float16", 1.5, 0.02), "b4d781fe009a", "d6715b607f73", 775033821),
    ("normal", (37, "float16", 1.5, 0.02, False), "ce2da52e0cba", "1e1512cb19da", 1038725798),
    ("uniform", (1000, "float16"), "48f7c4480078", "935c8e8cd792", 359857568),
    ("uniform", (1000, "float16", -0.3, 2.5), "d25a81b0ab38", "ede2515f1ca2", 359857568),
    ("normal", (1000, "float16"), "e04b4c3b02dc", "bb4f9e656edf", 1954302775),
    ("normal", (1000, "float16", 1.5, 0.02), "49d77fed13af", "9290902c88d7", 1954302775),
    ("normal", (1000, "float16", 1.5, 0.02, False), "4b5c3fd6a5c9", "b576cebfdacb", 424996818),
    ("random", (20, "float16"), "48c2f78d90a0", "50c90f7f0917", 431854331),
    ("random", (20, "float16", -5, 77), "6a1b6f3d0adf", "704de8f7dc62", 431854331),
    ("exponential", (5, "float16", 2.0), "e02e39983e13", "ea942942943c", 769786948),
    ("geometric", (5, "float16", 0.3), "8bb6a42653aa", "7ca39d8e84ae", 769786948),
    ("cauchy", (5, "float16", 1.0, 2.0), "5802cf392c92", "1ab9a2a79c1e", 769786948),
    ("log_normal", (5, "float16", 1.0, 2.0), "5b293c9a1366", "4efcfeb562b7", 769786948),
    ("exponential", (20, "float16", 2.0), "75a8d926992d", "5e78f0d78df7", 1944945571),
    ("geometric", (20, "float16", 0.3), "699b524a937c", "09e6d5d05f8f", 1944945571),
    ("cauchy", (20, "float16", 1.0, 2.0), "2013e9e9fb34", "2e8a85e04eca", 1944945571),
    ("log_normal", (20, "float16", 1.0, 2.0), "f72d5ca192b9", "b5bb0ca59a08", 1944945571),
    ("uniform", (1, "bfloat16"), "8f7ca58833ba", "1a30b02776f3", 1202242073),
    ("uniform", (1, "bfloat16", -0.3, 2.5), "c4ba5856f1dd", "6171bbcb370c", 1202242073),
    ("normal", (1, "bfloat16"), "8aef585e5efb", "00bd70843c06", 1882953283),
    ("normal", (1, "bfloat16", 1.5, 0.02), "a0c1c13894ba", "e77ea7aa35d9", 1882953283),
    ("normal", (1, "bfloat16", 1.5, 0.02, False), "a0c1c13894ba", "e77ea7aa35d9", 1882953283),
    ("uniform", (15, "bfloat16"), "cf449010131d", "d79962f94fcc", 1759190803),
    ("uniform", (15, "bfloat16", -0.3, 2.5), "f8db5313c17e", "7433d9691a77", 1759190803),
    ("normal", (15, "bfloat16"), "f4c908bdcf61", "118d1ad35f97", 879820150),
    ("normal", (15, "bfloat16", 1.5, 0.02), "e2aed249578d", "e3fb50246618", 879820150),
    ("normal", (15, "bfloat16", 1.5, 0.02, False), "e2aed249578d", "e3fb50246618", 879820150),
    ("uniform", (16, "bfloat16"), "e6eee1545e1c", "07aa6c7be07f", 916483116),
    ("uniform", (16, "bfloat16", -0.3, 2.5), "4356a5314346", "4e5963f253a9", 916483116),
    ("normal", (16, "bfloat16"), "28036bdb23e5", "5bb4bcce04b9", 916483116),
    ("normal", (16, "bfloat16", 1.5, 0.02), "401d63c9f077", "5622b1574b15", 916483116),
    ("normal", (16, "bfloat16", 1.5, 0.02, False), "4f544b19a43f", "870d8291a3e6", 1599380060),
    ("uniform", (37, "bfloat16"), "210199e5e4d3", "e1c5b904aeae", 1348596887),
    ("uniform", (37, "bfloat16", -0.3, 2.5), "e5eedef5a657", "f3a0b57015dc", 1348596887),
    ("normal", (37, "bfloat16"), "d45388400bf2", "6d90749a8fe4", 775033821),
    ("normal", (37, "bfloat16", 1.5, 0.02), "75450345a560", "e980b0f07fdc", 775033821),
    ("normal", (37, "bfloat16", 1.5, 0.02, False), "e9ee37a78bde", "c3abe21cd016", 1038725798),
    ("uniform", (1000, "bfloat16"), "799800e6cd36", "6041f01238d2", 359857568),
    ("uniform", (1000, "bfloat16", -0.3, 2.5), "3e5fc9310d11", "212143cb5552", 359857568),
    ("normal", (1000, "bfloat16"), "4f7b05326259", "97a6bc440841", 1954302775),
    ("normal", (1000, "bfloat16", 1.5, 0.02), "f15dfff33ad0", "b026c6d76b2c", 1954302775),
    ("normal", (1000, "bfloat16", 1.5, 0.02, False), "0ecd65ff1b3a", "bd3aea7edb52", 424996818),
    ("random", (20, "bfloat16"), "bb2db70b2eb3", "b071a030330f", 431854331),
    ("random", (20, "bfloat16", -5, 77), "610dd92f0794", "7b5fd89b4bb1", 431854331),
    ("exponential", (5, "bfloat16", 2.0), "0bac53e5510c", "58bfa04d1ec9", 769786948),
    ("geometric", (5, "bfloat16", 0.3), "9c3a732f8fb6", "360c4b64bebd", 769786948),
    ("cauchy", (5, "bfloat16", 1.0, 2.0), "77bd218244e4", "4c0f0091eff0", 769786948),
    ("log_normal", (5, "bfloat16", 1.0, 2.0), "ef57c873ca95", "79320d851fc9", 769786948),
    ("exponential", (20, "bfloat16", 2.0), "94012dda1598", "10dccde7f229", 1944945571),
    ("geometric", (20, "bfloat16", 0.3), "5bd7dde52f8e", "3d68e9e605f9", 1944945571),
    ("cauchy", (20, "bfloat16", 1.0, 2.0), "bd8e5a2829a8", "4431b9cdfcd1", 1944945571),
    ("log_normal", (20, "bfloat16", 1.0, 2.0), "67232bd626ef", "84994cba6a83", 1944945571),
    ("random", (20, "int64"), "bb9b6d3c71ed", "d1b6ee39491f", 1944945571),
    ("random", (20, "int32"), "606e379622d5", "5f691fc40d4e", 431854331),
    ("random", (20, "int16"), "8d1324ffbf4c", "5cd034e66541", 431854331),
    ("random", (20, "int8"), "87e737623bdd", "01ee89cfc5d1", 431854331),
    ("random", (20, "uint8"), "fc536c2dc32e", "b4ef581f5dfb", 431854331),
    ("random", (20, "bool"), "64d8ee0aeb7e", "64d0304a727a", 431854331),
    ("random", (20, "int64", 0, 100), "4e3591df7752", "1d1efe7beb13", 431854331),
    ("random", (20, "int64", 0, 64), "c5b3a39c8e57", "efbd005140e0", 431854331),
    ("random", (20, "int64", 0, 268435455), "72ae9a52d82e", "3041494eede0", 431854331),
    ("random", (20, "int64", 0, 268435456), "55a8f79bc1de", "3b90830f1254", 1944945571),
    ("random", (20, "int64", -2147483648, 2147483648), "423eeab640b4", "b9655d5c564b", 1944945571),
    ("random", (20, "int64", -4611686018427387904, 4611686018427387904), "ff00c45ad8dd", "4695a2e30063", 1944945571),
    ("random", (20, "int64", 5, 9223372036854775807), "432cc0fd2d08", "fa78fbf9e9e9", 1944945571),
    ("random", (20, "int64", -7), "9eb868049447", "d7d088242d0e", 1944945571),
    ("bernoulli", (50, 0.0), "cc2786e1f991", "cc2786e1f991", 297435369),
    ("bernoulli", (50, 0.3), "1005c05484f8", "698ac3c3a286", 297435369),
    ("bernoulli", (50, 1.0), "9df8bff0a706", "9df8bff0a706", 297435369),
]
# fmt: on


def drawn(generator: rng.Generator, name: str, arguments: tuple) -> np.ndarray:
    """The sample as an array (bfloat16 as bits) of a tensor filled in place; a last False: of one that isn't contiguous."""
    n, dtype, *rest = arguments if name != "bernoulli" else (arguments[0], "bool", *arguments[1:])
    out = torch.empty(n, dtype=getattr(torch, dtype))
    if rest and rest[-1] is False:
        out = torch.empty(n, 2, dtype=getattr(torch, dtype))[:, 1]
        rest.pop()
    if name == "random" and len(rest) == 1:
        rest.append(None)
    getattr(out, name + "_")(*rest, generator=generator)
    return out.view(torch.int16).contiguous().numpy() if dtype == "bfloat16" else out.contiguous().numpy()


def summary(sample: np.ndarray, name: str, dtype: str) -> object:
    if dtype == "float64" and name in ("normal", "exponential", "cauchy", "log_normal"):
        return pytest.approx((sample[0], sample[-1]), rel=1e-14)
    return hashlib.sha256(sample.tobytes()).hexdigest()[:12]


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case[0]}{case[1]}")
def test_samplers_reproduce_recorded_streams(case: tuple) -> None:
    name, arguments, first, second, after = case
    generator = rng.Generator().manual_seed(7)
    dtype = arguments[1] if len(arguments) > 1 else ""
    for expected in (first, second):
        assert expected == summary(drawn(generator, name, arguments), name, dtype)
    assert torch.empty(1, dtype=torch.int32).random_(generator=generator).item() == after


def uniform(generator: rng.Generator, n: int) -> np.ndarray:
    return drawn(generator, "uniform", (n, "float32"))


def normal(generator: rng.Generator, n: int) -> np.ndarray:
    return drawn(generator, "normal", (n, "float32"))


def test_printed_values() -> None:
    """The figures that every PyTorch user has seen."""
    generator = rng.Generator(0)
    np.testing.assert_array_equal(uniform(generator, 3), np.float32([0.4962565899, 0.7682217956, 0.0884774327]))
    expected = [1.5409960746765137, -0.293428897857666, -2.1787893772125244, 0.5684312582015991]
    assert normal(rng.Generator(0), 4).tolist() == expected
    assert normal(rng.Generator(0), 20)[:3].tolist() == [-1.1258398294448853, -1.152360200881958, -0.2505785822868347]


def test_a_serial_normal_waits_across_other_calls_and_is_dropped_by_seeding() -> None:
    generator = rng.Generator(0)
    pair = normal(rng.Generator(0), 2)
    assert normal(generator, 1)[0] == pair[0]
    uniform(generator, 5)
    normal(generator, 16)
    assert normal(generator, 1)[0] == pair[1]
    normal(generator, 1)
    assert normal(generator.manual_seed(0), 1)[0] == pair[0]


def test_seeds() -> None:
    generator = rng.Generator()
    assert generator.initial_seed() == rng.DEFAULT_SEED == 67280421310721
    assert generator.manual_seed(-1) is generator
    assert generator.initial_seed() == 2**64 - 1
    assert uniform(generator, 2).tolist() == [0.9937993884086609, 0.5713063478469849]
    assert uniform(generator.manual_seed(2**32 + 5), 1)[0] == np.float32(0.8302518725395203)  # the low 32 bits count
    assert generator.seed() == generator.initial_seed()
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        generator.manual_seed(2**64)
    for wrong in (1.5, "a", True, None):
        with pytest.raises(RuntimeError, match=f"manual_seed expected a long, but got {type(wrong).__name__}"):
            generator.manual_seed(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an integer is required"):
        generator.manual_seed(np.int64(4))  # type: ignore[arg-type]


def test_state_has_pytorchs_bytes() -> None:
    generator = rng.Generator(0)
    fresh = generator.get_state()
    assert fresh.dtype == np.uint8 and fresh.shape == (5056,)
    assert fresh[8:12].tolist() == [1, 0, 0, 0] and fresh[16] == 0  # one left, next 0: seeded, nothing drawn
    normal(generator, 3)
    state = generator.get_state()
    assert state[:28].tolist() == [*[0] * 8, 105, 2, 0, 0, 1, 0, 0, 0, 8, *[0] * 7, 18, 13, 161, 145]
    assert state[5024:5044].tolist() == [13, 53, 62, 202, 150, 48, 226, 63, *[0] * 8, 1, 0, 0, 0]
    generator.draw32(616)
    end = generator.get_state()
    assert end[8] == 1 and end[16:18].tolist() == [112, 2]  # one left, next 624


def test_state_returns() -> None:
    generator = rng.Generator(3)
    normal(generator, 5)
    state, clone = generator.get_state(), generator.clone_state()
    copies = [clone, copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    expected = np.concatenate([normal(generator, 5), uniform(generator, 700), normal(generator, 3)])
    for other in copies:
        np.testing.assert_array_equal(np.concatenate([normal(other, 5), uniform(other, 700), normal(other, 3)]), expected)
    generator.set_state(state)
    np.testing.assert_array_equal(generator.get_state(), state)
    np.testing.assert_array_equal(normal(generator, 5), expected[:5])


def test_bad_states() -> None:
    generator = rng.Generator()
    with pytest.raises(TypeError, match="RNG state must be a"):
        generator.set_state(np.zeros(5056, np.float32))
    with pytest.raises(RuntimeError, match="size 5056 but found the input RNG state size to be 10"):
        generator.set_state(np.zeros(10, np.uint8))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        generator.set_state(np.zeros(5056, np.uint8))


def test_generators_are_independent() -> None:
    one, other = rng.Generator(0), rng.Generator(0)
    uniform(one, 1000)
    np.testing.assert_array_equal(uniform(other, 3), uniform(rng.Generator(0), 3))


@pytest.mark.parametrize("n", [0, 1, 623, 624, 625, 5000])
def test_raw_stream_is_the_classic_twister(n: int) -> None:
    whole = np.frombuffer(np.random.RandomState(5).bytes(4 * 2 * n), "<u4")
    generator = rng.Generator(5)
    np.testing.assert_array_equal(np.concatenate([generator.draw32(n), generator.draw32(n)]), whole)
    pairs = whole.astype(np.uint64).reshape(n, 2)
    np.testing.assert_array_equal(rng.Generator(5).draw64(n), pairs[:, 0] << np.uint64(32) | pairs[:, 1])


@pytest.mark.parametrize("name", ["uniform", "exponential", "random", "bernoulli", "log_normal"])
def test_large_fills_continue_the_same_stream(name: str) -> None:
    arguments = {"random": (0, 2**40), "bernoulli": (0.3,)}.get(name, ())
    whole, parts = rng.Generator(1), rng.Generator(1)
    large = getattr(torch.empty(40000), name + "_")(*arguments, generator=whole)
    pieces = [getattr(torch.empty(size), name + "_")(*arguments, generator=parts) for size in (16383, 16384, 40000 - 32767)]
    assert torch.equal(large, torch.cat(pieces))
    np.testing.assert_array_equal(whole.get_state(), parts.get_state())


def test_chances_given_as_a_tensor() -> None:
    chances = torch.arange(8) / 8
    draw = lambda given: torch.empty(8).bernoulli_(given, generator=rng.Generator(0)).int().tolist()
    assert draw(chances) == [0, 0, 1, 1, 1, 0, 1, 0]
    assert draw(chances.double()) == [0, 0, 0, 0, 0, 0, 1, 1]
    # elements and their chances are taken in the order of memory
    turned = torch.empty(4, 2).t().bernoulli_(chances.view(4, 2).t(), generator=rng.Generator(0))
    assert turned.t().reshape(-1).int().tolist() == [0, 0, 1, 1, 1, 0, 1, 0]


def test_counts_and_gamma() -> None:
    eighths = torch.arange(8) / 8
    assert torch.poisson(eighths * 30, rng.Generator(0)).tolist() == [0, 7, 8, 8, 19, 21, 23, 27]
    assert torch.binomial(torch.full((8,), 100.0), eighths, rng.Generator(0)).tolist() == [0, 14, 20, 39, 49, 65, 75, 88]
    assert torch.binomial(
        torch.tensor([3.0, 3.0, 3.0, float("nan")]), torch.tensor([0.0, 1.0, float("nan"), 0.5])
    ).tolist() == pytest.approx([0, 3, float("nan"), float("nan")], nan_ok=True)
    gamma = ["0x1.1f740ap-21", "0x1.69af3p-5", "0x1.097e9ep-1", "0x1.f6dfd6p+0",
             "0x1.601302p+0", "0x1.2a1486p+1", "0x1.1dd6b6p-1", "0x1.18d7ecp+1"]  # fmt: skip
    assert torch._standard_gamma(eighths * 2 + 0.25, rng.Generator(0)).tolist() == [float.fromhex(x) for x in gamma]
    smallest = torch._standard_gamma(torch.tensor([0.0, 1e-9, float("nan")]), rng.Generator(0))
    assert smallest.tolist() == [torch.finfo(torch.float32).tiny] * 3


@pytest.mark.parametrize("sample", [torch.poisson, torch._standard_gamma, lambda x: torch.binomial(x, x / 50)])
def test_samples_of_transposed_parameters_are_drawn_row_by_row(sample) -> None:
    rates = torch.arange(12.0).view(3, 4) * 4 + 1
    torch.manual_seed(3)
    expected = sample(rates.t().contiguous())
    torch.manual_seed(3)
    got = sample(rates.t())
    assert got.stride() == (3, 1) and torch.equal(got, expected)


def test_rrelu_slopes() -> None:
    x = torch.tensor([-1.0, 2.0, -1.0, -1.0, 2.0, -1.0], dtype=torch.float64)
    torch.manual_seed(0)
    made = torch.nn.functional.rrelu(x, 0.1, 0.3, training=True)
    assert made.tolist() == [-0.2940106003613106, 2.0, -0.2415639728799576, -0.19187658862549017, 2.0, -0.28414953682439203]


@pytest.mark.parametrize("n", [1, 7, 8, 9, 511, 512, 513, 2000])
def test_slopes_take_the_words_of_uniform_numbers_in_turn(n: int) -> None:
    torch.manual_seed(n)
    x = torch.randn(n, dtype=torch.float64)
    x[n // 2], x[n // 3] = float("nan"), -0.0
    torch.manual_seed(5)
    units = torch.rand(int((x <= 0).sum()), dtype=torch.float64)
    following = torch.rand(1)
    for dtype in (torch.float64, torch.float32):
        torch.manual_seed(5)
        made = torch.nn.functional.rrelu(x.to(dtype), 0.25, 0.5, training=True)
        taken = x <= 0
        assert made[taken].equal(x.to(dtype)[taken] * (units * 0.25 + 0.25).to(dtype))
        assert made[x > 0].equal(x.to(dtype)[x > 0]) and made.isnan().equal(x.isnan())
        assert torch.rand(1).equal(following)


def test_what_samplers_refuse() -> None:
    with pytest.raises(RuntimeError, match=r"Exponential distribution is a continuous .* but you specified Long"):
        torch.empty(2, dtype=torch.int64).exponential_()
    with pytest.raises(RuntimeError, match=r"Cauchy distribution is a continuous .* but you specified long int"):
        torch.empty(2, dtype=torch.int64).cauchy_()
    for call, kernel in ((lambda x: x.geometric_(0.3), "geometric_cpu"), (lambda x: x.log_normal_(), "log_normal_cpu")):
        with pytest.raises(NotImplementedError, match=f"\"{kernel}\" not implemented for 'Bool'"):
            call(torch.empty(2, dtype=torch.bool))


@pytest.mark.parametrize(
    ("shape", "strides", "order"),
    [((3, 4), (4, 1), (0, 1)), ((3, 4), (1, 3), (1, 0)), ((2, 3, 4, 5), (60, 1, 15, 3), (0, 2, 3, 1)), ((), (), ())],
)
def test_drawing_order_is_the_order_in_memory(shape: tuple, strides: tuple, order: tuple) -> None:
    assert rng.drawing_order(shape, strides) == order
