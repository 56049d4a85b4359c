"""MLX: ``mx.compile`` over straight-line segments, loops unrolled in chunks between them."""
