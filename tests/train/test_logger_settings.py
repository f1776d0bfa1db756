"""Weights & Biases is asked where the user says so: neither a file that lies about nor a default
says it."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb
from pytorch_lightning.loggers import Logger

from relpos.commands import dashboard
from relpos.errors import RelposError
from relpos.tables.table import Table
from relpos.train.logger_settings import wandb_mode
from relpos.train.loggers import identified, wandb_logger

KEY = "0" * 40


@pytest.mark.parametrize(("variables", "mode"), [
    ({}, "offline"),
    ({"WANDB_API_KEY": KEY}, "online"),
    ({"WANDB_MODE": "offline", "WANDB_API_KEY": KEY}, "offline"),
    ({"WANDB_MODE": "disabled", "WANDB_API_KEY": KEY}, "disabled"),
    ({"WANDB_MODE": "DryRun", "WANDB_API_KEY": KEY}, "offline"),
    ({"WANDB_MODE": "online"}, "online"),  # whose key `wandb login` has kept
    ({"WANDB_MODE": "", "WANDB_API_KEY": KEY}, "online"),
    ({"WANDB_DISABLED": "true", "WANDB_API_KEY": KEY}, "disabled"),
    ({"WANDB_DISABLED": "false", "WANDB_API_KEY": KEY}, "online"),
])  # fmt: skip
def test_the_variables_of_weights_and_biases_decide(variables, mode, monkeypatch):
    for name in ("WANDB_MODE", "WANDB_DISABLED", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert wandb_mode("auto") == mode
    assert wandb_mode("offline") == "offline"


def logger_of(folder: Path) -> Logger:
    run = identified("id", "name", "pretrain", {}, scheme="fixed")
    return wandb_logger("p", None, "auto", run=run, folder=folder)


def test_a_disabled_run_is_logged_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    logger_of(tmp_path).log_metrics({"loss": 1.0}, step=1)
    assert not list(tmp_path.rglob("*.wandb"))


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """What arrives at the address that settings in the working directory name."""
    arrived: list[bytes] = []
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = "http://{}:{}".format(*listening.getsockname())

        def serve() -> None:
            while True:
                try:
                    with listening.accept()[0] as connection:
                        arrived.append(connection.recv(10_000))
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        for name in ("wandb", ".wandb"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "settings").write_text(
                f"[default]\nbase_url = {address}\napi_key = {KEY}\nmode = online\n"
            )
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        monkeypatch.setenv("WANDB_HTTP_TIMEOUT", "1")
        monkeypatch.delenv("WANDB_MODE")
        wandb.teardown()  # what another test has loaded
        yield arrived
    wandb.teardown()


def test_the_key_is_sent_to_no_address_of_the_working_directory(stranger, tmp_path, monkeypatch):
    addresses: list[str] = []

    def begin(**arguments: object) -> None:
        addresses.append(wandb.setup().settings.base_url)
        raise wandb.errors.CommError("no network")

    monkeypatch.setattr(wandb, "init", begin)
    with pytest.raises(wandb.errors.CommError):
        logger_of(tmp_path / "run")
    assert len(addresses) == 2  # online, and then offline
    assert not [address for address in addresses if "127.0.0.1" in address]
    assert Path.cwd() == tmp_path
    assert stranger == []


def test_the_dashboard_asks_no_address_of_the_working_directory(stranger, monkeypatch):
    addresses: list[str] = []

    class Api:
        def __init__(self) -> None:
            addresses.append(wandb.setup().settings.base_url)
            raise ValueError("no network")

    monkeypatch.setattr(wandb, "Api", Api)
    with pytest.raises(RelposError, match="no network"):
        dashboard.upload(Table("t", "?", []), "p", None)
    assert "127.0.0.1" not in addresses[0]
    assert stranger == []


def test_the_users_own_settings_say_the_address(stranger, monkeypatch):
    Path("own").mkdir()
    Path("own/settings").write_text("[default]\nbase_url = https://wandb.example.org\n")
    monkeypatch.setenv("WANDB_CONFIG_DIR", "own")
    monkeypatch.setattr(wandb, "Api", lambda: pytest.fail(wandb.setup().settings.base_url))
    with pytest.raises(pytest.fail.Exception, match=r"https://wandb\.example\.org"):
        dashboard.upload(Table("t", "?", []), "p", None)
    assert os.environ["WANDB_CONFIG_DIR"] == "own"
