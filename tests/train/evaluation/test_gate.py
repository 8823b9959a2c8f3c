"""A gate answers pass, fail or cannot tell; where it cannot, it says how many episodes would."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from small_runs import EXPERIMENT, STAGES, write_experiment

from robo_rl.bundle.manifest import ClosedLoopParity
from robo_rl.cli.main import main
from robo_rl.config.models import validate
from robo_rl.core.errors import Notice
from robo_rl.export.parity import closed_loop_parity, closed_loop_shortfall
from robo_rl.ope.policy_comparison import OpeAnswer, PolicyComparison
from robo_rl.stats.intervals import Interval, wilson
from robo_rl.train.evaluation.evaluate import EvalProtocol, EvalResult, Measure
from robo_rl.train.evaluation.gate import (
    Gate,
    comparison_gate,
    confidence_of,
    low_power_warning,
)
from robo_rl.train.ope.ope_evaluator import OpeResult
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.preflight.run_warnings import emit_run_warnings, find_power_warnings
from robo_rl.train.pipeline.stage import Report
from robo_rl.train.stages.success_classifier import rates_answer


def result(only: int, both: int, n: int, measure: Measure = "success", *, last: bool = False):
    """Of n episodes that succeed in ``both`` and, at this end of the others, ``only`` more."""
    success = torch.zeros(n, dtype=torch.bool)
    success[:both] = True
    success[n - only if last else both : n if last else both + only] = True
    returns = torch.arange(float(n)) + 10.0 * success
    return EvalResult(success, returns, torch.ones(n, dtype=torch.int64), "ab", measure=measure)


@pytest.mark.parametrize(
    ("only_new", "only_ref", "n", "answer"),
    [(2, 1, 400, "pass"), (0, 40, 400, "fail"), (1, 3, 200, "cannot tell"), (0, 0, 50, None)],
)
def test_a_comparison_answers_in_three_ways(
    only_new: int, only_ref: int, n: int, answer: str | None
):
    new, ref = result(only_new, n // 2, n), result(only_ref, n // 2, n, last=True)
    gate = comparison_gate("no worse", new, ref, 0.03)
    assert gate.answer == (answer or "cannot tell")
    assert gate.passed is (answer == "pass")
    assert (gate.episodes_needed is None) is (gate.answer != "cannot tell")
    assert gate.status == {"pass": "passed", "fail": "failed"}.get(gate.answer, "cannot tell")
    if gate.episodes_needed is not None:
        assert gate.episodes_needed > n
        assert f"about {gate.episodes_needed:,} episodes decide" in gate.detail
        assert gate.detail.startswith("cannot tell: difference ")


def test_so_many_times_the_same_episodes_do_tell():
    new, ref = result(1, 100, 200), result(3, 100, 200, last=True)
    needed = comparison_gate("no worse", new, ref, 0.03).episodes_needed
    assert needed is not None
    times = -(-needed // 200)

    def again(one: EvalResult) -> EvalResult:
        return one._replace(success=one.success.repeat(times))

    assert comparison_gate("no worse", again(new), again(ref), 0.03).answer == "pass"


def test_each_further_look_has_half_the_error_of_the_one_before():
    """Otherwise evaluating until a comparison decides would pass half of the equally bad ones."""
    assert [confidence_of(looks) for looks in range(3)] == pytest.approx([0.95, 0.975, 0.9875])
    assert sum(1 - confidence_of(looks) for looks in range(40)) == pytest.approx(0.1)
    new, ref = result(0, 65, 130), result(0, 65, 130)
    first, second = (comparison_gate("a", new, ref, 0.03, looks=looks) for looks in (0, 1))
    assert (first.answer, second.answer) == ("pass", "cannot tell")
    assert "look" not in first.detail
    assert "; look 2, interval of 97.5 %" in second.detail
    assert second.episodes_needed is not None
    more = result(0, second.episodes_needed, second.episodes_needed)
    assert comparison_gate("a", more, more, 0.03, looks=2).answer == "pass"
    short = result(0, second.episodes_needed - 1, second.episodes_needed - 1)
    assert comparison_gate("a", short, short, 0.03, looks=2).answer == "cannot tell"


def test_a_task_is_compared_on_the_episodes_of_the_reference():
    """Also where a policy's episode is said to be of another task."""
    tasks = torch.arange(120) % 2
    ref = result(0, 120, 120)._replace(tasks=tasks, task_names=("a", "b"))
    new = ref._replace(tasks=tasks.clone().index_fill_(0, torch.tensor([3]), 0))
    assert "worse" not in comparison_gate("a", new, ref, 0.05).detail.replace("not worse", "")


def test_returns_are_told_in_three_ways():
    torch.manual_seed(0)
    ref = EvalResult(*3 * [torch.zeros(60)], "ab", measure="return")  # pyright: ignore
    ref = ref._replace(returns=100.0 + torch.randn(60))
    answers = []
    for change, noise in ((10.0, 1.0), (-30.0, 1.0), (0.0, 100.0)):
        new = ref._replace(returns=ref.returns + change + noise * torch.randn(60))
        gate = comparison_gate("no worse", new, ref, 0.05)
        answers.append(gate.answer)
        assert (gate.episodes_needed is None) is (gate.answer != "cannot tell")
    assert answers == ["pass", "fail", "cannot tell"]


