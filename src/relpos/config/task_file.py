"""`task=FILE.yaml`: a task of the user's own, described by a file anywhere."""

from __future__ import annotations

from typing import Any

from relpos.data.own_task import OwnTask
from relpos.errors import RelposError
from relpos.places import expanded
from relpos.readers import read_yaml
from relpos.trust import refuse, refuse_mistakes


def is_file(name: str) -> bool:
    """Whether the name of a task is the path of a YAML file."""
    return name.endswith((".yaml", ".yml"))


def read_task_file(name: str) -> dict[str, Any]:
    """The arguments of `OwnTask` in a YAML file; `name` and `folder` are the file's own where it does not set them.

    Raises:
        RelposError: names the file and what is wrong.
    """
    path = expanded(name)
    content = read_yaml(path)
    if "${" in str(content):  # in a plan it would be read as a reference to another key, or to the environment
        raise RelposError(f"{name}: the file has ${{, and may not refer to anything")
    if isinstance(content, dict) and "." in str(content.get("metric")):
        refuse(content["metric"], "metric", f"{name}: metric")
    labels = content.get("labels") if isinstance(content, dict) else None
    if isinstance(labels, list) and any(isinstance(label, bool) for label in labels):
        raise RelposError(f'{name}: labels: YAML reads yes, no, true and false as truth values; put them in quotes, ["no", "yes"]')
    try:  # here and not by the constructor, whose message would not name the file
        refuse_mistakes(content, OwnTask)
    except RelposError as error:
        raise RelposError(f"{name}: {error}") from None
    # From the file's folder and absolute: the same task must be found from any working directory.
    folder = path.resolve().parent / expanded(str(content.get("folder") or "."))
    return {"name": path.stem} | content | {"folder": str(folder.resolve())}
