"""`relpos merge`: finished runs of other machines, and their scores from the GLUE server → this runs folder."""

from __future__ import annotations

from relpos.errors import say
from relpos.places import expanded
from relpos.ranges import Names


def merge(folders: Names, weights: bool) -> str:
    """Copies the finished runs and the server's scores, prints on stderr how many; returns `$RELPOS_RUNS`.

    Raises:
        RelposError: see `relpos.runs.merge.merge` and `relpos.tables.scores.merged_scores`; nothing is written then.
    """
    from relpos.runs.merge import merge as merge_runs
    from relpos.runs.run import runs_root
    from relpos.tables.scores import merged_scores, write_scores

    sources = [expanded(folder) for folder in folders]
    scores = merged_scores(sources, runs_root())  # refuses before anything is written
    done = merge_runs(sources, weights)
    for table, recorded in scores.items():
        write_scores(table, recorded)
    said = f"{done.copied} trained runs copied, {done.known} were here already"
    say(f"relpos: {said}, {done.unfinished} unfinished ones left out" if done.unfinished else f"relpos: {said}")
    if scores:
        tables = ", ".join(table.name for table in scores)
        say(f"relpos: scores of the GLUE server copied; `relpos reproduce table=…` shows them: {tables}")
    return str(runs_root())