def test_a_gate_says_what_it_passed_where_nobody_said_an_answer(tmp_path: Path):
    """Also of reports that were written before there were three."""
    assert Gate(name="a", passed=True, detail="").answer == "pass"
    Report("bc", gate=Gate(name="a", passed=False, detail="")).write(tmp_path)
    body = json.loads((tmp_path / "report.json").read_text())
    for name in ("answer", "episodes_needed", "setting"):
        del body["gate"][name]
    del body["earlier"]
    (tmp_path / "report.json").write_text(json.dumps(body))
    read = Report.read(tmp_path)
    assert read is not None
    assert read.gate is not None
    assert (read.gate.answer, read.status) == ("fail", "failed")
    with pytest.raises(ValidationError, match="did not pass"):
        Gate(name="a", passed=False, detail="", answer="pass")
    unknown = Gate(name="a", passed=False, detail="", answer="cannot tell")
    assert unknown.status == "cannot tell"
    assert unknown.model_copy(update={"waiver": "why"}).status == "waived"


def share(successes: int, n: int) -> dict[str, Any]:
    low, high = wilson(successes, n)
    return {"value": successes / n, "low": low, "high": high, "n": n}


def test_what_tells_a_success_is_told_in_three_ways():
    assert rates_answer([share(50, 50), share(49, 50)], 0.5) == ("pass", None)
    assert rates_answer([share(50, 50), share(5, 50)], 0.5) == ("fail", None)
    answer, needed = rates_answer([share(10, 10), share(8, 10)], 0.7)
    assert answer == "cannot tell"
    assert needed is not None
    more = 2 * needed
    assert rates_answer([share(more, more), share(int(0.8 * more), more)], 0.7) == ("pass", None)
    assert rates_answer([share(10, 10), share(7, 10)], 0.7) == ("cannot tell", None)


def verdict(difference: float, reach: float, margin: float = 0.0) -> PolicyComparison:
    interval = Interval(difference - reach, difference + reach)
    answer = OpeAnswer.CANNOT_TELL
    answer = OpeAnswer.BETTER if interval.low > margin else answer
    answer = OpeAnswer.WORSE if interval.high < 0.0 else answer
    return PolicyComparison(difference, interval, margin, answer)


def test_off_policy_evaluation_says_how_many_episodes_it_would_judge_by():
    unsure = OpeResult({"fqe": verdict(0.1, 0.2)}, 1.0, 1.35)
    assert unsure.answer is OpeAnswer.CANNOT_TELL
    assert unsure.episodes_needed(50) == 201  # twice as far as it may: four times as many
    assert verdict(0.1, 0.2 / (201 / 50) ** 0.5).answer is OpeAnswer.BETTER
    assert OpeResult({"fqe": verdict(0.3, 0.2)}, 1.0, 1.35).episodes_needed(50) is None
    both = {"fqe": verdict(0.1, 0.2), "dr": verdict(0.1, 0.3)}
    assert OpeResult(both, 1.0, 1.35).episodes_needed(50) in (450, 451)  # the one that needs more
    assert OpeResult({**both, "dr": verdict(-0.1, 0.3)}, 1.0, 1.35).episodes_needed(50) is None
    assert (
        OpeResult({"fqe": verdict(0.3, 0.2)}, 2.0, 1.35).episodes_needed(50) is None
    )  # too strange
    assert verdict(0.05, 0.2, margin=0.1).episodes_needed(50) is None


def closed(good: int, n: int, policy_good: int, policy_n: int) -> ClosedLoopParity:
    return closed_loop_parity(good, n, policy_good, policy_n)


def test_parity_in_closed_loop_is_told_in_three_ways():
    assert closed_loop_shortfall(closed(95, 100, 96, 100)) is None
    worse = closed_loop_shortfall(closed(50, 100, 96, 100))
    assert worse is not None
    assert not worse.undecided
    unsure = closed_loop_shortfall(closed(88, 100, 95, 100))
    assert unsure is not None
    assert unsure.undecided
    found = re.search(r"eval\.episodes=(\d+)", unsure.text)
    assert found
    n = int(found[1])
    told = closed_loop_shortfall(closed(round(0.88 * n), n, round(0.95 * n), n))
    assert told is None or not told.undecided


@pytest.mark.parametrize(
    ("episodes", "says"),
    [(50, "cannot pass"), (124, "cannot pass"), (125, "can hardly pass"), (267, "hardly")],
)
def test_a_gate_that_has_too_few_episodes_is_named_beforehand(episodes: int, says: str):
    doubt = low_power_warning(EvalProtocol(episodes=episodes), 0.03)
    assert doubt is not None
    assert says in doubt
    assert "125" in doubt
    assert "268" in doubt


