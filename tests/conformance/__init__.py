"""attn_lib held against code that nobody here wrote: one file an oracle, and one each for laws and for precision.

PyTorch's oracles come with it. onnx, jax and transformers are heavy and sit in an extra of their own: where one is
missing its file is skipped, visibly, and `make conformance` (CONFORMANCE=all) fails instead.
"""
