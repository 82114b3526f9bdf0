"""Programs that train: the loop, clipping, accumulation, mixed precision, early stopping.

From the same seed they must print the losses that PyTorch prints.
"""

import random

import numpy as np
import pytest
from implementation import torch

nn, F = torch.nn, torch.nn.functional
DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset


def train_epoch(model, loader, optimizer, criterion, device, scheduler=None, max_grad_norm=1.0):
    model.train()
    total_loss = 0.0
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        total_loss += loss.item()
    return total_loss / len(loader)


@torch.no_grad()
def evaluate(model, loader, criterion, device):
    model.eval()
    total_loss, correct, total = 0.0, 0, 0
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        outputs = model(inputs)
        total_loss += criterion(outputs, targets).item()
        preds = outputs.argmax(dim=1)
        correct += (preds == targets).sum().item()
        total += targets.size(0)
    return total_loss / len(loader), correct / total


def set_seed(seed=42):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def separable(count=256):
    """Points of the plane in three classes."""
    points = torch.randn(count, 2)
    return TensorDataset(points, (points[:, 0] > 0).long() + (points[:, 1] > 0).long())


def small_model():
    return nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3))


def test_the_whole_loop_learns():
    set_seed(42)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, test = torch.utils.data.random_split(separable(320), [256, 64])
    train_loader, test_loader = DataLoader(train, batch_size=32, shuffle=True), DataLoader(test, batch_size=64)
    model, epochs = small_model().to(device), 12
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-2, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-2, total_steps=epochs * len(train_loader))
    criterion = nn.CrossEntropyLoss()
    losses = [train_epoch(model, train_loader, optimizer, criterion, device, scheduler) for _ in range(epochs)]
    loss, accuracy = evaluate(model, test_loader, criterion, device)
    assert losses[-1] < losses[0] / 2 and accuracy > 0.9 and loss < 0.4


def test_the_same_seed_gives_the_losses_of_pytorch():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
    assert model[0].weight.sum().item() == pytest.approx(EXPECTED["weights"], rel=1e-5)
    data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=12)
    criterion, losses = nn.CrossEntropyLoss(), []
    for _ in range(3):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
    assert losses == pytest.approx(EXPECTED["losses"], abs=5e-6)
    assert norm.item() == pytest.approx(EXPECTED["norm"], rel=1e-4)
    model.eval()
    with torch.no_grad():
        assert (model(data.tensors[0]).argmax(1) == data.tensors[1]).sum().item() == EXPECTED["correct"]


EXPECTED = {
    "weights": -1.816197156906128,
    "losses": [1.159423, 1.188075, 1.076561, 1.11534, 1.179655, 1.036531]
    + [1.066623, 1.112067, 1.099471, 1.044384, 0.993158, 1.203967],
    "norm": 0.784544050693512,
    "correct": 25,
}


def test_random_streams_are_those_of_pytorch():
    torch.manual_seed(0)
    assert torch.randn(3).tolist() == pytest.approx([1.5409960746765137, -0.293428897857666, -2.1787893772125244])
    assert torch.rand(2).tolist() == pytest.approx([0.455627977848053, 0.6323062777519226])
    assert torch.randint(0, 10, (5,)).tolist() == [1, 6, 6, 9, 8]
    assert torch.randperm(6).tolist() == [2, 0, 1, 5, 3, 4]
    assert torch.randn(16).sum().item() == pytest.approx(9.903358459472656, rel=1e-5)
    torch.manual_seed(1)
    assert F.dropout(torch.ones(12), 0.5).tolist() == [2, 2, 2, 2, 0, 2, 2, 0, 0, 2, 0, 2]


