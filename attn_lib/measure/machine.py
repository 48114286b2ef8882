"""What figures were measured on and with, and how much memory is free there."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import attn_lib


def machine(device: torch.device) -> dict[str, object]:
    """Processor model, cores, memory, system; and the GPU with its driver, if it is one that is measured."""
    import psutil

    about = {
        "processor": _processor(),
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        about |= {
            "gpu": gpu.name,
            "gpu_memory_gib": round(gpu.total_memory / 2**30, 1),
            "gpu_processors": gpu.multi_processor_count,
            "compute_capability": f"{gpu.major}.{gpu.minor}",
            "driver": _driver(),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
    return about


def versions(packages: Sequence[str] = ()) -> dict[str, str | None]:
    """Of Python, torch, attn_lib and other packages; None for one that is not installed."""
    found = {"python": platform.python_version(), "torch": torch.__version__, "attn_lib": attn_lib.__version__}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def free_bytes(device: torch.device) -> int:
    """What can be allocated now: on a CPU no more than a container's limit leaves.

    >>> free_bytes(torch.device("cpu")) > 2**20
    True
    """
    import psutil

    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free = psutil.virtual_memory().available
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            free = min(free, int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):  # no such limit, or "max"
            continue
    return max(0, free)


def _processor() -> str:
    """The model's name, which Python gives on some systems only."""
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _driver() -> str | None:
    """The GPU driver's version as the kernel tells it; PyTorch knows that of CUDA alone."""
    try:
        first = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        return None
    return next((word for word in first.split() if word[0].isdigit() and "." in word), None)
