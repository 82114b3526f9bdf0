"""torch.utils.collect_env: what a bug report needs to know. `python -m flambeau.utils.collect_env`.

The questions that other projects' reports ask by name are answered by the same commands as PyTorch's: run_lambda is `run`.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import flambeau as torch

Run = Callable[[str], tuple[int, str, str]]


class SystemEnv(NamedTuple):
    """What get_env_info finds."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    gcc_version: str | None
    clang_version: str | None
    cmake_version: str | None
    os: str | None
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    cuda_runtime_version: str | None
    nvidia_driver_version: str | None
    nvidia_gpu_models: str | None
    cudnn_version: str | None
    pip_version: str
    pip_packages: str
    conda_packages: str | None
    cpu_info: str | None


def run(command: str | Sequence[str]) -> tuple[int, str, str]:
    """A command's exit status, output and errors; a text goes through the shell. 127 if there is no such program."""
    try:
        done = subprocess.run(command, shell=isinstance(command, str), capture_output=True, text=True, errors="replace")
    except FileNotFoundError as missing:
        return 127, "", str(missing)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def run_and_read_all(run_lambda: Run, command: str) -> str | None:
    """The output of a command; None if it fails."""
    status, output, _ = run_lambda(command)
    return output if status == 0 else None


def run_and_parse_first_match(run_lambda: Run, command: str, regex: str) -> str | None:
    """The first group of the expression in a command's output; None if the command fails or nothing matches."""
    found = re.search(regex, run_and_read_all(run_lambda, command) or "")
    return found[1] if found else None


def run_and_return_first_line(run_lambda: Run, command: str) -> str | None:
    """The first line of a command's output; None if it fails."""
    output = run_and_read_all(run_lambda, command)
    return None if output is None else output.split("\n")[0]


def get_gcc_version(run_lambda: Run) -> str | None:
    """Of the C compiler of this name, or None."""
    return run_and_parse_first_match(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda: Run) -> str | None:
    """Of the C compiler of this name, or None."""
    return run_and_parse_first_match(run_lambda, "clang --version", r"clang version (.*)")


def get_cmake_version(run_lambda: Run) -> str | None:
    """Of CMake, or None."""
    return run_and_parse_first_match(run_lambda, "cmake --version", r"cmake (.*)")


def get_nvidia_driver_version(run_lambda: Run) -> str | None:
    """Of the graphics driver, or None."""
    return run_and_parse_first_match(run_lambda, "nvidia-smi", r"Driver Version: (.*?) ")


def get_gpu_info(run_lambda: Run) -> str | None:
    """The graphics processors by name, or None; no tensor lives on them."""
    return run_and_read_all(run_lambda, "nvidia-smi -L")


def get_running_cuda_version(run_lambda: Run) -> str | None:
    """Of the installed CUDA compiler, or None."""
    return run_and_parse_first_match(run_lambda, "nvcc --version", r"release .+ V(.*)")


def get_cudnn_version(run_lambda: Run) -> str | None:
    """None: cuDNN is not used."""
    return None


def get_cpu_info(run_lambda: Run) -> str | None:
    """What the system says of its processors, or None."""
    return run_and_read_all(run_lambda, "sysctl -n machdep.cpu.brand_string" if sys.platform == "darwin" else "lscpu")


def get_platform() -> str:
    """The kind of system: linux, darwin or win32."""
    return "linux" if sys.platform.startswith("linux") else sys.platform


def get_os(run_lambda: Run) -> str | None:
    """The system's name and version, and the machine's architecture."""
    name = None
    if get_platform() == "linux":
        with contextlib.suppress(OSError):
            name = platform.freedesktop_os_release().get("PRETTY_NAME")
    return f"{name or platform.platform(terse=True)} ({platform.machine()})"


def get_python_platform() -> str:
    """What Python says of the system."""
    return platform.platform()


def get_libc_version() -> str:
    """Of the C library; "N/A" outside Linux."""
    return "-".join(platform.libc_ver()) if get_platform() == "linux" else "N/A"


def get_pip_packages(run_lambda: Run, patterns: Sequence[str] | None = None) -> tuple[str, str]:
    """The installer's name, and the lines of installed packages that have one of the patterns."""
    wanted = ("torch", "numpy", "flambeau", "llvmlite", "onnx") if patterns is None else patterns
    lines = (run_and_read_all(run_lambda, f"{sys.executable} -mpip list --format=freeze") or "").splitlines()
    return f"pip{sys.version_info[0]}", "\n".join(line for line in lines if any(name in line for name in wanted))


def get_conda_packages(run_lambda: Run, patterns: Sequence[str] | None = None) -> str | None:
    """The packages of a conda environment that have one of the patterns; None outside of one."""
    wanted = ("torch", "numpy", "flambeau", "llvmlite") if patterns is None else patterns
    listed = run_and_read_all(run_lambda, f"{os.environ.get('CONDA_EXE', 'conda')} list")
    return None if listed is None else "\n".join(line for line in listed.splitlines() if any(name in line for name in wanted))


def get_env_info() -> SystemEnv:
    """Everything."""
    pip_version, pip_packages = get_pip_packages(run)
    return SystemEnv(
        torch.__version__,
        "False",
        "N/A",
        get_gcc_version(run),
        get_clang_version(run),
        get_cmake_version(run),
        get_os(run),
        get_libc_version(),
        f"{sys.version} ({sys.maxsize.bit_length() + 1}-bit runtime)".replace("\n", " "),
        get_python_platform(),
        "False",
        get_running_cuda_version(run),
        get_nvidia_driver_version(run),
        get_gpu_info(run),
        get_cudnn_version(run),
        pip_version,
        pip_packages,
        get_conda_packages(run),
        get_cpu_info(run),
    )


def pretty_str(envinfo: SystemEnv) -> str:
    """An answer of get_env_info as text."""
    return "\n".join(
        f"{name.replace('_', ' ')}: {'Could not collect' if value is None else value}"
        for name, value in envinfo._asdict().items()
    )


def get_pretty_env_info() -> str:
    """Versions, system and processor as text."""
    threads = f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    return f"flambeau version: {torch.__version__}, {threads}\n{pretty_str(get_env_info())}"


def main() -> None:
    """Print the report."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
