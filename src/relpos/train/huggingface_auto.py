"""`AutoConfig` and `AutoModel…` open folders whose `model_type` is relpos. Called when `transformers` is imported, see
`relpos/__init__.py`; a folder's own code does not register itself, because another folder may have other code."""

from __future__ import annotations


def register_config() -> None:
    """With `AutoConfig`."""
    from transformers import AutoConfig

    from relpos.train.huggingface_config import RelposConfig

    AutoConfig.register("relpos", RelposConfig, exist_ok=True)


def register_models() -> None:
    """With every `AutoModel…` for which there is a class."""
    import transformers

    from relpos.train import huggingface
    from relpos.train.standalone import CLASSES

    for auto, ours in CLASSES.items():
        if auto != "AutoConfig":
            getattr(transformers, auto).register(huggingface.RelposConfig, getattr(huggingface, ours), exist_ok=True)
