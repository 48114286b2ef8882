"""The commands of ``python -m attn_lib``, a file each."""
