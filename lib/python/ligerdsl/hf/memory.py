"""What a training step of a patched model takes, in bytes: how much the fused head may take, and how many layers may keep attention's output,
without the step's peak being higher for it. Numbers in, numbers out."""

GIB = 1 << 30


def piece_rows(intermediate, element, piece_bytes):
    """Rows of the MLP at a time: a piece has the gated product and its gradient. 0 bytes: all rows."""
    return max(1, piece_bytes // (2 * intermediate * element)) if piece_bytes else 1 << 62


def layer_bytes(rows, hidden, intermediate, element, piece):
    """What a layer's backward has at its largest beside its input and its gradients: norms, q, k, v, attention and the stream's gradient as
    eight rows of the width of the model, gate and up, and a piece of their product and its gradient."""
    return rows * element * (8 * hidden + 2 * intermediate) + 2 * min(rows, piece) * intermediate * element


def kept_layers(rows, layers, hidden, intermediate, element, kept_row, piece, free, head):
    """How many of the last layers keep attention's output: what pieces of the MLP save, spent again. kept_row: bytes of an output's row; free: what
    is left on the device beside the inputs of all layers; head: bytes of the head's gradient."""
    saved = 2 * max(0, rows - piece) * intermediate * element
    most = min(layers, saved // (rows * kept_row))
    needed = layer_bytes(rows, hidden, intermediate, element, piece) + head + GIB // 4
    while most and needed + most * rows * kept_row > free:
        most -= 1
    return most


def head_limit(rows, layers, hidden, intermediate, element, piece, classes, other_gradients):
    """Limit of the fused head's workspace, or None for the library's own choice. Backward ends with all gradients and a layer's or the
    embedding's memory; the head runs while none of these is there, but the inputs of all layers. other_gradients: bytes of gradients that are
    not there yet and not the head's. Below f32 sums of the weight's gradient and 3/4 GiB of logits chunks are too small to be fast."""
    inputs = (layers + 4) * rows * hidden * element
    later = max(other_gradients - inputs, 0) + max(layer_bytes(rows, hidden, intermediate, element, piece), classes * hidden * element)
    sums = 4 * classes * hidden
    products = GIB // 16
    if later >= sums + GIB + products:
        return None
    return max(later, sums + GIB * 3 // 4 + products)
