"""What is known of nodes without their values: bounds, lengths, structure of matrices."""
