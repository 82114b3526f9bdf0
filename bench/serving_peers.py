"""Servers by FastAPI or LitServe and PyTorch: `python serving_peers.py KIND MODEL FOLDER PORT`. Used by bench/serving.py.

KIND is `fastapi` (a handler as FastAPI's documentation has it, which runs in a pool of threads), `fastapi-async` (the same in the
event loop) or `litserve` (batches of up to 32, as its documentation has them). MODEL is `mlp` or `embedder`, of serving_models.
"""

import sys
from typing import Any

import torch
from serving_models import loaded, tokenized

KIND, MODEL, FOLDER, PORT = sys.argv[1:5]
BATCH = 32


def computed(model: torch.nn.Module, values: list[Any]) -> list[list[float]]:
    """The answers to requests of one batch."""
    with torch.inference_mode():
        return model(torch.tensor(values) if MODEL == "mlp" else tokenized(values)).tolist()


def fastapi() -> None:
    import uvicorn
    from fastapi import FastAPI
    from pydantic import create_model

    Request = create_model("Request", data=(list[float] if MODEL == "mlp" else str, ...))
    model = loaded(MODEL, FOLDER)
    app = FastAPI()

    if KIND == "fastapi":

        @app.post("/predict")
        def predict(request: Request) -> list[float]:
            return computed(model, [request.data])[0]

    else:

        @app.post("/predict")
        async def predict_in_the_loop(request: Request) -> list[float]:
            return computed(model, [request.data])[0]

    uvicorn.run(app, port=int(PORT), log_level="warning")


if KIND == "litserve":  # its processes import this file again
    import litserve

    class API(litserve.LitAPI):
        def setup(self, device: str) -> None:
            self.model = loaded(MODEL, FOLDER)

        def decode_request(self, request: dict[str, Any], **_: Any) -> Any:
            return request["data"]

        def batch(self, inputs: list[Any]) -> list[Any]:
            return inputs

        def predict(self, inputs: list[Any], **_: Any) -> list[list[float]]:
            return computed(self.model, inputs)

        def unbatch(self, output: list[list[float]]) -> list[list[float]]:
            return output

        def encode_response(self, output: list[float], **_: Any) -> list[float]:
            return output


def batched() -> None:
    server = litserve.LitServer(API(max_batch_size=BATCH, batch_timeout=0.002), accelerator="cpu", workers_per_device=1)
    server.run(port=int(PORT), log_level="warning", generate_client_file=False)


if __name__ == "__main__":
    batched() if KIND == "litserve" else fastapi()