def test_a_gate_that_has_enough_episodes_or_of_which_nothing_is_known_is_not_named():
    assert low_power_warning(EvalProtocol(episodes=268), 0.03) is None
    assert low_power_warning(EvalProtocol(episodes=5, measure="return"), 0.03) is None
    experiment = validate({**EXPERIMENT, "waive": {"online": "why"}}, Experiment)
    assert [each.split(":")[0] for each in find_power_warnings(experiment, STAGES)] == [
        "stages.distill"
    ]
    with pytest.warns(Notice, match="cannot pass"):
        emit_run_warnings(experiment, ["distill"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        emit_run_warnings(experiment, ["collect", "bc", "online"])


def test_config_warns_beside_the_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = write_experiment(tmp_path, waive={})
    with pytest.warns(Notice) as told:
        assert main(["config", str(path)]) == 0
    assert [str(each.message).split(":")[0] for each in told] == ["stages.online", "stages.distill"]
    assert capsys.readouterr().out.startswith("name: tiny")


def by_task(*rates: float, each: int = 100) -> EvalResult:
    """An evaluation of tasks with these success rates, ``each`` episodes of each."""
    won = torch.cat([torch.arange(each) < round(rate * each) for rate in rates])
    tasks = torch.arange(len(rates)).repeat_interleave(each)
    names = tuple("abcd"[: len(rates)])
    return EvalResult(won, won.float(), torch.ones_like(tasks), "ab", tasks=tasks, task_names=names)


def test_a_gate_fails_if_one_task_is_worse_however_good_the_mean_is():
    """The mean rises from 50 to 70 %, and task b falls from 80 to 40 %."""
    gate = comparison_gate("g", by_task(1.0, 0.4), by_task(0.2, 0.8), 0.03)
    assert not gate.passed
    assert "task b worse" in gate.detail
    assert comparison_gate("g", by_task(1.0, 0.8), by_task(0.2, 0.8), 0.03).passed


def test_an_evaluation_reports_the_success_of_each_task():
    numbers = by_task(0.25, 0.75).report_numbers()
    assert numbers["success"]["value"] == 0.5
    assert (numbers["success/a"]["value"], numbers["success/a"]["n"]) == (0.25, 100)
    assert numbers["success/b"]["value"] == 0.75


def test_a_gate_decides_what_the_worst_and_the_best_outcome_of_lost_worlds_decide():
    """The last of 400 equal episodes are failures, so that lost ones of the new are no gain."""
    equal, row = result(0, 200, 400), torch.arange(400)
    assert comparison_gate("no worse", equal, equal, 0.03).answer == "pass"
    mine = comparison_gate("no worse", equal._replace(lost=row >= 360), equal, 0.03)
    assert mine.answer == "pass"
    for new, ref in ((0, 40), (40, 40)):
        gate = comparison_gate(
            "no worse",
            equal._replace(lost=row >= 400 - new),
            equal._replace(lost=row >= 400 - ref),
            0.03,
        )
        assert gate.answer == "cannot tell"
        assert gate.detail.startswith("cannot tell: difference +0.0% ")
        assert f"{new + ref} episodes that lost their world" in gate.detail
        assert gate.episodes_needed is None
    few = comparison_gate("no worse", equal, equal._replace(lost=row >= 399), 0.03)
    assert few.answer == "pass"
    far = result(0, 100, 400)._replace(lost=row >= 396)
    assert comparison_gate("no worse", far, equal, 0.03).answer == "fail"
    assert comparison_gate("better", equal, far, 0.0).answer == "pass"


def test_where_lost_worlds_leave_a_choice_more_episodes_decide():
    """Eight lost of 400 are a loss of at most 2 %, and 400 episodes do not show less than 3 %."""
    new = result(0, 200, 400)
    ref = new._replace(lost=torch.arange(400) >= 392)
    needed = comparison_gate("no worse", new, ref, 0.03).episodes_needed
    assert needed is not None
    assert needed > 400
    times = -(-needed // 400)

    def again(one: EvalResult) -> EvalResult:
        lost = None if one.lost is None else one.lost.repeat(times)
        return one._replace(success=one.success.repeat(times), lost=lost)

    assert comparison_gate("no worse", again(new), again(ref), 0.03, looks=1).answer == "pass"


def test_a_return_of_lost_worlds_is_no_improvement():
    """A world that is lost early saves the costs of the rest of its episode."""
    torch.manual_seed(0)
    gone = torch.arange(400) < 20
    ref = result(0, 0, 400, "return")._replace(returns=-100.0 + torch.randn(400))
    new = ref._replace(returns=torch.where(gone, -1.0, ref.returns), lost=gone)
    assert comparison_gate("better", new._replace(lost=None), ref, 0.0).answer == "pass"
    assert comparison_gate("better", new, ref, 0.0).answer == "cannot tell"
    better = new._replace(returns=ref.returns + 50.0)
    assert comparison_gate("better", better, ref, 0.0).answer == "pass"
    assert comparison_gate("no worse", ref._replace(lost=gone), better, 0.05).answer == "fail"
    none = ref._replace(lost=torch.ones_like(gone))
    assert comparison_gate("no worse", none, none, 0.05).answer == "cannot tell"
