"""`list-models`: what can be measured, its size, and its inputs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli.decorators import offering
from orchestrator.cli.program import Command, table
from orchestrator.cli.streams import indented, say
from orchestrator.config import choices

if TYPE_CHECKING:
    from protocol.cell import ModelSpec, Sizes

EXAMPLES: Final = """\b
Examples:
  {command}
  {command} --type cnn
  {command} --type probe --json
"""
HEADER: Final = ("Model", "Type", "Parameters", "Input", "Takes", "Memory")
EXPLAINED: Final = """\
Parameters in millions.
Takes: valid values of --seq-len (tokens) and --input-size (pixels).
Memory: approximate GPU memory in GB for training at batch size 32."""


@click.command("list-models", cls=Command, epilog=EXAMPLES)
@click.option(
    "--type",
    "kind",
    metavar="NAME",
    shell_complete=offering(choices.model_types, several=False),
    help="Only transformer, cnn, generative, other or probe.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(*, kind: str | None, as_json: bool) -> None:
    """Show the models, and the probes that measure the device itself."""
    from orchestrator.config import catalogue
    from orchestrator.config.yaml_schema import require_known

    if kind is not None:
        require_known(kind, "--type", catalogue.MODEL_TYPES, "type")
    models = [model for model in catalogue.load().models if kind in {None, model.type}]
    say(indented([_entry(model) for model in models]) if as_json else _page(models))


def _page(models: "Sequence[ModelSpec]") -> str:
    shown = table(HEADER, [_row(model) for model in models], numbers=frozenset({2, 5}))
    generation = [
        f"Generation: {model.name} writes {model.generation.new_tokens} tokens after a prompt of "
        f"{model.generation.prompt_tokens}."
        for model in models
        if model.generation is not None
    ]
    on_request = [f'Excluded from "all": {model.name}.' for model in models if model.on_request]
    return "\n".join((shown, "", EXPLAINED, *generation, *on_request))


def _row(model: "ModelSpec") -> tuple[str, ...]:
    sizes = model.sizes
    return (
        model.name,
        model.type,
        f"{model.parameters / 1e6:,.1f}" if model.parameters else "",
        "" if sizes is None else f"{sizes.default} {sizes.unit}",
        "" if sizes is None else _range(sizes),
        f"{model.memory_mb / 1024:.1f}",
    )


def _range(sizes: "Sizes") -> str:
    if sizes.largest == sizes.smallest:
        return "nothing else"
    if sizes.only:
        return ", ".join(map(str, sizes.only))
    if sizes.step == 1:
        return f"{sizes.smallest} or more" if sizes.largest is None else f"{sizes.smallest} to {sizes.largest}"
    last = "" if sizes.largest is None else f", {sizes.largest}"
    return f"{sizes.smallest}, {sizes.smallest + sizes.step}, ...{last}"


def _entry(model: "ModelSpec") -> dict[str, object]:
    from msgspec import to_builtins

    return {
        "model_name": model.name,
        "title": model.title,
        "model_type": model.type,
        "parameters_count": model.parameters,
        "input_size": None if model.sizes is None else model.sizes.default,
        "input_sizes": to_builtins(model.sizes),
        "inputs": to_builtins(model.inputs),
        "generation": to_builtins(model.generation),
        "on_request": model.on_request,
        "inference_gflops": model.inference_gflops,
        "memory_mb": model.memory_mb,
    }
