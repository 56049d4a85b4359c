"""Arrays made, joined, indexed, reordered, reduced and accumulated."""
