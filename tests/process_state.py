"""What a test may change in its process beyond its own variables, and how that is put back.

Tests of many files share a process, in an order that nobody chose: commands called in it, trainings
and the libraries below them set signal handlers, environment variables, the number of threads and
more.
"""

import logging
import os
import signal
import sys
from pathlib import Path

SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGHUP,
    signal.SIGPIPE,
)
OF_PYTEST = "PYTEST_CURRENT_TEST"  # an environment variable that pytest itself sets and deletes


class ProcessState:
    """This process as it is now, but for torch, which `restore` leaves as in a new process with one
    thread and seed 0.

    Args:
        made_up: modules that lie below this folder are those of a test, and another test may have
            one of the same name.
    """

    def __init__(self, made_up: Path) -> None:
        self.made_up = str(made_up)
        self.environment = dict(os.environ)
        self.handlers = {number: signal.getsignal(number) for number in SIGNALS}
        self.path, self.argv, self.folder = [*sys.path], [*sys.argv], Path.cwd()
        self.modules = set(sys.modules)
        self.log_level = logging.getLogger().level

    def restore(self) -> None:
        """Puts back what has changed. Called around each of thousands of tests, so it looks before
        it writes."""
        for number, handler in self.handlers.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        self._restore_environment()
        sys.path[:], sys.argv[:] = self.path, self.argv
        os.chdir(self.folder)
        # wandb_workspaces raises it as it is imported
        if logging.getLogger().level != self.log_level:
            logging.getLogger().setLevel(self.log_level)
        self._forget_modules()
        _restore_torch()

    def _restore_environment(self) -> None:
        now = dict(os.environ)
        for name in now.keys() - self.environment.keys() - {OF_PYTEST}:
            del os.environ[name]
        for name, value in self.environment.items():
            if now.get(name) != value and name != OF_PYTEST:
                os.environ[name] = value

    def _forget_modules(self) -> None:
        if len(sys.modules) == len(self.modules):
            return
        for name in sys.modules.keys() - self.modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(self.made_up):
                del sys.modules[name]
        self.modules = set(sys.modules)


def _restore_torch() -> None:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    # what a test draws does not depend on what those before it drew
    torch.default_generator.manual_seed(0)
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)
    if torch.get_default_dtype() != torch.float32:
        torch.set_default_dtype(torch.float32)
    # Lightning's Trainer(deterministic=True) leaves them so
    if torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(False)
    if torch.get_float32_matmul_precision() != "highest":
        torch.set_float32_matmul_precision("highest")
    torch.set_grad_enabled(True)
    library = sys.modules.get("relpos.model.kernels.library")
    if library is not None:
        library._loaded.clear()  # with RELPOS_COMPILE=0 nothing is loaded again
