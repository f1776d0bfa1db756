"""Whether a logger can log, before any work; whether Weights & Biases is asked, and at which
address: the user says so, and no file that lies about."""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Mapping
from contextlib import chdir
from importlib import import_module
from pathlib import Path
from typing import Literal

from relpos.errors import RelposError
from relpos.readers import Plain
from relpos.trust import bound, find

Mode = Literal["auto", "online", "offline"]
Where = Literal["online", "offline", "disabled"]
NAMES: dict[str, Where] = {
    "online": "online",
    "run": "online",
    "offline": "offline",
    "dryrun": "offline",
    "disabled": "disabled",
}
"""What WANDB_MODE may say → what it means."""

LOGGERS = {
    "relpos.train.loggers.wandb_logger": "wandb",
    "relpos.train.loggers.tensorboard_logger": "tensorboard",
}
"""Logger → the package that it needs."""


def refuse_logger(node: Plain) -> None:
    """Refuses a logger of ours whose package is not installed, or whom WANDB_MODE tells what it
    does not understand; and one that cannot be called.

    Raises:
        RelposError: says what to install or to set, or which argument is at fault.
    """
    if package := LOGGERS.get(node.get("_target_", "")):
        try:
            import_module(package)
        except ImportError:
            raise RelposError(f"logger={package} needs {package}: pip install {package}") from None
    if package == "wandb":
        wandb_mode(node["mode"])
    bound(node, "logger", **arguments(node, {}, Path()))


def arguments(node: Plain, run: Mapping[str, object], folder: Path) -> dict[str, object]:
    """What a logger is given beside the keys of its node: a function what the run is, a class the
    folder where it takes one."""
    target = find(node["_target_"], "logger", "logger._target_")
    if not inspect.isclass(target):
        return {"run": run, "folder": folder}
    takes_folder = "save_dir" in inspect.signature(target).parameters and "save_dir" not in node
    return {"save_dir": str(folder)} if takes_folder else {}


def wandb_mode(mode: Mode) -> Where:
    """online, offline or disabled: what the user has typed, else what WANDB_DISABLED or WANDB_MODE
    says, else online where WANDB_API_KEY is set and offline elsewhere.

    Raises:
        RelposError: WANDB_MODE says something else.
    """
    if mode != "auto":
        return mode
    if os.getenv("WANDB_DISABLED", "").lower() in ("1", "true", "yes", "on"):
        return "disabled"
    value = os.getenv("WANDB_MODE") or ("online" if os.getenv("WANDB_API_KEY") else "offline")
    if value.lower() not in NAMES:
        raise RelposError(f"WANDB_MODE={value}: online, offline or disabled is expected")
    return NAMES[value.lower()]


def set_up(mode: Where) -> None:
    """Loads the settings of Weights & Biases from the user's own file and the environment alone.

    By itself wandb reads `wandb/settings` of the working directory, too, which may have come from
    anywhere, and sends the user's key to the address that stands there.
    """
    import wandb

    home = os.path.expanduser(os.getenv("WANDB_CONFIG_DIR") or "~/.config/wandb")
    own: Plain = {
        "root_dir": os.getcwd(),
        "settings_system": os.path.abspath(os.path.join(home, "settings")),
    }
    # wandb looks in the working directory, whatever its settings say. Disabled, it starts no
    # process there.
    with tempfile.TemporaryDirectory() as empty, chdir(empty):
        wandb.setup(wandb.Settings(mode="disabled", **own))
    wandb.setup(wandb.Settings(mode=mode))
