"""Drawn inputs: sizes that differ, so that no swapped axis can pass, every kind of mask, small and huge scores."""

import math

import torch
from hypothesis import strategies as st
from torch import Tensor

F64 = torch.float64
METHODS = ("reference", "tiled", "fused")

# Of each kind: the axes that it fills; the others are 1, or not there.
MASKS = (None, "B11S", "TS", "1H1S", "BHTS")
BIASES = (None, "TS", "H1S", "BHTS")
LEVELS = (0.0, 1000.0, -1000.0)  # exp overflows at 710 in float64, at 89 in float32: a missing max subtraction shows


class Case:
    """Arguments of ``attention``: three tensors, which require gradients, and the rest.

    Args:
        query, key, value: ``[B, H, T, Dk]``, ``[B, Hkv, S, Dk]``, ``[B, Hkv, S, Dv]``.
        words: mask, bias, is_causal, window, scale.
        cotangent: ``[B, H, T, Dv]``, from which gradients are pulled back.
    """

    # Not a dataclass: of those Hypothesis prints every number.
    def __init__(self, query: Tensor, key: Tensor, value: Tensor, words: dict, cotangent: Tensor | None = None):
        self.query, self.key, self.value, self.words, self.cotangent = query, key, value, words, cotangent

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.query, self.key, self.value

    @property
    def seen(self) -> Tensor:
        """Which query sees which key, counted out index by index: bool ``[B, H, T, S]``."""
        (B, H, T, _), S = self.query.shape, self.key.shape[2]
        position, key = torch.arange(T)[:, None] + S - T, torch.arange(S)
        seen = torch.ones(B, H, T, S, dtype=torch.bool)
        if (mask := self.words.get("mask")) is not None:
            seen = seen & mask
        if self.words.get("is_causal"):
            seen = seen & (key <= position)
        if (window := self.words.get("window")) is not None:
            seen = seen & (key <= position) & (key > position - window)
        return seen

    @property
    def additive(self) -> Tensor:
        """Bias and -inf in one float64 ``[B, H, T, S]``, as those want it who know no other word."""
        bias = self.words.get("bias")
        return (
            (torch.zeros((), dtype=F64) if bias is None else bias)
            .expand(self.seen.shape)
            .masked_fill(~self.seen, -torch.inf)
        )

    @property
    def scale(self) -> float:
        scale = self.words.get("scale")
        return 1 / math.sqrt(self.query.shape[-1]) if scale is None else scale

    @property
    def largest_score(self) -> float:
        """The largest size of a score: what the size of rounding errors goes by."""
        group = self.query.shape[1] // self.key.shape[1]
        scores = self.query.detach() @ self.key.detach().repeat_interleave(group, dim=1).mT * self.scale
        return float(scores.abs().max())

    @property
    def size(self) -> float:
        """The largest of the inputs: a gradient is a sum of numbers of about that size."""
        return max(float(tensor.detach().abs().max()) for tensor in self.inputs)

    def __repr__(self) -> str:
        words = {name: list(word.shape) if isinstance(word, Tensor) else word for name, word in self.words.items()}
        return f"Case({', '.join(str(list(tensor.shape)) for tensor in self.inputs)}, {words}, size {self.size:.3g})"


@st.composite
def cases(
    draw,
    *,
    Dv: int = 13,
    batches=(1, 2),
    heads=((1, 1), (3, 3), (6, 3), (3, 1)),
    queries=(1, 5, 17),
    keys=(1, 5, 7, 19),  # as many as queries, and fewer, among them
    masks=MASKS,
    biases=BIASES,
    causal=(False, True),
    windows=(None, 1, 3),
    scales=(None, 0.3, -0.7),
    levels=LEVELS,
    dtype: torch.dtype = F64,
) -> Case:
    """A case with every kind of thing in it. The tensors come from one drawn seed."""
    B, (H, Hkv), T, S = (draw(st.sampled_from(choices)) for choices in (batches, heads, queries, keys))
    Dk = 11
    make = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    size, level = draw(st.sampled_from((1.0, 10.0))), draw(st.sampled_from(levels))
    axes = {"B": B, "H": H, "T": T, "S": S, "1": 1}

    def tensor(*shape):
        return torch.randn(shape, generator=make, dtype=F64)

    query, key, value = tensor(B, H, T, Dk) * size, tensor(B, Hkv, S, Dk), tensor(B, Hkv, S, Dv)
    words = {"is_causal": draw(st.sampled_from(causal)), "window": draw(st.sampled_from(windows))}
    words["scale"] = draw(st.sampled_from(scales))
    if (kind := draw(st.sampled_from(masks))) is not None:
        share_open = draw(st.sampled_from((0.3, 0.8)))  # at 0.3 some queries see nothing
        words["mask"] = torch.rand([axes[axis] for axis in kind], generator=make) < share_open
    if (kind := draw(st.sampled_from(biases))) is not None:
        words["bias"] = tensor(*(axes[axis] for axis in kind))
        if draw(st.booleans()):  # a bias may hold -inf: such a key is not seen either
            words["bias"] = words["bias"].masked_fill(words["bias"] > 1, -torch.inf)
    if level:  # every score of a row moves by the level, which changes no weight
        key[..., 0] = 1.0
        query[..., 0] += level / (words["scale"] or 1 / math.sqrt(Dk))
    query, key, value = (each.to(dtype).requires_grad_() for each in (query, key, value))
    return Case(query, key, value, words, tensor(B, H, T, Dv).to(dtype))


def methods() -> st.SearchStrategy[dict]:
    """Each of the three ways, "tiled" with tiles that are smaller and larger than the matrix."""
    tiles = st.tuples(*[st.sampled_from((1, 3, 4, 32))] * 2)
    return st.sampled_from(METHODS).flatmap(
        lambda method: (
            tiles.map(lambda sizes: {"method": method, "block_sizes": sizes})
            if method == "tiled"
            else st.just({"method": method})
        )
    )
