"""Facts of nodes without their values: bounds, lengths, structure of matrices."""
