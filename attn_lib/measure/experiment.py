"""The experiment: which ways of computing attention meet, at which lengths, and what each of them is expected to need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from attn_lib.attention import attention
from attn_lib.cost import attention_cost
from attn_lib.layers import MultiHeadSelfAttention, split_heads

KERNELS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
}
LONGEST_TILED = {"cpu": 4096, "cuda": 8192}  # plain PyTorch, tile by tile: beyond that it would take most of the time


@dataclass(frozen=True)
class Settings:
    """Everything that makes two runs comparable.

    Attributes:
        device: "cpu" or "cuda".
        dtype: name of the numbers' type.
        lengths: S, of the forward pass, of training and of the kernels.
        long_lengths: more of them, only for what never holds S x S numbers.
        rounds: samples of each way at most; long cases get fewer, 7 at least where rounds are not below that.
        threads: of the CPU.
        memory_kept: freed memory stays with the process (:func:`attn_lib.measure.memory_kept`).
    """

    device: str = "cpu"
    d_model: int = 512
    num_heads: int = 8
    batch_size: int = 1
    dtype: str = "float32"
    lengths: tuple[int, ...] = (128, 256, 512, 1024, 2048, 4096)
    long_lengths: tuple[int, ...] = (8192,)
    window: int = 256
    product_size: int = 2048
    copy_mib: int = 256
    rounds: int = 15
    threads: int = 1
    memory_kept: bool = True

    @classmethod
    def of(cls, device: torch.device) -> Settings:
        """What fits the device: on a GPU longer sequences, in the half precision that its kernels are made for."""
        if device.type != "cuda":
            return cls()
        # float16 where bfloat16 is only emulated.
        half = "bfloat16" if torch.cuda.get_device_capability(device)[0] >= 8 else "float16"
        lengths = tuple(2**power for power in range(9, 18))
        return cls(device="cuda", dtype=half, lengths=lengths, long_lengths=(), product_size=8192, copy_mib=1024)

    def quick(self) -> Settings:
        """A smoke run: it shows that everything works, and measures nothing."""
        return replace(
            self, lengths=(32, 64), long_lengths=(128,), window=16, product_size=64, copy_mib=1, rounds=1, d_model=64
        )

    def as_dict(self) -> dict[str, object]:
        """As JSON gives it back."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Way:
    """One way of doing the work of a case.

    Attributes:
        name: what it is called in tables and figures.
        call: does it once.
        needs: bytes that it is expected to hold at its peak, beside the inputs.
        flops: of its matrix products, those of hidden pairs left out.
        moves: bytes that it reads and writes, where that is its work.
    """

    name: str
    call: Callable[[], object]
    needs: int
    flops: int = 0
    moves: int = 0


@dataclass(frozen=True)
class Case:
    """Ways that are timed side by side, at one length.

    Attributes:
        group: "forward", "training", "kernels" or "machine".
        size: S; of the group "machine" the number of rows of a matrix.
        inputs: bytes that are there before any of the ways runs.
        build: makes the inputs and the ways.
    """

    group: str
    size: int
    inputs: int
    build: Callable[[], list[Way]]

    @property
    def name(self) -> str:
        return f"{self.group}, {'n' if self.group == 'machine' else 'S'} = {self.size}"


def all_cases(settings: Settings) -> list[Case]:
    """In the order in which they run: short ones first, so that a stop loses little.

    >>> [case.name for case in all_cases(Settings(lengths=(64,), long_lengths=(128,)))]
    ['machine, n = 2048', 'forward, S = 64', 'training, S = 64', 'kernels, S = 64', 'forward, S = 128']
    """
    sizes = [("forward", S) for S in (*settings.lengths, *settings.long_lengths)]
    sizes += [(group, S) for group in ("training", "kernels") for S in settings.lengths]
    build = {"forward": _forward, "training": _training, "kernels": _kernels}
    cases = [
        Case(group, S, _input_bytes(settings, group, S), partial(build[group], settings, S))
        for group, S in sorted(sizes, key=lambda each: each[1])
    ]
    machine = 3 * settings.product_size**2 * _dtype(settings).itemsize + 2 * settings.copy_mib * 2**20
    return [Case("machine", settings.product_size, machine, partial(_machine, settings)), *cases]


