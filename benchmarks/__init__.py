"""Side-by-side speed: attn_lib beside PyTorch, x-transformers and transformers. Run by hand: ``make bench``."""
