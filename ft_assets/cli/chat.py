"""``ft chat``: talk to a result, here or through the server of ``ft login``."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ft_assets.cli.door import api
from ft_resources.errors import UserError

_WORDS = {"rejected": "it did not pass its gates, and no server has it", "ungated": "no gate judged it"}
_INTERRUPTED = 130


def chat(
    result: Annotated[
        str,
        typer.Argument(
            help="A submission, job, line, dataset, recipe, job's model, LINE@staging or address. Default: the newest."
        ),
    ] = "",
    system: Annotated[str, typer.Option(help="System prompt.")] = "",
    beside_base: Annotated[bool, typer.Option("--beside-base", help="Show the base's answer too.")] = False,
    tools: Annotated[
        Path | None,
        typer.Option(help="JSON file with tools in OpenAI's format; you type the results of their calls."),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option(min=1, max=4096, help="Maximum number of tokens of an answer, including thoughts.")
    ] = (1024),
) -> None:
    """Talk to a result: an adapter, an ungated result or a rejected candidate. A message from a pipe gets one answer:
    echo hi | ft chat. Ctrl-C ends an answer, Ctrl-D the chat; /new begins another one.
    """
    from ft_assets.cli.output import note, warn
    from ft_assets.cli.talking import Talking

    known = _read_tools(tools) if tools else []
    found = api.find_result(result)
    if found.state in _WORDS:
        warn([f"{found.name} is {found.state}: {_WORDS[found.state]}"])
    alone = not sys.stdin.isatty()
    asked = sys.stdin.read().strip() if alone else ""
    if alone and not asked:
        raise UserError("the piped input has no message", where="stdin", remedy="Pipe one: echo hi | ft chat.")
    if not alone:
        note(f"{found.name}, {found.address}")
    with api.open_talk(found) as talk:
        talking = Talking(talk, system=system, beside_base=beside_base, tools=known, most=max_tokens)
        if not alone:
            with suppress(ImportError):
                # Whoever types can move within the line, and have the one before it again.
                import readline  # noqa: F401
            talking.go_on(input)
        elif not talking.say(asked, input=None):
            raise typer.Exit(_INTERRUPTED)


def _read_tools(path: Path) -> list[dict[str, Any]]:
    """Raises UserError for a file that has no list of tools."""
    remedy = "Write a JSON list of tools, as OpenAI's API takes them."
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"the tools cannot be read ({error})", where=str(path), remedy=remedy) from error
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UserError("this is no list of tools", where=str(path), remedy=remedy)
    return found
