"""Attention, number by number: self-, masked, cross-, multi-head and grouped-query attention.

Read it from the ground up: ``masks``, ``reference``, ``tiled``, ``fused``, ``attention``, ``cache``, ``positions``,
``layers``, ``trace``, ``cost``. True in a mask means *may be attended*; scores stand before the softmax, weights after it;
batch comes first.
"""

from attn_lib.attention import attention, attention_weights, merge_partial, partial_attention
from attn_lib.cache import KVCache
from attn_lib.cost import AttentionCost, attention_cost, kv_cache_bytes, tiled_traffic_bytes, visible_pairs
from attn_lib.layers import (
    AttentionOutput,
    CrossAttention,
    GroupedQueryAttention,
    MaskedMultiHeadSelfAttention,
    MaskedSelfAttention,
    MultiHeadAttention,
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    MultiQueryAttention,
    SelfAttention,
    merge_heads,
    multi_head_self_attention,
    split_heads,
)
from attn_lib.masks import causal_mask, padding_mask, sliding_window_mask
from attn_lib.positions import RotaryPositions, rotate, sinusoidal_positions
from attn_lib.trace import AttentionTrace, trace_attention, trace_from

__all__ = [
    "AttentionCost",
    "AttentionOutput",
    "AttentionTrace",
    "CrossAttention",
    "GroupedQueryAttention",
    "KVCache",
    "MaskedMultiHeadSelfAttention",
    "MaskedSelfAttention",
    "MultiHeadAttention",
    "MultiHeadCrossAttention",
    "MultiHeadSelfAttention",
    "MultiQueryAttention",
    "RotaryPositions",
    "SelfAttention",
    "attention",
    "attention_cost",
    "attention_weights",
    "causal_mask",
    "kv_cache_bytes",
    "merge_heads",
    "merge_partial",
    "multi_head_self_attention",
    "padding_mask",
    "partial_attention",
    "rotate",
    "sinusoidal_positions",
    "sliding_window_mask",
    "split_heads",
    "tiled_traffic_bytes",
    "trace_attention",
    "trace_from",
    "visible_pairs",
]
__version__ = "0.1.0"