def _forward(settings: Settings, S: int) -> list[Way]:
    layer = MultiHeadSelfAttention(settings.d_model, settings.num_heads, bias=False)
    layer = layer.requires_grad_(False).to(settings.device, _dtype(settings)).eval()
    hidden_states = _drawn(settings, settings.batch_size, S, settings.d_model)  # [B, S, D]
    q, k, v = (split_heads(w(hidden_states), settings.num_heads).contiguous() for w in _maps(layer)[:3])
    cost, one, matrix = _cost(settings, S), _tensor(settings, S), _matrix(settings, S)

    def projections() -> list[Tensor]:
        return [w(hidden_states) for w in _maps(layer)]

    ways = [
        Way("projections", projections, 4 * one, cost.projections),
        Way("fused", partial(attention, q, k, v), 4 * one, cost.core.flops - cost.steps["softmax"].flops),
        Way("layer", lambda: layer(hidden_states).hidden_states, 8 * one, cost.matmul_flops),
    ]
    windowed = _cost(settings, S, window=settings.window)
    ways.append(
        Way(
            "window",
            partial(attention, q, k, v, window=settings.window),
            6 * one,
            windowed.matmul_flops - windowed.projections,
        )
    )
    core = cost.matmul_flops - cost.projections
    if S <= LONGEST_TILED[settings.device]:
        ways.append(Way("tiled", partial(attention, q, k, v, method="tiled"), 8 * one, core))
    if S in settings.lengths:
        equation = partial(attention, q, k, v, method="reference")
        ways.append(Way("equation", equation, 2 * matrix + 8 * one, core))
    return ways


def _training(settings: Settings, S: int) -> list[Way]:
    q, k, v = (_heads(settings, S).requires_grad_() for _ in range(3))
    given = torch.ones_like(q)  # the gradient that comes back from what follows
    cost, one, matrix = _cost(settings, S), _tensor(settings, S), _matrix(settings, S)
    core = cost.matmul_flops - cost.projections

    def step(method: str) -> tuple[Tensor, ...]:
        return torch.autograd.grad(attention(q, k, v, method=method), (q, k, v), given)

    ways = [
        Way("equation", partial(step, "reference"), 3 * matrix + 12 * one, 3 * core),
        Way("fused", partial(step, "fused"), 12 * one, 3 * core + core // 2),  # the scores once more
    ]
    if S <= LONGEST_TILED[settings.device]:
        ways.append(Way("tiled", partial(step, "tiled"), 16 * one, 3 * core + core // 2))
    return ways


def _kernels(settings: Settings, S: int) -> list[Way]:
    q, k, v = (_heads(settings, S) for _ in range(3))
    one, matrix = _tensor(settings, S), _matrix(settings, S)

    def run(backend: SDPBackend, is_causal: bool) -> Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    ways = []
    for is_causal in (False, True):
        cost = _cost(settings, S, is_causal=is_causal)
        core = cost.matmul_flops - cost.projections
        for name, backend in KERNELS.items():
            needs = 4 * matrix + 8 * one if name == "math" else 8 * one
            ways.append(Way(f"{name}, causal" if is_causal else name, partial(run, backend, is_causal), needs, core))
    return ways


def _machine(settings: Settings) -> list[Way]:
    """What the machine can do at most: floating point operations, and bytes to and from memory."""
    n, size = settings.product_size, settings.copy_mib * 2**20
    left, right, product = (_drawn(settings, n, n) for _ in range(3))
    source = torch.zeros(size // 4, device=settings.device)
    target = torch.empty_like(source)
    return [
        Way("matrix product", lambda: torch.mm(left, right, out=product), 0, flops=2 * n**3),
        Way("copy", lambda: target.copy_(source), 0, moves=2 * source.nbytes),
    ]


def _cost(settings: Settings, S: int, **seen):
    return attention_cost(
        d_model=settings.d_model,
        num_heads=settings.num_heads,
        T=S,
        batch_size=settings.batch_size,
        dtype=_dtype(settings),
        **seen,
    )


def _input_bytes(settings: Settings, group: str, S: int) -> int:
    return (4 if group == "training" else 7) * _tensor(settings, S)


def _tensor(settings: Settings, S: int) -> int:
    """Bytes of the queries, in float32: what a half precision tensor is converted to counts too."""
    return settings.batch_size * S * settings.d_model * 4


def _matrix(settings: Settings, S: int) -> int:
    """Bytes of the scores of all heads."""
    return _cost(settings, S).tensors["scores"]


def _heads(settings: Settings, S: int) -> Tensor:
    width = settings.d_model // settings.num_heads
    return _drawn(settings, settings.batch_size, settings.num_heads, S, width)  # [B, H, S, Dk]


def _drawn(settings: Settings, *shape: int) -> Tensor:
    return torch.randn(shape, device=settings.device, dtype=_dtype(settings))


def _dtype(settings: Settings) -> torch.dtype:
    return getattr(torch, settings.dtype)


def _maps(layer: MultiHeadSelfAttention) -> list[torch.nn.Linear]:
    return [layer.w_q, layer.w_k, layer.w_v, layer.w_o]
