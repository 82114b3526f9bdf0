"""Train a small convolutional network on 1797 handwritten digits, in plain PyTorch.

    flambeau run examples/digits.py          # under flambeau
    python examples/digits.py                # under PyTorch: the same file, the same seed, the same numbers

It shows what most training programs are made of: a seeded split, augmentation, a network with batch norm and dropout,
AdamW with a one-cycle schedule, label smoothing, gradient clipping, validation, early stopping, a checkpoint of the
best state, and a test on images that nothing has looked at before. It needs NumPy to read the data, and matplotlib
(optional) for two pictures.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split

HERE = Path(__file__).resolve().parent
PATIENCE = 10  # epochs without a better validation loss before training stops


class DigitNet(nn.Module):
    """Three convolutions, two of them followed by pooling: images (N, 1, 8, 8) to logits (N, 10)."""

    def __init__(self, width: int = 24, dropout: float = 0.2) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 2 * width, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(dropout), nn.Linear(2 * width * 2 * 2, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(images))


class ProgressBar:
    """One line per epoch: redrawn in place on a terminal, printed once at the end anywhere else."""

    def __init__(self, title: str, total: int, width: int = 24) -> None:
        self.title, self.total, self.width = title, total, width
        self.live = sys.stdout.isatty()
        self.start = time.perf_counter()

    def draw(self, done: int, text: str) -> None:
        """Show `done` of the steps and the figures in `text`."""
        if not self.live and done < self.total:
            return
        filled = self.width * done // self.total
        seconds = time.perf_counter() - self.start
        line = f"{self.title} [{'#' * filled}{'.' * (self.width - filled)}] {seconds:5.2f} s  {text}"
        print(f"\r{line}\033[K" if self.live else line, end="", flush=True)

    def close(self, text: str) -> None:
        """End the line with `text`."""
        print(f"  {text}", flush=True)


def load_digits() -> TensorDataset:
    """The digits as images (1797, 1, 8, 8) float32, roughly standardized, and labels (1797,) int64."""
    with np.load(HERE / "data" / "digits.npz") as archive:
        images = torch.from_numpy(archive["images"]).float().unsqueeze(1)
        labels = torch.from_numpy(archive["labels"]).long()
    return TensorDataset((images - 5.0) / 6.0, labels)


def random_shift(images: torch.Tensor, reach: int = 1) -> torch.Tensor:
    """Move each image (N, 1, H, W) by up to `reach` pixels both ways; what comes in at the border is background."""
    count, _, height, width = images.shape
    padded = F.pad(images, (reach, reach, reach, reach), value=float(images.min()))
    shift = torch.randint(0, 2 * reach + 1, (count, 2), device=images.device)
    rows = shift[:, :1] + torch.arange(height, device=images.device)
    columns = shift[:, 1:] + torch.arange(width, device=images.device)
    which = torch.arange(count, device=images.device)[:, None, None]
    return padded[which, 0, rows[:, :, None], columns[:, None, :]].unsqueeze(1)


@torch.no_grad()
def evaluate(model: nn.Module, dataset: Dataset, criterion: nn.Module, device: torch.device) -> tuple[float, float]:
    """Mean loss and accuracy over a data set."""
    model.eval()
    loss, correct, total = 0.0, 0, 0
    for images, labels in DataLoader(dataset, batch_size=256):
        images, labels = images.to(device), labels.to(device)
        logits = model(images)
        loss += criterion(logits, labels).item() * len(labels)
        correct += (logits.argmax(dim=1) == labels).sum().item()
        total += len(labels)
    return loss / total, correct / total


class Trainer:
    """The network, what trains it, and the record of its losses."""

    def __init__(self, train: Dataset, epochs: int, batch_size: int, lr: float, device: torch.device) -> None:
        self.loader = DataLoader(train, batch_size=batch_size, shuffle=True, drop_last=True)
        self.device = device
        self.model = DigitNet().to(device)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=0.01)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, max_lr=lr, total_steps=epochs * len(self.loader))
        self.history: dict[str, list[float]] = {"step": [], "train": [], "validation": []}

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> tuple[float, int]:
        """One update of the weights; the loss before it, and how many of the images were recognized."""
        images, labels = random_shift(images.to(self.device)), labels.to(self.device)
        self.optimizer.zero_grad()
        logits = self.model(images)
        loss = self.criterion(logits, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=1.0)
        self.optimizer.step()
        self.scheduler.step()
        return loss.item(), int((logits.argmax(dim=1) == labels).sum().item())

    def epoch(self, bar: ProgressBar) -> None:
        """One pass over the training set."""
        self.model.train()
        losses, correct, seen = [], 0, 0
        for done, (images, labels) in enumerate(self.loader, start=1):
            loss, hits = self.step(images, labels)
            losses.append(loss)
            correct, seen = correct + hits, seen + len(labels)
            bar.draw(done, f"train loss {sum(losses) / done:.4f} accuracy {correct / seen:6.2%}")
        self.history["step"] += losses
        self.history["train"].append(sum(losses) / len(losses))

    def fit(self, validation: Dataset, epochs: int, checkpoint: Path) -> None:
        """Train, keep the state with the best validation loss in `checkpoint`, and end with that state."""
        best, best_epoch = float("inf"), 0
        for epoch in range(1, epochs + 1):
            bar = ProgressBar(f"epoch {epoch:2}/{epochs}", len(self.loader))
            self.epoch(bar)
            loss, accuracy = evaluate(self.model, validation, self.criterion, self.device)
            self.history["validation"].append(loss)
            better = loss < best
            bar.close(f"validation loss {loss:.4f} accuracy {accuracy:6.2%}{'  *' if better else ''}")
            if better:
                best, best_epoch = loss, epoch
                state = {"epoch": epoch, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
                torch.save(state, checkpoint)
            elif epoch - best_epoch >= PATIENCE:
                print(f"no better for {PATIENCE} epochs: stopping early")
                break
        state = torch.load(checkpoint, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        print(f"\nbest epoch {state['epoch']}, reloaded from {checkpoint}")


def draw_pictures(history: dict[str, list[float]], model: nn.Module, test: Dataset, device: torch.device, out: Path) -> None:
    """Save `losses.png` and `predictions.png` in `out`."""
    try:
        import matplotlib
    except ImportError:
        print("no pictures: matplotlib is not installed (pip install matplotlib)")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    steps_per_epoch = len(history["step"]) / len(history["train"])
    ends = [steps_per_epoch * (epoch + 1) for epoch in range(len(history["train"]))]
    axes.plot(history["step"], color="0.8", linewidth=0.7, label="each step")
    axes.plot(ends, history["train"], color="tab:blue", label="training, mean of the epoch")
    axes.plot(ends, history["validation"], color="tab:orange", label="validation")
    axes.set(xlabel="step", ylabel="cross entropy (label smoothing 0.1)", title="Handwritten digits")
    axes.legend()
    figure.savefig(out / "losses.png", dpi=120, bbox_inches="tight")

    images, labels = next(iter(DataLoader(test, batch_size=len(test))))
    with torch.no_grad():
        probabilities = model(images.to(device)).softmax(dim=1).cpu()
    confidence, predictions = probabilities.max(dim=1)
    order = torch.argsort(confidence)[:40].tolist()  # the hardest first
    figure, grid = pyplot.subplots(4, 10, figsize=(10, 5))
    for axes, index in zip(grid.flat, order, strict=True):
        prediction, label = predictions[index].item(), labels[index].item()
        axes.imshow(images[index, 0].numpy(), cmap="gray_r")
        axes.set_title(
            f"{prediction}" if prediction == label else f"{prediction}, is {label}",
            color="black" if prediction == label else "tab:red",
            fontsize=9,
        )
        axes.axis("off")
    figure.suptitle("The 40 test images with the least sure predictions")
    figure.savefig(out / "predictions.png", dpi=120, bbox_inches="tight")
    print(f"pictures: {out / 'losses.png'}, {out / 'predictions.png'}")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small convolutional network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=5e-3, help="the highest learning rate of the schedule")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE / "out", help="where the checkpoint and the pictures go")
    parser.add_argument(
        "--print-losses", type=int, metavar="N", help="print the losses of the first N steps with six digits, and exit"
    )
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    start = time.perf_counter()
    torch.manual_seed(options.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, validation, test = random_split(load_digits(), [1257, 180, 360])
    trainer = Trainer(train, options.epochs, options.batch_size, options.lr, device)

    if options.print_losses:
        trainer.model.train()
        printed = 0
        while printed < options.print_losses:
            for images, labels in trainer.loader:
                loss, _ = trainer.step(images, labels)
                printed += 1
                print(f"step {printed:3} loss {loss:.6f}", flush=True)
                if printed == options.print_losses:
                    return

    options.out.mkdir(parents=True, exist_ok=True)
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    print(f"{len(train)} images to train on, {len(validation)} to validate, {len(test)} to test")
    print(f"{parameters} parameters\n")
    trainer.fit(validation, options.epochs, options.out / "best.pt")
    loss, accuracy = evaluate(trainer.model, test, trainer.criterion, device)
    wrong = round((1 - accuracy) * len(test))
    print(f"test loss {loss:.4f}, accuracy {accuracy:.2%} ({wrong} of {len(test)} wrong)")
    draw_pictures(trainer.history, trainer.model, test, device, options.out)
    print(f"{time.perf_counter() - start:.1f} s in all")
    print(
        "\nTry next: --epochs 5 (how soon is it good?), --lr 0.05 (when does it break?), --seed 1 (is it luck?),\n"
        "no random_shift in Trainer.step (what does augmentation buy?), or your own network in place of DigitNet."
    )


if __name__ == "__main__":
    main()
