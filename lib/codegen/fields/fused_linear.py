"""Fields, tensors and texts of operations that compute logits chunk by chunk."""

from table import Tensor, dim, option

SIZES = [dim("n_classes", "V", "weight", "classes"), dim("n_cols", "H", "x", "width of x")]
EACH_GRADIENT = (
    "Each gradient is computed only if it is requested. d_x may be exactly x when in_place is set.")


def chunks(logits):
    """Returns a sentence about the memory of `logits`."""
    return f"""The rows are processed in chunks: a matmul computes {logits} of a chunk, which
become d in place, and matmuls with d compute the gradients. So only one chunk of {logits} exists at a
time."""


def chunk_fields(no_limit="see above", no_rows="chosen by chunking"):
    """Returns the fields that limit a chunk. no_limit, no_rows: texts for the meaning of 0."""
    return [
        option("max_workspace_bytes", "int64_t", "0",
               f"limit of the workspace in bytes; 0 = {no_limit}", 0),
        option("chunk_rows", "int64_t", "0", f"rows per chunk; 0 = {no_rows}", 0)]


PRODUCTS = option("products", "int32_t", "LIGERDSL_PRODUCTS_AUTO", "LIGERDSL_PRODUCTS_*", 0, 2)
# For an odd V, AUTO chooses the library's own kernels, which take minutes in an emulator. Only
# tests in the emulator have fewer than 64 rows, so they use an even V.
CASE_SIZES = {"N": "rows", "H": 520, "V": "rows < 64 ? 1000 : 1003"}

# Each of the matmuls (logits, d_x, d_weight) has N H V multiply-adds.
FLOPS = "2 * N * V * H * (1 + with_d_x + (d_weight_dtype != 0))"
WEIGHT_DEVIATION = "1 / sqrt(H)"  # so that random logits have a standard deviation of about 1

GRADIENTS = [
    Tensor("d_x", "out", "N* H", "dtype", "gradient of x, or NULL", "with_d_x"),
    Tensor("d_weight", "inout", "V H", "d_weight_dtype", "gradient of weight, or NULL",
           "d_weight_dtype")
]
