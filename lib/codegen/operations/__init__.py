"""The rows of the operation table, a file for each family."""
