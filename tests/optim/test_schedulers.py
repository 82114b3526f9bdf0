"""Schedulers' own behaviour: refusals and warnings in PyTorch's words, composition, metrics, saving."""

import gc
import pickle
import warnings
import weakref

import pytest

import flambeau as torch
from flambeau.optim import SGD, Adagrad, Adam
from flambeau.optim.lr_scheduler import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)


def optimizer(kind=SGD, **options):
    return kind([torch.zeros(2, requires_grad=True)], lr=options.pop("lr", 0.1), **options)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: StepLR(3, 3), TypeError, "int is not an Optimizer"),
        (lambda: StepLR(optimizer(), 3, verbose=True), TypeError, None),
        (lambda: LambdaLR(optimizer(), [len, len]), ValueError, "Expected 1 lr_lambdas, but got 2"),
        (
            lambda: ConstantLR(optimizer(), factor=2.0),
            ValueError,
            "Constant multiplicative factor expected to be between 0 and 1.",
        ),
        (
            lambda: LinearLR(optimizer(), start_factor=0.0),
            ValueError,
            "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.",
        ),
        (
            lambda: SequentialLR(optimizer(), [], []),
            ValueError,
            "SequentialLR expects at least one scheduler, but got no scheduler.",
        ),
        (lambda: ReduceLROnPlateau(optimizer(), factor=1.0), ValueError, "Factor should be < 1.0."),
        (lambda: ReduceLROnPlateau(optimizer(), mode="x"), ValueError, "mode x is unknown!"),
        (lambda: ReduceLROnPlateau(optimizer(), min_lr=[1, 2]), ValueError, "expected 1 min_lrs, got 2"),
        (
            lambda: CyclicLR(optimizer(Adagrad), 0.1, 0.2),
            ValueError,
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
        ),
        (
            lambda: CyclicLR(optimizer(), [0.1, 0.2], 0.2),
            ValueError,
            "base_lr must have the same length as optimizer.param_groups. base_lr has 2 values, param_groups has 1.",
        ),
        (lambda: OneCycleLR(optimizer(), 0.1), ValueError, "You must define either total_steps OR (epochs AND steps_per_epoch)"),
        (
            lambda: [scheduler.step() for scheduler in [OneCycleLR(optimizer(), 0.1, total_steps=2)] for _ in "abcd"],
            ValueError,
            "Tried to step 3 times. The specified number of total steps is 2",
        ),
        (lambda: CosineAnnealingWarmRestarts(optimizer(), 0), ValueError, "Expected positive integer T_0, but got 0"),
        (lambda: LRScheduler(optimizer()), NotImplementedError, ""),
    ],
)
@pytest.mark.filterwarnings("ignore:Detected call")
def test_refusals(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert message is None or str(caught.value) == message


def test_resuming_needs_initial_lr():
    with pytest.raises(KeyError, match="param 'initial_lr' is not specified in param_groups"):
        StepLR(optimizer(), 3, last_epoch=2)


def test_order_of_steps():
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        StepLR(optimizer(), 3).step()
    sgd = optimizer()
    scheduler = StepLR(sgd, 3)
    sgd.step = lambda: None
    with pytest.warns(UserWarning, match="has been overridden after learning rate scheduler initialization"):
        scheduler.step()
    sgd = optimizer()
    scheduler = StepLR(sgd, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sgd.step()
        scheduler.step()


def test_get_lr_is_for_step():
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        assert ExponentialLR(optimizer(), 0.9).get_lr() == [pytest.approx(0.09)]


def test_epoch_is_deprecated():
    sgd = optimizer()
    scheduler = StepLR(sgd, 3)
    sgd.step()
    with pytest.warns(UserWarning, match="The epoch parameter in `scheduler.step"):
        scheduler.step(7)
    assert scheduler.get_last_lr() == [pytest.approx(0.001)]


def test_sequential_and_chained_with_resume():
    def run(resume):
        sgd = optimizer()

        def build():
            parts = [LinearLR(sgd, 0.1, total_iters=3), StepLR(sgd, 2, gamma=0.5), ExponentialLR(sgd, 0.9)]
            return SequentialLR(sgd, [parts[0], ChainedScheduler(parts[1:], sgd)], [4])

        scheduler = build()
        rates = []
        for epoch in range(10):
            if epoch == resume:
                saved, lr = scheduler.state_dict(), sgd.param_groups[0]["lr"]
                scheduler = build()
                scheduler.load_state_dict(saved)
                sgd.param_groups[0]["lr"] = lr
            rates.append(scheduler.get_last_lr()[0])
            sgd.step()
            if epoch < 3:
                scheduler.step()
        return rates

    expected = [0.01, 0.04, 0.07] + [0.1] * 7
    assert run(None) == pytest.approx(expected) == run(2)


def test_chained_multiplies():
    sgd = optimizer(lr=1.0)
    scheduler = ChainedScheduler([StepLR(sgd, 2, gamma=0.1), ExponentialLR(sgd, 0.5)])
    rates = []
    for _ in range(4):
        rates.append(sgd.param_groups[0]["lr"])
        sgd.step()
        scheduler.step()
    assert rates == pytest.approx([1.0, 0.5, 0.025, 0.0125])


def test_sequential_switches():
    sgd = optimizer(lr=1.0)
    scheduler = SequentialLR(sgd, [ConstantLR(sgd, 0.1, total_iters=2), ExponentialLR(sgd, 0.5)], [2])
    rates = []
    for _ in range(5):
        rates.append(scheduler.get_last_lr()[0])
        sgd.step()
        scheduler.step()
    assert rates == pytest.approx([0.1, 0.1, 1.0, 0.5, 0.25])


def test_plateau():
    sgd = optimizer(lr=1.0)
    scheduler = ReduceLROnPlateau(sgd, factor=0.5, patience=1, cooldown=1, min_lr=0.3)
    rates = []
    for metric in [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 1.0, 1.0]:
        scheduler.step(torch.tensor(metric))
        rates.append(sgd.param_groups[0]["lr"])
    # two bad epochs, then one that does not count
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3]


def test_tensor_lr_is_filled():
    lr = torch.tensor(0.5)
    adam = optimizer(Adam, lr=lr)
    scheduler = StepLR(adam, 1, gamma=0.5)
    adam.step()
    scheduler.step()
    assert adam.param_groups[0]["lr"] is lr and lr.item() == 0.25
    assert scheduler.base_lrs[0].item() == 0.5


def test_saved_keys():
    scheduler = CyclicLR(optimizer(momentum=0.9), 0.1, 0.2, mode="exp_range", gamma=0.5)
    state = scheduler.state_dict()
    assert "optimizer" not in state and "_scale_fn_ref" not in state and state["_scale_fn_custom"] is None
    assert LambdaLR(optimizer(), lambda epoch: 1.0).state_dict()["lr_lambdas"] == [None]


def test_pickle():
    scheduler = pickle.loads(pickle.dumps(StepLR(optimizer(), 2)))
    assert scheduler.get_last_lr() == [0.1]


def test_options_that_are_tensors_are_copied():
    momentum, highest = torch.tensor(0.9), torch.tensor(0.2)
    for scheduler in (
        lambda o: CyclicLR(o, 0.1, highest, base_momentum=0.8, max_momentum=momentum),
        lambda o: OneCycleLR(o, highest, 10, base_momentum=0.8, max_momentum=momentum),
        lambda o: torch.optim.swa_utils.SWALR(o, swa_lr=highest),
    ):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        scheduler(optimizer)
        kept = {key: float(value) for key, value in optimizer.param_groups[0].items() if isinstance(value, torch.Tensor)}
        assert kept
        highest.mul_(0.5), momentum.mul_(0.5)
        assert {key: float(optimizer.param_groups[0][key]) for key in kept} == kept
        highest.fill_(0.2), momentum.fill_(0.9)


def test_an_optimizer_is_freed_with_its_scheduler():
    gc.collect()
    gc.disable()
    try:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        scheduler = StepLR(optimizer, 1)
        optimizer.step(), scheduler.step()
        watch = weakref.ref(optimizer)
        del optimizer, scheduler
        assert watch() is None
    finally:
        gc.enable()


def test_one_cycle_from_a_state_that_holds_its_function():
    def rates(state):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
        scheduler = OneCycleLR(optimizer, 25, total_steps=10)
        if state is not None:
            del scheduler._anneal_func_type
            scheduler.load_state_dict({**scheduler.state_dict(), **state})
        found = []
        for _ in range(9):
            optimizer.step(), scheduler.step()
            found.append(optimizer.param_groups[0]["lr"])
        return found

    assert rates({"anneal_func": OneCycleLR._annealing_cos}) == rates(None)
