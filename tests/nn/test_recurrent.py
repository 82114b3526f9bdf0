"""RNN, LSTM, GRU: layers against cells, packed against padded, states, errors."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils import rnn


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_layer_equals_its_cell(kind):
    layer, cell = getattr(nn, kind)(3, 4), getattr(nn, kind + "Cell")(3, 4)
    cell.load_state_dict({name.removesuffix("_l0"): tensor for name, tensor in layer.state_dict().items()})
    x = torch.rand(5, 2, 3)
    output, _ = layer(x)
    state = None
    for step in range(5):
        state = cell(x[step], state)
        hidden = state[0] if kind == "LSTM" else state
        assert torch.allclose(output[step], hidden, atol=1e-6)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_packed_equals_each_sequence_alone(kind):
    layer = getattr(nn, kind)(2, 3, num_layers=2, bidirectional=True)
    sequences = [torch.rand(length, 2) for length in (2, 5, 1, 5)]
    packed, state = layer(rnn.pack_sequence(sequences, enforce_sorted=False))
    padded, lengths = rnn.pad_packed_sequence(packed)
    assert lengths.tolist() == [2, 5, 1, 5]
    hidden = state[0] if kind == "LSTM" else state
    for position, sequence in enumerate(sequences):
        alone, alone_state = layer(sequence)
        assert torch.allclose(padded[: len(sequence), position], alone, atol=1e-6)
        alone_hidden = alone_state[0] if kind == "LSTM" else alone_state
        assert torch.allclose(hidden[:, position], alone_hidden, atol=1e-6)


def test_projection_shapes_and_names():
    layer = nn.LSTM(2, 5, proj_size=3, bidirectional=True, batch_first=True)
    output, (hidden, cell) = layer(torch.rand(4, 7, 2))
    assert (tuple(output.shape), tuple(hidden.shape), tuple(cell.shape)) == ((4, 7, 6), (2, 4, 3), (2, 4, 5))
    assert list(layer.state_dict())[:5] == [
        "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0",
    ]  # fmt: skip


def test_gradients_reach_every_weight():
    layer = nn.GRU(2, 3, num_layers=2, bidirectional=True)
    layer(torch.rand(4, 2, 2))[0].sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.LSTM(2, 2, proj_size=2), ValueError, "proj_size has to be smaller than hidden_size"),
        (lambda: nn.RNN(2, 2, nonlinearity="x"), ValueError, "Unknown nonlinearity 'x'. Select from 'tanh' or 'relu'."),
        (lambda: nn.RNN(2, 2)(torch.ones(2, 3)), RuntimeError,
         "input.size(-1) must be equal to input_size. Expected 2, got 3"),
        (lambda: nn.RNN(2, 2)(torch.ones(2, 3, 2), torch.ones(1, 2, 2)), RuntimeError,
         "Expected hidden size (1, 3, 2), got [1, 2, 2]"),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


def test_padding_sides():
    sequences = [torch.ones(2), torch.ones(1)]
    assert rnn.pad_sequence(sequences, batch_first=True).tolist() == [[1, 1], [1, 0]]
    assert rnn.pad_sequence(sequences, batch_first=True, padding_side="left").tolist() == [[1, 1], [0, 1]]


def test_packing_what_there_is_of_shorter_sequences():
    packed = nn.utils.rnn.pack_padded_sequence(torch.arange(6.0).reshape(3, 2, 1), torch.tensor([9, 2]))
    assert packed.data.flatten().tolist() == [0, 1, 2, 3, 4]
    assert packed.batch_sizes.tolist() == [2, 2, 1, 1, 1, 1, 1, 1, 1]
    for use in (nn.utils.rnn.pad_packed_sequence, nn.LSTM(1, 2), nn.GRU(1, 2, bidirectional=True)):
        with pytest.raises(RuntimeError):
            use(packed)


CELLS = {
    "lstm": (torch.nn.LSTMCell, 2),
    "gru": (torch.nn.GRUCell, 1),
    "tanh": (torch.nn.RNNCell, 1),
    "relu": (lambda *sizes: torch.nn.RNNCell(*sizes, nonlinearity="relu"), 1),
}


def _step_by_hand(kind, cell, x, states):
    gates, product = x @ cell.weight_ih.t() + cell.bias_ih, states[0] @ cell.weight_hh.t() + cell.bias_hh
    if kind in ("tanh", "relu"):
        return [getattr(torch, kind)(gates + product)]
    if kind == "gru":
        (a, b, c), (d, e, f) = gates.chunk(3, -1), product.chunk(3, -1)
        update, new = torch.sigmoid(b + e), torch.tanh(c + torch.sigmoid(a + d) * f)
        return [new + update * (states[0] - new)]
    i, f, g, o = (gates + product).chunk(4, -1)
    new = torch.sigmoid(f) * states[1] + torch.sigmoid(i) * torch.tanh(g)
    return [torch.sigmoid(o) * torch.tanh(new), new]


@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_is_its_formula_to_the_second_derivative(kind):
    make, count = CELLS[kind]
    torch.manual_seed(0)
    cell = make(3, 2).double()
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    states = [torch.randn(4, 2, dtype=torch.float64, requires_grad=True) for _ in range(count)]
    leaves = [x, *states, *cell.parameters()]
    call = lambda x, *states: cell(x, states[0] if count == 1 else states)
    for chosen in ([0], [count - 1], range(count)):  # gradients of one result, and of all
        derivatives = []
        found, expected = call(x, *states), _step_by_hand(kind, cell, x, states)
        found = [found] if count == 1 else list(found)
        torch.testing.assert_close(found, expected)
        for results in (found, expected):
            loss = sum((results[i] ** 3).sum() for i in chosen)
            first = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
            first = [torch.zeros_like(x) if g is None else g for g, x in zip(first, leaves)]
            derivatives.append((first, torch.autograd.grad(sum((g * g).sum() for g in first), leaves, allow_unused=True)))
        torch.testing.assert_close(derivatives[0][0], derivatives[1][0])
        torch.testing.assert_close(derivatives[0][1], derivatives[1][1])
    assert torch.autograd.gradcheck(call, (x, *states))
    assert torch.autograd.gradgradcheck(call, (x, *states))


@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_of_strided_operands_and_under_vmap(kind):
    make, count = CELLS[kind]
    torch.manual_seed(0)
    cell = make(3, 2)
    x, states = torch.randn(3, 5).t(), [torch.randn(2, 5).t() for _ in range(count)]
    call = lambda x, *states: cell(x, states[0] if count == 1 else states)
    dense = call(x.contiguous(), *[s.contiguous() for s in states])
    torch.testing.assert_close(call(x, *states), dense)
    torch.testing.assert_close(torch.vmap(call)(x, *states), dense)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_with_and_without_gradients(side, batch_first):
    sequences = [torch.randn(n, 3).t().contiguous().t() for n in (3, 0, 5, 2)]
    given = {"batch_first": batch_first, "padding_value": 7.0, "padding_side": side}
    plain = rnn.pad_sequence(sequences, **given)
    recorded = rnn.pad_sequence([x.clone().requires_grad_() for x in sequences], **given)
    assert torch.equal(plain, recorded) and plain.stride() == recorded.stride() and recorded.requires_grad
    rows = plain if batch_first else plain.transpose(0, 1)
    for row, x in zip(rows, sequences):
        kept = row[5 - len(x) :] if side == "left" else row[: len(x)]
        assert torch.equal(kept, x) and (row == 7).sum() == 3 * (5 - len(x))
    assert rnn.pad_sequence([torch.arange(3), torch.rand(2)]).dtype is torch.int64  # the first one's


def _by_cells(layer, kind, x, states):
    """The outputs and last states of a layer in both directions, by calls of cells; x (T, batch, features)."""
    outputs, last = [], []
    for direction, suffix in enumerate(("", "_reverse")):
        weights = [getattr(layer, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        call = getattr(torch, {"LSTM": "lstm_cell", "GRU": "gru_cell", "RNN": "rnn_tanh_cell"}[kind])
        state, made = [s[direction] for s in states], []
        for step in x.unbind(0)[:: -1 if direction else 1]:
            result = call(step, state if kind == "LSTM" else state[0], *weights)
            state = list(result) if kind == "LSTM" else [result]
            made.append(state[0])
        outputs.append(torch.stack(made[:: -1 if direction else 1]))
        last.append(state)
    return [torch.cat(outputs, -1), *(torch.stack(parts) for parts in zip(*last))]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_many_steps_are_calls_of_the_cell(kind, batch_first):
    torch.manual_seed(0)
    layer = getattr(nn, kind)(3, 9, bidirectional=True, batch_first=batch_first).double()
    for count, batch in ((1, 3), (2, 2), (140, 3), (4, 17)):
        x = torch.randn(count, batch, 3, dtype=torch.float64, requires_grad=True)
        states = [torch.randn(2, batch, 9, dtype=torch.float64, requires_grad=True) for _ in range(1 + (kind == "LSTM"))]
        given = x.transpose(0, 1) if batch_first else x
        output, last = layer(given, tuple(states) if kind == "LSTM" else states[0])
        found = [output.transpose(0, 1) if batch_first else output, *(last if kind == "LSTM" else [last])]
        expected = _by_cells(layer, kind, x, states)
        torch.testing.assert_close(found, expected)
        for weigh in (lambda r: r.sum(), lambda r: (r * r).mean(), lambda r: r[-1].sum()):
            for chosen in ([0], range(len(found))):  # gradients of the outputs alone, and of the last states as well
                leaves = [x, *states, *layer.parameters()]
                first, second = (
                    torch.autograd.grad(sum(weigh(results[i]) for i in chosen), leaves, retain_graph=True)
                    for results in (found, expected)
                )
                torch.testing.assert_close(first, second)
        with torch.no_grad():
            output, last = layer(given, tuple(states) if kind == "LSTM" else states[0])
        found = [output.transpose(0, 1) if batch_first else output, *(last if kind == "LSTM" else [last])]
        torch.testing.assert_close(found, [x.detach() for x in expected])


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_every_number_of_threads_gives_the_same_bits(kind):
    torch.manual_seed(0)
    layers = [
        (getattr(nn, kind)(5, 40), torch.randn(6, 13, 5)),
        (getattr(nn, kind)(5, 24), torch.randn(5, 19, 5)),
        (getattr(nn, kind)(5, 256), torch.randn(9, 1, 5)),
    ]
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append([])
            for layer, x in layers:
                layer.zero_grad()
                output = layer(x)[0]
                output.square().sum().backward()
                results[-1] += [output.detach(), *(p.grad for p in layer.parameters())]
    finally:
        torch.set_num_threads(before)
    for others in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], others))


@pytest.mark.parametrize("kind", ["RNN", "GRU"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bidirectional": True}, {"batch_first": True}], ids=str)
def test_outputs_may_be_written_to(kind, options):
    torch.manual_seed(0)
    layer = getattr(nn, kind)(4, 5, **options)
    x = torch.randn(3, 2, 4)
    gradients = []
    for write in (lambda y: y * 3 + 1, lambda y: y.mul_(3).add_(1)):
        layer.zero_grad()
        write(layer(x)[0]).pow(2).sum().backward()
        gradients.append([p.grad for p in layer.parameters()])
    for wanted, got in zip(*gradients, strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_no_time_steps_are_refused(kind):
    with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0 in RNN"):
        getattr(nn, kind)(4, 5)(torch.zeros(0, 2, 4))
    assert getattr(nn, kind)(4, 5)(torch.zeros(3, 0, 4))[0].shape == (3, 0, 5)
