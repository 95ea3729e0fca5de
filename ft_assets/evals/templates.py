"""Jinja texts of suites: those that end soon. Jinja's sandbox keeps a text from reaching anything; it sets no limit on
how long it runs, and a loop in a loop, or a macro that calls itself, takes for ever."""

from typing import Any

MAX_LOOPS = 4
"""Side by side; a sandboxed ``range`` gives each at most 100,000 rounds."""


def check_template(environment: Any, text: str) -> None:
    """Raise ValueError, in words, for a text that may run for ever, TemplateSyntaxError for one that is no Jinja."""
    from jinja2 import nodes

    tree = environment.parse(text)
    loops = list(tree.find_all(nodes.For))
    if len(loops) > MAX_LOOPS or any(loop.recursive or loop.find(nodes.For) for loop in loops):
        raise ValueError(
            f"the Jinja text has a loop in a loop, or more than {MAX_LOOPS}, which may take for ever; prepare a column"
        )
    kinds = (nodes.Macro, nodes.CallBlock, nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
    if tree.find(kinds) is not None:
        raise ValueError("the Jinja text defines or loads macros, which may call themselves for ever; prepare a column")
