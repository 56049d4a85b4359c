"""The reference: every operation's own NumPy reference, step by step."""
