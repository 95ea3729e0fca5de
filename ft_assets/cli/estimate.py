"""``ft estimate``: what a training would take."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.door import api
from ft_resources.progress_words import seconds

if TYPE_CHECKING:
    from ft_assets.api import Asked, Estimate, Provable
    from ft_assets.settings.bounds import Bounds


def estimate(
    dataset: Annotated[str, typer.Argument(help="Dataset key, such as acme.support.v1.")],
    recipe: Annotated[str, typer.Argument(help="Recipe key, such as tiny.v1, or a recipe's YAML file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Estimate tokens, steps, time, memory and price of training RECIPE on DATASET, with the source of each number."""
    from ft_assets.cli.output import note, note_walls, print_json, print_table

    found = api.estimate(dataset, recipe)
    if as_json:
        print_json(asdict(found))
    else:
        print_table(("", "estimate", "source"), rows_of(found), empty="")
        for each in found.notes:
            note(each)
        if found.provable:
            print()
            shown = [
                (each.gate, each.on, f"{each.samples:,} {each.unit}", _enough(each), each.shows)
                for each in found.provable
            ]
            print_table(("gate", "on", "has", "enough", "detectable"), shown, empty="")
        settled = [row for row in found.settings if row[2].startswith("auto")]
        if settled:
            print()
            print_table(("auto setting", "becomes", "because"), [(n, v, why[6:]) for n, v, why in settled], empty="")
        note_walls(found.walls)


def rows_of(found: "Estimate") -> list[tuple[str, str, str]]:
    """Name, value and source of each number."""
    time = "unknown" if found.seconds is None else f"about {seconds(found.seconds)}"
    if found.rough_seconds:
        time = _roughly(found.rough_seconds)
    most, stops = ("at most ", "; may stop early: all values below are upper limits") if found.at_most else ("", "")
    rows = [
        ("tokens per epoch", f"{found.tokens_per_epoch:,}", found.tokens_from),
        ("windows per epoch", f"{found.windows:,}", found.tokens_from),
        ("optimizer steps", most + f"{found.steps:,}", f"{found.steps_per_epoch:,} per epoch{stops}"),
        ("total tokens", f"{found.tokens:,}", ""),
        ("training time", time, found.seconds_from),
        ("peak memory", _gib(found.memory), found.memory_from),
    ]
    if found.documents[0]:
        rows.append(("documents run", *found.documents))
    if found.gpu_memory and found.fits:
        rows.append(("fits the GPU", found.fits, f"{found.gpu_memory / 2**30:.1f} GiB"))
    if found.host_memory and found.scratch:
        rows.append(("host memory", _gib(found.host_memory), "on the first node, including copies for saves"))
        rows.append(("scratch disk", _gib(found.scratch), "on the first node, during saves"))
    rows.append(("GPU-hours", _hours(found), found.gpu_hours_from))
    price = "unknown" if found.price is None else f"{_between(found.price, '.2f')} {found.currency}"
    if found.trials > 1:
        rows.insert(
            0, ("trials", str(found.trials), "in the sweep; steps, tokens, time and price are totals over all trials")
        )
    if found.gpu_hours is None or found.gpu_hours.upper:
        rows.append(("price", price, found.price_from))
    for each in found.exports:
        took = "unknown" if each.seconds is None else f"about {seconds(each.seconds)}"
        rows.append((f"export {each.format}", took, each.seconds_from))
        rows.append((f"{each.format} in the store", _gib(each.disk), each.disk_from))
        if each.served_on:
            rows.append((f"{each.format} is served", f"on {each.served_on}", "vLLM 0.32"))
    return rows


def _enough(gate: "Provable") -> str:
    if gate.enough:
        return "yes"
    return f"no; about {gate.needed:,} are needed" if gate.needed else "no; no number would be enough"


def note_estimate(asked: "Asked", max_gpu_hours: float | None) -> None:
    """Print one line with the estimate of a pair's training, before any of it runs."""
    from ft_assets.cli.output import note

    found, dataset, recipe = asked.estimate, asked.submission.dataset, asked.submission.recipe
    words = [
        f"{'at most ' if found.at_most else ''}{found.steps:,} steps",
        f"{found.tokens:,} tokens ({found.tokens_from})",
    ]
    if found.trials > 1:
        words.insert(0, f"{found.trials} trials")
    if found.seconds is not None:
        words.append(f"about {seconds(found.seconds)}")
    elif found.rough_seconds:
        words.append(_roughly(found.rough_seconds))
    if found.memory:
        words.append(f"peak memory {_gib(found.memory)}")
    if found.gpu_hours and found.gpu_hours.upper:
        words.append(f"{_hours(found)} GPU-hours")
    if found.price:
        words.append(f"{_between(found.price, '.2f')} {found.currency}")
    note(f"estimated: {', '.join(words)}; more: ft estimate {dataset} {recipe}")
    for each in found.notes:
        note(each)
    if found.gpu_hours and max_gpu_hours is not None and found.gpu_hours.expected > max_gpu_hours:
        note(f"that exceeds the maximum of {max_gpu_hours:g} GPU-hours; this is decided once the tokens are counted")


def _roughly(bounds: "Bounds") -> str:
    if bounds.upper < 1:
        return "about a second"
    return f"about {seconds(bounds.lower)} to {seconds(bounds.upper)}"


def _hours(found: "Estimate") -> str:
    if found.gpu_hours is None:
        return "unknown"
    return _between(found.gpu_hours, ".2f") if found.gpu_hours.upper else "0"


def _gib(memory: "Bounds | None") -> str:
    return "unknown" if memory is None else f"{_between(memory.times(2**-30), '.1f')} GiB"


def _between(bounds: "Bounds", form: str) -> str:
    """``3.2 (2.8 to 4.1)``."""
    return f"{bounds.expected:{form}} ({bounds.lower:{form}} to {bounds.upper:{form}})"
