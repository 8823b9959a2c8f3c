"""The page with every metric of ``metrics.jsonl``."""

from __future__ import annotations

from robo_rl.train.checkpoint.metric_names import METRICS
from tools.reference.markdown import document, table

_ABOUT = (
    "A stage that learns writes `metrics.jsonl`: one JSON object a line, whose `step` never falls."
    " A number that is not finite is written as `null`. `*` stands for any text: the name of a part"
    " of the reward, say. Unit `1` is none. The table is"
    " `robo_rl/train/checkpoint/metric_names.py`; plugins may write further metrics."
)


def page() -> str:
    """Return the text of the page."""
    rows = [(f"`{each.pattern}`", each.unit, each.meaning, each.written_by) for each in METRICS]
    return document("Metrics", _ABOUT, table(("metric", "unit", "meaning", "written by"), rows))
