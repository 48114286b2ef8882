"""Attention, number by number: self-, masked, cross-, multi-head and grouped-query attention.

Read it from the ground up: ``masks``, ``reference``, ``attention``, ``layers``, ``trace``. True in a mask
means *may be attended*; scores stand before the softmax, weights after it; batch comes first.
"""

from attn_lib.attention import attention, attention_weights
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
from attn_lib.trace import AttentionTrace, trace_attention, trace_from

__all__ = [
    "AttentionOutput",
    "AttentionTrace",
    "CrossAttention",
    "GroupedQueryAttention",
    "MaskedMultiHeadSelfAttention",
    "MaskedSelfAttention",
    "MultiHeadAttention",
    "MultiHeadCrossAttention",
    "MultiHeadSelfAttention",
    "MultiQueryAttention",
    "SelfAttention",
    "attention",
    "attention_weights",
    "causal_mask",
    "merge_heads",
    "multi_head_self_attention",
    "padding_mask",
    "sliding_window_mask",
    "split_heads",
    "trace_attention",
    "trace_from",
]
__version__ = "0.1.0"
