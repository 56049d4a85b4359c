"""The reference backend: each operation's NumPy reference, step by step."""
