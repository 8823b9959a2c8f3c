"""The page on export bundles: files, graphs, and every field of ``manifest.json``."""

from __future__ import annotations

from pydantic import BaseModel

from robo_rl.bundle.graph_checks import ACT, NOISE, PLANNED, WEIGHT
from robo_rl.bundle.manifest import (
    EXPERT_FILE,
    INPAINT_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    PREFIX_FILE,
    SCHEMA_VERSION,
    Manifest,
)
from tools.reference.config_keys import description
from tools.reference.markdown import document, sentence, slug, table
from tools.reference.types import default, field_type, models

_ABOUT = (
    "A bundle is a directory that is whole or not there. `robo_rl.Bundle.load` verifies it without"
    " torch or a simulator."
)
_FILES = (
    (MANIFEST_FILE, "The manifest, below."),
    (MODEL_FILE, "The policy: normaliser, network, sampler and back, as one ONNX graph."),
    (INPAINT_FILE, "The same policy continuing a plan, where the stage `export` made it."),
    (PREFIX_FILE, "Images and words of the same policy in two graphs, where `export` made them."),
    (EXPERT_FILE, "The rest of it, which reads the prefix and the vectors."),
)
_GRAPH = (
    (
        "`NAME`",
        "input",
        "(B, To, …)",
        "Each item of `contract.obs`, by its name; the latest step last.",
    ),
    (f"`{NOISE}`", "input", "(B, H, A)", "Standard normal noise that the chain starts from."),
    (f"`{PLANNED}`", "input", "(B, H, A)", f"The plan that goes on, in `{INPAINT_FILE}` alone."),
    (f"`{WEIGHT}`", "input", "(B, H)", f"How much of the plan is kept, in `{INPAINT_FILE}` alone."),
    ("`prefix_N`", "output, input", "(B, …)", f"Of `{PREFIX_FILE}`, and read by `{EXPERT_FILE}`."),
    (f"`{ACT}`", "output", "(B, H, A)", "Actions in physical units."),
)
_SEAL = (
    "The first key of the manifest is `seal`, the SHA-256 of the document with 64 zeros in place of"
    " the seal. `files` holds the size and the SHA-256 of every other file. Infinite numbers are"
    ' the strings `"inf"` and `"-inf"`. The seal guards against damage, not against forgery.'
)


def page() -> str:
    """Return the text of the page."""
    found = schema()
    links = {model: f"[{model.__name__}](#{slug(model.__name__)})" for model in found}
    files = table(("file", "content"), [(f"`{name}`", about) for name, about in _FILES])
    graph = table(("name", "direction", "shape", "meaning"), _GRAPH)
    version = (
        f"The newest `schema_version` is {SCHEMA_VERSION}: 2 adds `inpainting`, 3 `world`, 4"
        " `contract.text_encoder`, 5 `split`. A bundle has the oldest version that has its parts."
    )
    return document(
        "Bundle format",
        _ABOUT,
        f"## Files\n\n{files}",
        "## Graph\n\nShapes: B rows, To observation history, H horizon, A size of an action.\n\n"
        + graph,
        f"## Seal and version\n\n{_SEAL}\n\n{version}",
        *(_section(model, links) for model in found),
    )


def schema() -> list[type[BaseModel]]:
    """Return the manifest's models, outermost first."""
    found: dict[type[BaseModel], None] = {Manifest: None}
    for _ in range(4):
        for model in list(found):
            for field in model.model_fields.values():
                found |= dict.fromkeys(models(field.annotation))
    return list(found)


def _section(model: type[BaseModel], links: dict[type[BaseModel], str]) -> str:
    rows = [
        (f"`{name}`", field_type(field, links), default(field), _said(model, name))
        for name, field in model.model_fields.items()
    ]
    shown = table(("field", "type", "default", "meaning"), rows)
    return f"## {model.__name__}\n\n{sentence(model)}\n\n{shown}"


def _said(model: type[BaseModel], name: str) -> str:
    """Return the description of a field, from the model or its base class."""
    holder = next(base for base in model.__mro__ if name in vars(base).get("__annotations__", {}))
    return description(holder, name)
