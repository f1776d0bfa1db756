"""Runs the common tests of transformers with our classes, in a process of its own; prints what
became of each.

    python common_of_transformers.py SOURCE FOLDER [NAME …]

SOURCE is an unpacked source package of transformers, FOLDER a network that `relpos export` has
written. NAMEs choose some tests; without any all run, and those that skip run once more with BERT,
of several cases one. The folder's classes are relpos's where it is installed, else its own code's.
"""

import copy
import importlib
import json
import sys
import unittest
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

HEADS = {
    "AutoModel": "MODEL_MAPPING_NAMES",
    "AutoModelForMaskedLM": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "AutoModelForSequenceClassification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
}
"""Class → the table in which the common tests look up what its inputs are."""
LEFT_OUT = {
    "exporters.test_export": {"ExportTesterMixin": type("ExportTesterMixin", (), {})},
    "generation.test_utils": {"GenerationTesterMixin": type("GenerationTesterMixin", (), {})},
    "utils.test_configuration_utils": {
        "config_common_kwargs": {"return_dict": False, "output_hidden_states": True}
    },
}
"""Modules of the tests that the source package does not hold → what stands in their place."""


def expand(cases: Any, **_: Any) -> Any:
    """`parameterized.expand`, which is all of that package that they use: a method for each
    case."""

    def methods(function: Any) -> None:
        body = sys._getframe(1).f_locals
        for number, case in enumerate(cases):
            given = case if isinstance(case, tuple | list) else (case,)
            body[f"{function.__name__}_{number}"] = lambda self, given=given: function(self, *given)

    return methods


@cache
def common(source: Path) -> tuple[Any, Any]:
    """The mixin with the tests of a model, and the tester of a configuration."""
    modules: dict[str, dict[str, Any]] = {"theirs": {}}
    for name, content in LEFT_OUT.items():
        modules |= {f"theirs.{name.partition('.')[0]}": {}, f"theirs.{name}": content}
    for name, content in modules.items():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [str(source / "tests")] if name == "theirs" else []
        vars(sys.modules[name]).update(content)
    sys.modules["parameterized"] = ModuleType("parameterized")
    sys.modules["parameterized"].parameterized = type(
        "parameterized", (), {"expand": staticmethod(expand)}
    )  # type: ignore[attr-defined]
    import transformers

    # of a checkout, which this is not
    transformers.utils.direct_transformers_import = lambda path: transformers
    model = importlib.import_module("theirs.test_modeling_common")
    return model, importlib.import_module("theirs.test_configuration_common").ConfigTester


class Tester:
    """What the common tests ask for configurations and inputs."""

    batch_size, seq_length, num_choices, is_training = 3, 7, 4, True
    encoder_seq_length = key_length = 7

    def __init__(self, config: Any) -> None:
        self.config = config
        self.hidden_size, self.num_hidden_layers = config.hidden_size, config.num_hidden_layers
        self.num_attention_heads, self.vocab_size = config.num_attention_heads, config.vocab_size

    def get_config(self) -> Any:
        return copy.deepcopy(self.config)

    def prepare_config_and_inputs_for_common(self) -> tuple[Any, dict[str, Any]]:
        import torch

        generator = torch.Generator().manual_seed(0)
        ids, types = (
            torch.randint(top, (self.batch_size, self.seq_length), generator=generator)
            for top in (self.vocab_size, 2)
        )
        mask = torch.ones_like(ids)
        mask[1, 5:] = 0
        return self.get_config(), {
            "input_ids": ids,
            "token_type_ids": types,
            "attention_mask": mask,
        }


def classes(folder: str) -> tuple[Any, list[Any]]:
    """A configuration, and the classes that serve it."""
    import transformers
    from transformers.dynamic_module_utils import get_class_from_dynamic_module
    from transformers.models.auto import modeling_auto

    if folder == "bert":
        sizes = {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 37,
        }
        config = transformers.BertConfig(vocab_size=99, max_position_embeddings=32, **sizes)
        return config, [
            transformers.AutoModel._model_mapping[type(config)],
            *(getattr(transformers, f"Bert{head[9:]}") for head in list(HEADS)[1:]),
        ]
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
    models = []
    for auto, table in HEADS.items():
        if type(config).__module__.startswith("relpos."):
            model = getattr(transformers, auto)._model_mapping[type(config)]
        else:
            model = get_class_from_dynamic_module(config.auto_map[auto], folder)
            transformers.AutoConfig.register("relpos", type(config), exist_ok=True)
            getattr(transformers, auto).register(type(config), model, exist_ok=True)
        getattr(modeling_auto, table)["relpos"] = model.__name__
        models.append(model)
    return config, models


class Results(unittest.TestResult):
    """The outcome of each test."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[str] = []

    def addSuccess(self, test: Any) -> None:
        self.passed.append(test._testMethodName)


def outcomes(source: str, folder: str, names: Iterable[str] = ()) -> dict[str, list[Any]]:
    """`passed` has the names of tests, `failed` and `skipped` also why; with the classes of a
    folder, or those of `bert`."""
    config, models = classes(folder)
    theirs, config_tester = common(Path(source))

    class Case(theirs.ModelTesterMixin, unittest.TestCase):  # type: ignore[misc,name-defined]
        all_model_classes = models
        test_can_init_all_missing_weights_before_2023 = True

        def setUp(self) -> None:
            self.model_tester = Tester(config)

        def test_config(self) -> None:
            given = (
                {"vocab_size": 99, "hidden_size": 32}
                if folder == "bert"
                else {"size": config.size, "position": config.position}
            )
            config_tester(self, config_class=type(config), **given).run_common_tests()

    tests, results = names or unittest.defaultTestLoader.getTestCaseNames(Case), Results()
    unittest.TestSuite(Case(name) for name in tests).run(results)
    failed = [(str(test).split()[0], text) for test, text in results.failures + results.errors]
    skipped = [(str(test).split()[0], reason) for test, reason in results.skipped]
    return {"passed": results.passed, "failed": failed, "skipped": skipped}


if __name__ == "__main__":
    import transformers

    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    source, folder, *names = sys.argv[1:]
    results = [outcomes(source, folder, names)]
    if not names:
        # Each stands there once for each of its classes, and of cases, which end in a number, the
        # first is enough.
        firsts = {name.rstrip("0123456789"): name for name, _ in reversed(results[0]["skipped"])}
        results.append(outcomes(source, "bert", firsts.values()))
    print("\n" + json.dumps(results))
