"""Estimates a patched model's memory in a training step, in bytes.

The estimate determines the workspace of the fused head. It also determines how many layers can keep
attention's output without a higher peak. The functions take and return only numbers."""

GIB = 1 << 30


def piece_rows(intermediate, element, piece_bytes):
    """Returns the number of MLP rows per piece, which has silu(gate) * up and its gradient.
    piece_bytes = 0: all rows."""
    return max(1, piece_bytes // (2 * intermediate * element)) if piece_bytes else 1 << 62


def layer_bytes(rows, hidden, intermediate, element, piece):
    """Returns the peak memory of a layer's backward, without its input and the weights' gradients.

    Norms, q, k, v, attention and the residual stream's gradient count as eight rows of the model's
    width. Gate and up, and one piece of silu(gate) * up and its gradient, are added."""
    return (rows * element * (8 * hidden + 2 * intermediate)
            + 2 * min(rows, piece) * intermediate * element)


def kept_layers(rows, layers, hidden, intermediate, element, kept_row, piece, free, head):
    """Returns the number of last layers that keep attention's output, in the memory saved by the
    MLP's pieces.

    kept_row: bytes per row of an output. free: free bytes on the device, minus the inputs of all
    layers. head: bytes of the head's gradient."""
    saved = 2 * max(0, rows - piece) * intermediate * element
    most = min(layers, saved // (rows * kept_row))
    needed = layer_bytes(rows, hidden, intermediate, element, piece) + head + GIB // 4
    while most and needed + most * rows * kept_row > free:
        most -= 1
    return most


def head_limit(rows, layers, hidden, intermediate, element, piece, classes, other_gradients):
    """Returns the fused head's workspace limit, or None for the library's own choice.

    Backward ends with all gradients and the memory of a layer or the embedding. The head runs
    before these exist, but together with the inputs of all layers. other_gradients: bytes of
    gradients that do not exist yet, without the head's. The lower limit is the f32 sum of the
    weight's gradient and 3/4 GiB of logits: smaller chunks are slow."""
    inputs = (layers + 4) * rows * hidden * element
    later = max(other_gradients - inputs, 0) + max(
        layer_bytes(rows, hidden, intermediate, element, piece), classes * hidden * element)
    sums = 4 * classes * hidden
    products = GIB // 16
    if later >= sums + GIB + products:
        return None
    return max(later, sums + GIB * 3 // 4 + products)
