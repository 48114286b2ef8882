"""The cases: who meets whom, with which sizes, and what is aimed at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import attn_lib
from attn_lib.measure.timing import Contestant
from benchmarks import peers
from benchmarks.contest import Case, Target

OURS = "attn_lib"
FORWARD, BOTH = "forward", "forward+backward"
SDPA_PEERS = ("explicit SDPA", "MHA train", "x-transformers flash", "transformers sdpa")


@dataclass(frozen=True)
class Sizes:
    """All sizes that a run may differ in."""

    lengths: tuple[int, ...] = (128, 256, 512, 1024, 2048, 4096)
    # Peers that hold T x S scores stop here, and at half of it with gradients: they would take half of the time.
    materialised: int = 2048
    d_model: int = 512
    num_heads: int = 8
    query_heads: int = 32
    head_dim: int = 128
    cached: int = 4096
    steps: int = 8
    windowed: int = 8192
    window: int = 256
    weights: tuple[int, ...] = (1024, 2048)

    def larger(self) -> Sizes:
        return replace(self, lengths=(*self.lengths, 8192, 16384), materialised=2 * self.materialised)


SMOKE = Sizes(lengths=(32,), cached=32, steps=2, windowed=64, window=16, weights=(32,))


def all_cases(sizes: Sizes, device: torch.device) -> list[Case]:
    """In the order of the tables."""
    return [
        *layer_cases(sizes, device),
        *tiled_cases(sizes, device),
        *decoding_cases(sizes, device),
        *cache_cases(sizes, device),
        *window_cases(sizes, device),
        *weights_cases(sizes, device),
        *import_cases(),
    ]


# Layers of D in and out.


def layer_cases(sizes: Sizes, device: torch.device) -> Iterator[Case]:
    for direction in (FORWARD, BOTH):
        for is_causal in (False, True):
            for S in sizes.lengths:
                targets = [Target(OURS, 1.05, SDPA_PEERS, shown="the best peer that uses SDPA")]
                bound = {1024: 1.25, 2048: 1.4}.get(S)
                if direction == FORWARD and not is_causal and bound:
                    targets.append(Target(OURS, bound, ("MHA eval",), faster=True))
                yield Case(
                    f"layer {direction}",
                    _label(S, is_causal),
                    partial(_layers, sizes, S, is_causal, direction, device),
                    tuple(targets),
                    needs=tuple(peers.PACKAGES),
                    settings={"B": 1, "S": S, "D": sizes.d_model, "H": sizes.num_heads, "causal": is_causal},
                )


def _layers(sizes: Sizes, S: int, is_causal: bool, direction: str, device: torch.device) -> list[Contestant]:
    ours = peers.attn_lib_layer(sizes.d_model, sizes.num_heads, is_causal=is_causal, device=device)
    layers = {
        OURS: ours,
        "explicit SDPA": peers.explicit_layer(ours.module),
        "MHA train": peers.torch_layer(ours.module, S, train=True),
        "x-transformers flash": peers.x_transformers_layer(ours.module, flash=True),
        "transformers sdpa": peers.transformers_layer(ours.module, S, implementation="sdpa"),
    }
    if S <= (sizes.materialised if direction == FORWARD else sizes.materialised // 2):
        if direction == FORWARD:  # with gradients, eval and train are the same
            layers["MHA eval"] = peers.torch_layer(ours.module, S, train=False)
        layers["x-transformers"] = peers.x_transformers_layer(ours.module, flash=False)
        layers["transformers eager"] = peers.transformers_layer(ours.module, S, implementation="eager")
    inputs = (_random(1, S, sizes.d_model, device=device),)
    grad_output = _random(1, S, sizes.d_model, device=device)
    return [
        Contestant(name, _pass(direction, layer.forward, inputs, grad_output, tuple(layer.module.parameters())))
        for name, layer in layers.items()
    ]


# Attention by tiles, in plain PyTorch, without layers around it.


def tiled_cases(sizes: Sizes, device: torch.device) -> Iterator[Case]:
    for direction in (FORWARD, BOTH):
        for is_causal in (False, True):
            for S in sizes.lengths:
                width = sizes.d_model // sizes.num_heads
                yield Case(
                    f"tiled {direction}",
                    _label(S, is_causal),
                    partial(_tiled, sizes.num_heads, S, width, is_causal, direction, device),
                    (Target("tiled", 1.15, ("SDPA",)),),
                    settings={"B": 1, "H": sizes.num_heads, "S": S, "Dk": width, "causal": is_causal},
                )


def _tiled(H: int, S: int, width: int, is_causal: bool, direction: str, device: torch.device) -> list[Contestant]:
    *inputs, grad_output = (_random(1, H, S, width, device=device) for _ in range(4))
    calls = {
        "tiled": partial(attn_lib.attention, is_causal=is_causal, method="tiled"),
        "SDPA": partial(scaled_dot_product_attention, is_causal=is_causal),
    }
    return [Contestant(name, _pass(direction, call, inputs, grad_output)) for name, call in calls.items()]


# One token against the keys so far.


def decoding_cases(sizes: Sizes, device: torch.device) -> Iterator[Case]:
    H, Dk, S = sizes.query_heads, sizes.head_dim, sizes.cached
    for Hkv, bound in ((H, 1.8), (H // 4, 2.3), (1, None)):
        against = ("SDPA enable_gqa",) if Hkv < H else ("SDPA",)
        yield Case(
            "decoding",
            f"{H} query heads, Hkv = {Hkv}, {S} cached keys",
            partial(_decoding, H, Hkv, S, Dk, device),
            (Target(OURS, bound, against, faster=True),) if bound else (),
            settings={"B": 1, "H": H, "Hkv": Hkv, "S": S, "Dk": Dk},
        )


def _decoding(H: int, Hkv: int, S: int, Dk: int, device: torch.device) -> list[Contestant]:
    query, key, value = _decoder_inputs(H, Hkv, S, Dk, device)
    cache = attn_lib.KVCache(1, Hkv, S, Dk, device=device)
    cached = cache.append(key, value)  # as the cache lays them in memory
    calls = {OURS: lambda: attn_lib.attention(query, *cached)}
    if Hkv == H:
        calls["SDPA"] = lambda: scaled_dot_product_attention(query, key, value)
    else:
        folded = query.view(1, Hkv, H // Hkv, Dk)
        calls["SDPA enable_gqa"] = lambda: scaled_dot_product_attention(query, key, value, enable_gqa=True)
        calls["SDPA folded"] = lambda: scaled_dot_product_attention(folded, key, value).view(1, H, 1, Dk)
        calls["SDPA repeat_interleave"] = lambda: scaled_dot_product_attention(
            query, key.repeat_interleave(H // Hkv, dim=1), value.repeat_interleave(H // Hkv, dim=1)
        )
    calls["attn_lib, no cache"] = lambda: attn_lib.attention(query, key, value)
    return [Contestant(name, _without_grad(call)) for name, call in calls.items()]


# Keeping the keys and values: append alone, and a whole step, which attends as well.


def cache_cases(sizes: Sizes, device: torch.device) -> Iterator[Case]:
    H, Dk, S = sizes.query_heads, sizes.head_dim, sizes.cached
    for attends in (False, True):
        for Hkv in (H, H // 4):
            yield Case(
                "cache",
                f"{'append and attend' if attends else 'append'}, Hkv = {Hkv}, {S} cached keys",
                partial(_caches, H, Hkv, S, Dk, sizes.steps, attends, device),
                (Target("KVCache", 2.5, ("torch.cat",), faster=True),),
                settings={"B": 1, "H": H, "Hkv": Hkv, "S": S, "Dk": Dk, "steps": sizes.steps},
            )


def _caches(H: int, Hkv: int, S: int, Dk: int, steps: int, attends: bool, device: torch.device) -> list[Contestant]:
    query, key, value = _decoder_inputs(H, Hkv, S, Dk, device)
    new_key, new_value = _random(1, Hkv, 1, Dk, device=device), _random(1, Hkv, 1, Dk, device=device)
    cache = attn_lib.KVCache(1, Hkv, S + steps, Dk, device=device)
    joined = [key, value]

    def refill() -> None:
        cache.reset()
        cache.append(key, value)

    def start_again() -> None:
        joined[:] = key, value

    def append() -> tuple[Tensor, Tensor]:
        return cache.append(new_key, new_value)

    def join() -> tuple[Tensor, Tensor]:
        joined[:] = torch.cat([joined[0], new_key], dim=2), torch.cat([joined[1], new_value], dim=2)
        return joined[0], joined[1]

    def step(grow: Callable[[], tuple[Tensor, Tensor]], attend: Callable[..., Tensor]) -> Callable[[], object]:
        return _without_grad((lambda: attend(query, *grow())) if attends else grow)

    gqa = partial(scaled_dot_product_attention, enable_gqa=Hkv != H)
    contestants = [
        Contestant("KVCache", step(append, attn_lib.attention), prepare=refill, calls=steps),
        Contestant("torch.cat", step(join, attn_lib.attention), prepare=start_again, calls=steps),
    ]
    if attends:
        contestants.append(Contestant("torch.cat, SDPA", step(join, gqa), prepare=start_again, calls=steps))
    return contestants


def _decoder_inputs(H: int, Hkv: int, S: int, Dk: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    shapes = (1, H, 1, Dk), (1, Hkv, S, Dk), (1, Hkv, S, Dk)
    return tuple(_random(*shape, device=device) for shape in shapes)


# A window of keys.


def window_cases(sizes: Sizes, device: torch.device) -> Iterator[Case]:
    S, H, width = sizes.windowed, sizes.num_heads, sizes.d_model // sizes.num_heads
    yield Case(
        "window",
        f"{sizes.window} in {S}",
        partial(_windows, H, S, width, sizes.window, device),
        (Target(OURS, 10.0, ("SDPA, bool mask",), faster=True),),
        settings={"B": 1, "H": H, "S": S, "Dk": width, "window": sizes.window},
    )


def _windows(H: int, S: int, width: int, window: int, device: torch.device) -> list[Contestant]:
    query, key, value = (_random(1, H, S, width, device=device) for _ in range(3))
    mask = attn_lib.sliding_window_mask(S, window=window, device=device)
    masked = _without_grad(lambda: scaled_dot_product_attention(query, key, value, attn_mask=mask))
    causal = _without_grad(lambda: scaled_dot_product_attention(query, key, value, is_causal=True))
    return [
        Contestant(OURS, _without_grad(lambda: attn_lib.attention(query, key, value, window=window))),
        Contestant("SDPA, bool mask", masked),
        Contestant("SDPA, causal, no window", causal, compared=False),
    ]


# Weights for those who ask.


def weights_cases(sizes: Sizes, device: torch.device) -> Iterator[Case]:
    for S in sizes.weights:
        yield Case(
            "weights",
            f"S = {S}",
            partial(_weights, sizes, S, device),
            (Target("16 rows", 1.05, ("forward",)),),
            settings={"B": 1, "S": S, "D": sizes.d_model, "H": sizes.num_heads},
        )


def _weights(sizes: Sizes, S: int, device: torch.device) -> list[Contestant]:
    layer = peers.attn_lib_layer(sizes.d_model, sizes.num_heads, is_causal=False, device=device).module
    module = peers.torch_layer(layer, S, train=False).module
    x = _random(1, S, sizes.d_model, device=device)

    def torch_weights() -> Tensor:
        return module(x, x, x, need_weights=True, average_attn_weights=False)[1]

    calls = {
        "forward": lambda: layer(x),
        "16 rows": lambda: layer(x).weights_of(rows=slice(0, 16)),
        "one head": lambda: layer(x).weights_of(heads=0),
        "all": lambda: layer(x).attention_weights,
        "MHA, all": torch_weights,
    }
    return [Contestant(name, _without_grad(call), compared=name in ("all", "MHA, all")) for name, call in calls.items()]


# What `import attn_lib` adds to `import torch`.


def import_cases() -> Iterator[Case]:
    yield Case("import", "on top of torch", _imports, (Target(OURS, 0.05),))


def _imports() -> list[Contestant]:
    program = "import time, torch; start = time.process_time(); import attn_lib; print(time.process_time() - start)"
    # Compiled files are kept, as they are wherever a library is installed; the first, untimed import writes them.
    environment = {name: setting for name, setting in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def fresh() -> float:
        command = [sys.executable, "-c", program]
        return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)

    return [Contestant(OURS, fresh, compared=False, times_itself=True)]


def _random(*shape: int, device: torch.device) -> Tensor:
    return torch.randn(*shape, device=device)


def _label(S: int, is_causal: bool) -> str:
    return f"{'causal' if is_causal else 'full'}, S = {S}"


def _without_grad(call: Callable[[], object]) -> Callable[[], object]:
    return torch.no_grad()(call)


def _pass(
    direction: str,
    forward: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    grad_output: Tensor,
    parameters: Sequence[Tensor] = (),
) -> Callable[[], object]:
    """The forward pass without a graph, or both passes, with gradients of the inputs and of the parameters."""
    if direction == FORWARD:
        return _without_grad(lambda: forward(*inputs))
    leaves = [tensor.requires_grad_() for tensor in inputs]

    def both() -> tuple[Tensor, ...]:
        output = forward(*leaves)
        grads = torch.autograd.grad(output, [*leaves, *parameters], grad_output)
        return output.detach(), *grads[: len(leaves)]

    return both
