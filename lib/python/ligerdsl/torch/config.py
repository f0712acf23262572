"""Settings of the process."""

from .. import _bind

_MODES = {"off": 0, "lazy": 1, "sync": 2}


class Config:
    """Settings:

    * max_workspace_bytes: limit for the workspace of a fused lm_head, without its results; None:
      the library's own choice.
    * check_labels: "lazy": LabelError or BoundsError is raised by a later loss, backward or
      check(), or on a CPU at once. "sync": waits for the GPU at each loss. "off": no check.
    * main_grad: if a parameter has an f32 `main_grad`, backward adds its gradient there and sets
      its `grad_added_to_main_grad` to True.
    * copies: {operation: number of tensors copied because the kernel does not support their
      strides}.
    * copies_warned: operations that have warned of their first copy."""

    def __init__(self):
        self.copies, self.copies_warned = {}, set()
        self.max_workspace_bytes = None
        self._main_grad = False
        self._check_labels = "lazy"

    @property
    def main_grad(self):
        return self._main_grad

    @main_grad.setter
    def main_grad(self, on):
        _bind.set_main_grad(on)
        self._main_grad = on

    @property
    def check_labels(self):
        return self._check_labels

    @check_labels.setter
    def check_labels(self, mode):
        if mode not in _MODES:
            raise ValueError(f"check_labels: expected one of {', '.join(_MODES)}, got {mode!r}")
        _bind.set_check_labels(_MODES[mode])
        self._check_labels = mode


config = Config()
