"""Fields, tensors and texts that the rows of several operations share."""