def test_seeding_repeats_a_run():
    def first_losses():
        set_seed(7)
        model, loader = small_model(), DataLoader(separable(), batch_size=32, shuffle=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return [train_epoch(model, loader, optimizer, nn.CrossEntropyLoss(), "cpu") for _ in range(2)]

    assert first_losses() == first_losses()


def test_clipping_keeps_the_direction():
    w = nn.Parameter(torch.tensor([3.0, 4.0]))
    (w**2).sum().backward()
    norm = nn.utils.clip_grad_norm_([w], max_norm=1.0)
    assert norm.item() == 10 and w.grad.tolist() == pytest.approx([0.6, 0.8], abs=1e-6)
    assert nn.utils.clip_grad_norm_([w], max_norm=5.0).item() == pytest.approx(1, abs=1e-6)
    nn.utils.clip_grad_value_([w], 0.7)
    assert w.grad.max().item() == pytest.approx(0.7)


def test_accumulated_gradients_are_those_of_the_large_batch():
    model, criterion = small_model(), nn.CrossEntropyLoss()
    inputs, targets = separable(64).tensors
    criterion(model(inputs), targets).backward()
    whole = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    accumulation_steps = 4
    for part, labels in zip(inputs.chunk(accumulation_steps), targets.chunk(accumulation_steps)):
        (criterion(model(part), labels) / accumulation_steps).backward()
    for parameter, gradient in zip(model.parameters(), whole):
        torch.testing.assert_close(parameter.grad, gradient)


def test_accumulation_loop():
    model, optimizer = small_model(), None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader, accumulation_steps, updates = DataLoader(separable(), batch_size=32), 4, 0
    optimizer.zero_grad()
    for step, (inputs, targets) in enumerate(loader):
        loss = F.cross_entropy(model(inputs), targets) / accumulation_steps
        loss.backward()
        if (step + 1) % accumulation_steps == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            updates += 1
    assert updates == 2 and all(p.grad is None for p in model.parameters())


def test_mixed_precision_in_bfloat16():
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    inputs, targets = separable(64).tensors
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            outputs = model(inputs)
            loss = F.cross_entropy(outputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert outputs.dtype is torch.bfloat16 and loss.dtype is torch.float32
    assert model[0].weight.grad.dtype is torch.float32 and losses[-1] < losses[0]


def test_loss_scaling():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    inputs, targets = separable(64).tensors
    with torch.amp.autocast("cpu", dtype=torch.float16):
        loss = F.cross_entropy(model(inputs), targets)
    scaler.scale(loss).backward()
    scaled = model[0].weight.grad.norm().item()
    scaler.unscale_(optimizer)
    assert model[0].weight.grad.norm().item() == pytest.approx(scaled / 1024, rel=1e-4)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    before = model[0].weight.detach().clone()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(model[0].weight, before) and scaler.get_scale() == 1024.0

    optimizer.zero_grad()
    scaler.scale(model(inputs).sum()).backward()
    model[0].weight.grad[0, 0] = float("inf")
    before = model[0].weight.detach().clone()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(model[0].weight, before) and scaler.get_scale() == 512.0  # the step was skipped


def test_early_stopping_keeps_the_best_state(tmp_path):
    set_seed(0)
    model = small_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3)
    train_loader, val_loader = DataLoader(separable(), batch_size=64), DataLoader(separable(128), batch_size=128)
    best_val_loss, patience, patience_counter, history = float("inf"), 3, 0, []
    for epoch in range(60):
        train_epoch(model, train_loader, optimizer, nn.CrossEntropyLoss(), "cpu")
        val_loss, _ = evaluate(model, val_loader, nn.CrossEntropyLoss(), "cpu")
        history.append(val_loss)
        if val_loss < best_val_loss:
            best_val_loss, patience_counter = val_loss, 0
            state = {"epoch": epoch, "model_state_dict": model.state_dict(), "val_loss": val_loss}
            torch.save(state, tmp_path / "best_checkpoint.pt")
        else:
            patience_counter += 1
        if patience_counter >= patience:
            break
    checkpoint = torch.load(tmp_path / "best_checkpoint.pt")
    model.load_state_dict(checkpoint["model_state_dict"])
    val_loss, _ = evaluate(model, val_loader, nn.CrossEntropyLoss(), "cpu")
    assert val_loss == checkpoint["val_loss"] == min(history) == history[checkpoint["epoch"]]
