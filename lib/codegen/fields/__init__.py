"""Fields, tensors and texts shared by several operations."""
