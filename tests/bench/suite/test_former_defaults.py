"""Records from before an option, whose default is not what runs did then."""

from __future__ import annotations

from robo_rl.bench.suite.former_defaults import former_defaults

NOW = {
    "policy": {"train_times": "grid", "horizon": 8},
    "stages": {"collect": {"record": "label", "noise": 0.2}, "bc": {"steps": 5}},
}


def test_options_that_a_record_lacks_are_named_with_what_its_runs_did():
    kept = {"policy": {"horizon": 8}, "stages": {"collect": {"noise": 0.2}, "bc": {}}}
    assert former_defaults(kept, NOW) == {"train_times": "uniform", "record": "executed"}


def test_a_record_with_the_option_and_a_suite_with_the_former_value_are_as_they_say():
    assert former_defaults(NOW, NOW) == {}
    kept = {**NOW, "stages": {"collect": {"noise": 0.2}, "bc": {"steps": 5}}}
    then = {**NOW, "stages": {"collect": {"record": "executed", "noise": 0.2}, "bc": {"steps": 5}}}
    assert former_defaults(kept, then) == {}


def test_another_missing_option_is_no_difference():
    assert (
        former_defaults({"policy": NOW["policy"], "stages": NOW["stages"]}, {**NOW, "new": 1}) == {}
    )
