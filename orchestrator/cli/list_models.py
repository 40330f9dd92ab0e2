"""`list-models`: what can be measured."""

import json
from typing import TYPE_CHECKING

import click

from orchestrator.cli.program import Command, table
from orchestrator.cli.streams import say

if TYPE_CHECKING:
    from protocol.cell import ModelSpec


@click.command("list-models", cls=Command)
@click.option("--type", "kind", type=click.Choice(["transformer", "cnn", "generative", "other"]), help="These alone.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(*, kind: str | None, as_json: bool) -> None:
    """Show the models."""
    from orchestrator import catalogue

    models = [model for model in catalogue.load().models if kind in {None, model.type}]
    if as_json:
        say(json.dumps([_entry(model) for model in models], indent=2))
    elif models:
        header = ("Model", "Name", "Type", "Parameters", "Input", "GFLOP")
        rows = [
            (
                model.name,
                model.title,
                model.type,
                f"{model.parameters / 1e6:,.1f} M",
                "" if model.sizes is None else str(model.sizes.default),
                f"{model.inference_gflops:g}",
            )
            for model in models
        ]
        say(table(header, rows, numbers=frozenset({3, 4, 5})))
    else:
        say(f"There is no model of the type {kind} yet.")


def _entry(model: "ModelSpec") -> dict[str, object]:
    """What a program wants to know of a model. Keys as in the report."""
    return {
        "model_name": model.name,
        "title": model.title,
        "model_type": model.type,
        "parameters_count": model.parameters,
        "input_size": None if model.sizes is None else model.sizes.default,
        "inference_gflops": model.inference_gflops,
        "memory_mb": model.memory_mb,
    }
