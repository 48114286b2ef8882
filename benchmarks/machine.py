"""What the figures were measured on and with."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import attn_lib
from benchmarks.peers import PACKAGES


def machine(device: torch.device) -> dict[str, object]:
    """Processor model, cores, memory, system, and the GPU if it is one that is timed."""
    about = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if device.type == "cuda":
        about["gpu"] = torch.cuda.get_device_name(device)
    return about


def versions() -> dict[str, str | None]:
    """Of Python, torch, attn_lib and the peers; None for one that is not installed."""
    found = {"python": platform.python_version(), "torch": torch.__version__, "attn_lib": attn_lib.__version__}
    for package in PACKAGES.values():
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def _processor() -> str:
    """The model's name, which Python gives on some systems only."""
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
