"""What the heads have in common that multiply their logits a chunk of rows at a time."""

from table import Tensor, dim, option

SIZES = [dim("n_classes", "V", "weight", "classes"), dim("n_cols", "H", "x", "width of x")]
EACH_GRADIENT = "Each gradient is made only if wanted. d_x may be exactly x when in_place is set."


def chunks(logits):
    return f"Chunks of rows are multiplied, turned into d in place, and multiplied again, so that one chunk of {logits} is all that exists"


def chunk_fields(no_limit="see above", no_rows="as chunking says"):
    """no_limit, no_rows: what 0 stands for."""
    return [option("max_workspace_bytes", "int64_t", "0", f"limit of the workspace; 0 = {no_limit}", 0),
            option("chunk_rows", "int64_t", "0", f"rows of a chunk; 0 = {no_rows}", 0)]


PRODUCTS = option("products", "int32_t", "LIGERDSL_PRODUCTS_AUTO", "LIGERDSL_PRODUCTS_*", 0, 2)
# AUTO computes heads with an odd V by our kernels, which take minutes in an emulator. Only the emulator uses few rows.
CASE_SIZES = {"N": "rows", "H": 520, "V": "rows < 64 ? 1000 : 1003"}

GRADIENTS = [Tensor("d_x", "out", "N* H", "dtype", "gradient of x, or NULL", "with_d_x"),
             Tensor("d_weight", "inout", "V H", "d_weight_dtype", "gradient of weight, or NULL", "d_weight_dtype")]
