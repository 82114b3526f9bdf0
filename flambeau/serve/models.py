"""From a path to what serves it: exported programs, TorchScript, checkpoints with a handler, archives, folders of libraries.

Nothing here comes from the network, and weights are read by torch.load(weights_only=True): what runs of a model's own is its
handler's Python file only. Stands on the handlers; used by host.
"""

from __future__ import annotations

import os
import zipfile
from typing import Any

import flambeau as torch
from flambeau.serve import archives
from flambeau.serve.handlers import torchserve
from flambeau.serve.handlers.base import Context
from flambeau.serve.handlers.generation import GenerationService, TextModel
from flambeau.serve.handlers.programs import ProgramService
from flambeau.serve.handlers.python_handlers import PythonService, handler_in
from flambeau.serve.handlers.tensors import Spec
from flambeau.serve.handlers.texts import TextService
from flambeau.serve.service import Service
from flambeau.serve.settings import ModelSettings

TEXT_BATCH, GENERATION_BATCH = 32, 8


def load(settings: ModelSettings, folder: str) -> Service:
    """The service of a model; an archive is unpacked into the folder, which is empty.

    ValueError, OSError or what the model's own code raises, for one that can't be served.
    """
    path, most = settings.path, settings.max_batch_size
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no {path}")
    if settings.handler:
        return by_handler(settings)
    if path.endswith(".mar") or os.path.exists(os.path.join(path, archives.MANIFEST)):
        return archived(settings, folder)
    if os.path.isdir(path):
        from flambeau.serve.handlers.tasks import service_of

        return service_of(path, settings.task, most)
    if path.endswith(".pt2"):
        return exported(path, most or 1)
    if path.endswith(".onnx"):
        raise NotImplementedError(f"{path}: ONNX models are not implemented in flambeau; export with torch.export.save")
    if is_torchscript(path):
        return scripted(path, most or 1)
    raise ValueError(
        f"{path} is neither an exported program (.pt2), TorchScript, an archive (.mar) nor a folder: weights alone need "
        "--handler FILE.py, with a class that loads them"
    )


def is_torchscript(path: str) -> bool:
    """Whether a file is an archive with code in it."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any("/code/" in name for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def exported(path: str, most: int) -> ProgramService:
    """The service of an exported program: inputs by their names, sizes and dtypes."""
    program = torch.export.load(path)
    names = program.graph_signature.user_inputs
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    specs = []
    for name in names:
        value = nodes[name].meta.get("val") if isinstance(name, str) and name in nodes else None
        if not isinstance(value, torch.Tensor):
            raise NotImplementedError(f"{path}: input {name} is no tensor: export a function of tensors to serve it")
        sizes = tuple(size if isinstance(size, int) else None for size in value.shape)
        specs.append(Spec(str(name), sizes, value.dtype))
    module, structure = program.module(), program.call_spec.in_spec
    from flambeau.utils import _pytree as pytree

    def call(*inputs: torch.Tensor) -> Any:
        arguments, keywords = pytree.tree_unflatten(list(inputs), structure)
        return module(*arguments, **keywords)

    outputs = [str(name) for name in program.graph_signature.user_outputs]
    return ProgramService(call, specs, outputs, most, program)


def scripted(path: str, most: int) -> ProgramService:
    return ProgramService(torch.jit.load(path, map_location="cpu").eval(), None, None, most)


def wrapped(handler: Any, context: Context, most: int | None) -> Service:
    """The service of a handler, by what it has."""
    if not callable(getattr(handler, "handle", None)):
        if callable(getattr(handler, "initialize", None)):
            handler.initialize(context)
        if isinstance(handler, TextModel):
            return GenerationService(handler, most or GENERATION_BATCH)
        return TextService(handler.encode, most or TEXT_BATCH, vectors=True)
    return PythonService(handler, context, most or 1)


def by_handler(settings: ModelSettings) -> Service:
    """A file, or a folder, and the Python file that knows what to do with it."""
    assert settings.handler is not None
    file, _, name = settings.handler.partition(":")
    inside = os.path.isdir(settings.path)
    model = {"modelName": settings.name, "serializedFile": None if inside else os.path.basename(settings.path)}
    folder = os.path.abspath(settings.path if inside else os.path.dirname(settings.path) or ".")
    context = Context(folder, {"model": model}, settings.max_batch_size or 1, settings.name, settings.version)
    return wrapped(handler_in(file, name or None), context, settings.max_batch_size)


def archived(settings: ModelSettings, folder: str) -> Service:
    """An archive of TorchServe's form, unpacked into the folder, or unpacked already."""
    manifest = archives.read_manifest(settings.path)
    if os.path.isdir(settings.path):
        folder = settings.path
    else:
        archives.unpack(settings.path, folder)
    model = manifest["model"]
    named, serialized = model.get("handler") or "base_handler", model.get("serializedFile")
    most = settings.max_batch_size
    file, _, name = named.partition(":")
    if named == "base_handler":
        if serialized and not model.get("modelFile"):
            path = os.path.join(folder, serialized)
            return exported(path, most or 1) if path.endswith(".pt2") else scripted(path, most or 1)
        handler: Any = torchserve.named(named)
    elif os.path.exists(os.path.join(folder, file if file.endswith(".py") else file + ".py")):
        handler = handler_in(os.path.join(folder, file if file.endswith(".py") else file + ".py"), name or None)
    else:
        handler = torchserve.named(file)
    config = archives.read_config(settings.path, manifest)
    context = Context(folder, manifest, most or 1, settings.name, settings.version, config)
    return wrapped(handler, context, most)
