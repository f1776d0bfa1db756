"""Operations for which a processor waits until a device has computed."""

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Refused(TorchDispatchMode):
    """Refuses operations whose result the processor has to see before it can go on."""

    WAITING = (
        "aten._local_scalar_dense",
        "aten.nonzero",
        "aten.masked_select",
        "aten.equal",
        "aten.is_nonzero",
        "aten.unique",
    )

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        assert not str(function).startswith(self.WAITING), f"{function} waits for the device"
        return function(*args, **(kwargs or {}))
