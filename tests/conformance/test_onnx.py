"""The test cases that ONNX publishes for its Attention operator, every one, every output, on every method."""

import importlib

import pytest
import torch
from torch import Tensor

from attn_lib import (
    KVCache,
    attention,
    attention_weights,
    causal_mask,
    merge_heads,
    padding_mask,
    split_heads,
    trace_from,
)

from .oracles import assert_near, oracle

# Releases before 1.23.2 publish wrong expected values for masked rows and for caches with an offset.
onnx = oracle("onnx", "1.23.2")
# Importing this generates the cases of one operator; collect_testcases() would generate all operators'.
importlib.import_module("onnx.backend.test.case.node.attention")

CASES = [case for case in onnx.backend.test.case.node._NodeTestCases if case.model.graph.node[0].op_type == "Attention"]
HOW = [{"method": "reference"}, {"method": "fused"}]
# A tile as long as the keys hides every fault of tiling, and these cases have at most 18 keys.
HOW += [{"method": "tiled", "block_sizes": (size, size)} for size in (1, 3, 4)]


def tensor(array) -> Tensor:
    if array.dtype.name == "bfloat16":  # not a dtype of NumPy's own, so PyTorch does not take it
        return torch.from_numpy(array.astype("float32")).bfloat16()
    return torch.from_numpy(array.copy())


def read(case) -> tuple[dict[str, Tensor], dict, dict[str, Tensor]]:
    """Inputs by name, attributes by name, expected outputs by name."""
    node, (inputs, outputs) = case.model.graph.node[0], case.data_sets[0]
    names = [[name for name in slots if name] for slots in (node.input, node.output)]
    given, expected = (
        dict(zip(slots, map(tensor, arrays), strict=True))
        for slots, arrays in zip(names, (inputs, outputs), strict=True)
    )
    return given, {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}, expected


def in_our_words(given: dict[str, Tensor], attributes: dict) -> tuple[list[Tensor], dict]:
    """Query, key and value with their head axis, the past before them, and the words of ``attention``."""
    query, key, value = (given[name] for name in "QKV")
    if query.dim() == 3:
        heads = [attributes[f"{name}_num_heads"] for name in ("q", "kv", "kv")]
        query, key, value = map(split_heads, (query, key, value), heads)
    past = given["past_key"].shape[2] if "past_key" in given else 0
    if past:
        cache = KVCache(*key.shape[:2], past + key.shape[2], key.shape[3], value_dim=value.shape[3], dtype=key.dtype)
        cache.append(given["past_key"], given["past_value"])
        key, value = cache.append(key, value)
    T, S = query.shape[2], key.shape[2]
    real, mask = given.get("nonpad_kv_seqlen"), given.get("attn_mask")
    # Where the first query stands: after the past, or before the last T real keys; else upper left, at key 0.
    offsets = [past] if real is None else [int(length) - T for length in real]
    left, right = attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)
    right = 0 if attributes.get("is_causal") else right
    seen = torch.ones(1, 1, T, S, dtype=torch.bool) if real is None else padding_mask(real, S)
    if right >= 0:  # the diagonal and all before it, moved to the right
        seen = seen & torch.stack([causal_mask(T, S, offset=offset + right) for offset in offsets])[:, None]
    if left >= 0:  # without all that stands before the window
        seen = seen & ~torch.stack([causal_mask(T, S, offset=offset - left - 1) for offset in offsets])[:, None]
    words = {"scale": attributes.get("scale"), "softcap": attributes.get("softcap") or None}
    if mask is not None:  # its axes count from the right; a last one that is too short hides the rest
        boolean, short = mask.dtype == torch.bool, S - mask.shape[-1]
        mask = torch.nn.functional.pad(mask, (0, short), value=False if boolean else -torch.inf)
        mask = mask.reshape((1,) * (4 - mask.dim()) + mask.shape)
        seen, words["bias"] = (seen & mask, None) if boolean else (seen, mask)
    return [query, key, value], words | {"mask": None if seen.all() else seen}


def our_outputs(given: dict[str, Tensor], attributes: dict, how: dict) -> dict[str, Tensor]:
    """Everything that the operator can give, under its names."""
    (query, key, value), words = in_our_words(given, attributes)
    output = attention(query, key, value, **words, **how)
    stages = {"num_heads": query.shape[1], "num_kv_heads": key.shape[1], **words}
    trace = trace_from({"Q": query, "K": key}, **stages)
    scores = (
        trace_from({"Q": query, "K": key}, **stages | {"softcap": None}).scaled_scores,
        trace.scaled_scores,
        trace.masked_scores,
        attention_weights(query, key, **words),
    )
    return {
        "Y": merge_heads(output) if given["Q"].dim() == 3 else output,
        "present_key": key,
        "present_value": value,
        "qk_matmul_output": scores[attributes.get("qk_matmul_output_mode", 0)],
    }


def near(expected: Tensor) -> float:
    """Sums of up to 18 terms in float32 in another order; in half precision, one rounding of ours and one of theirs."""
    return (8 if expected.dtype == torch.float32 else 2) * torch.finfo(expected.dtype).eps


def test_every_published_case_is_here_and_no_word_in_them_is_unknown():
    assert len({case.name for case in CASES}) == len(CASES) >= 93
    given, attributes, expected = (set().union(*names) for names in zip(*map(read, CASES), strict=True))
    assert given == {"Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"}
    assert expected == {"Y", "present_key", "present_value", "qk_matmul_output"}
    # The one left out below is softmax_precision: our softmax is in float32 at least, which is as much as they ask for.
    assert attributes == {
        "is_causal", "kv_num_heads", "left_window_size", "q_num_heads", "qk_matmul_output_mode", "right_window_size",
        "scale", "softcap", "softmax_precision",
    }  # fmt: skip


@pytest.mark.parametrize("how", HOW, ids=lambda how: "-".join(map(str, (how["method"], *how.get("block_sizes", ())))))
@pytest.mark.parametrize("case", CASES, ids=[case.name.removeprefix("test_attention_") for case in CASES])
def test_every_output_of_every_case_is_as_published(case, how):
    given, attributes, expected = read(case)
    ours = our_outputs(given, attributes, how)
    for name, theirs in expected.items():
        assert ours[name].dtype == theirs.dtype
        assert_near(ours[name], theirs, near(theirs), name)


def test_these_cases_know_where_a_causal_query_stands():
    wrong = []
    for case in (case for case in CASES if "causal" in case.name):
        given, attributes, expected = read(case)
        (query, key, value), words = in_our_words(given, attributes | {"is_causal": 0})
        ours = attention(query, key, value, **words, is_causal=True)  # the last T of S, whatever the case says
        ours = merge_heads(ours) if given["Q"].dim() == 3 else ours
        if float((ours - expected["Y"]).abs().max()) > 10 * near(expected["Y"]):
            wrong.append(case.name)
    assert "test_attention_4d_causal" in wrong  # 4 queries, 6 keys, and the first query stands at key 0
    assert "test_attention_4d_causal_with_past_and_present" not in wrong  # 4 queries after 3 of 7 keys: the last 4
