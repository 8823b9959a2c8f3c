"""What a stage's result depends on: its settings as a hash, and the parts of its world."""

from __future__ import annotations

from typing import Any

from robo_rl.config.differences import effective_settings
from robo_rl.config.models import digest
from robo_rl.train.pipeline.experiment import HOST, Experiment
from robo_rl.train.pipeline.world_digest import World, nest_worlds, world_of


def stage_world(experiment: Experiment, index: int) -> World:
    """Return the world that a stage depends on; empty if no stage up to it reads task or env.

    Other worlds in which the stage works are parts of it.
    """
    upto = list(experiment.stages.values())[: index + 1]
    read = [stage.cls.reads for stage in upto]
    if not any(names is None or {"task", "env"} & set(names) for names in read):
        return {}
    others = upto[-1].cls.other_worlds(upto[-1].cfg, experiment)
    return nest_worlds(world_of(experiment), {n: world_of(each) for n, each in others.items()})


def fields_read(experiment: Experiment, index: int) -> set[str]:
    """Return the fields of the experiment on which a stage's result depends, apart from stages."""
    everything = Experiment.model_fields.keys() - {"name", "waive", "launch", "stages", "device"}
    read = [stage.cls.reads for stage in list(experiment.stages.values())[: index + 1]]
    return {name for names in read for name in (everything if names is None else names)}


def stage_digest(experiment: Experiment, index: int, device: str = "") -> str:
    """Return the hash of all settings on which a stage's result depends, up to this stage.

    Equal digests mean equal results in one world (``world_digest``), also of two experiments, for
    the same number of shards (``online.shards``). Names, the number of processes, waivers and
    settings without effect (``effective_settings``) do not count. Waivers of stages without
    ``stops`` do, because they change the result. The device type counts unless it is the CPU;
    ``device`` replaces the type of the experiment.
    """
    counted = effective_settings(experiment)
    body = counted.model_dump(mode="json", include=fields_read(experiment, index))
    stages = list(counted.model_dump(mode="json", include={"stages"})["stages"].items())
    labels = list(experiment.stages)[: index + 1]
    waived = [
        label
        for label in labels
        if label in experiment.waive and not experiment.stages[label].cls.stops
    ]
    rest: dict[str, Any] = {"waived": waived} if waived else {}
    if (kind := device or experiment.place.type) != HOST.type:
        rest["device"] = kind
    return digest({"experiment": body, "stages": stages[: index + 1], **rest})
