"""One figure and the table of them."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A measured figure beside the peer's (or the bound it is held to), None where it could not be measured."""

    key: str
    what: str
    ours: float | None
    peer: float | None
    peer_is: str
    goal: str
    met: bool | None


def goal_figure(key: str, what: str, value: float | None, goal: float | None) -> Figure:
    """A figure without a peer that should reach ``goal`` (None: it is only reported)."""
    return Figure(
        key=key,
        what=what,
        ours=value,
        peer=None,
        peer_is="",
        goal="reported" if goal is None else f">= {goal}",
        met=None if value is None else goal is None or value >= goal,
    )


def bound_figure(key: str, what: str, ours: float, goal: str, below: float, whole: bool = True) -> Figure:
    """A figure that should stay below a bound; unless ``whole`` it is of too little to meet or miss its goal."""
    met = ours < below if whole else None
    return Figure(key=key, what=what, ours=ours, peer=None, peer_is="", goal=goal, met=met)


def print_table(name: str, figures: list[Figure]) -> None:
    """Print the figures with their ratios to the peer's."""
    table = Table(title=f"benchmark {name}", title_justify="left")
    for column in ("figure", "ours", "peer", "peer is", "ratio", "goal", ""):
        table.add_column(column, justify="right" if column in ("ours", "peer", "ratio") else "left")
    for figure in figures:
        ratio = figure.ours / figure.peer if figure.ours is not None and figure.peer else None
        verdict = {True: "met", False: "MISSED", None: "not measured"}[figure.met]
        cells = [_number(figure.ours), _number(figure.peer), figure.peer_is, _number(ratio), figure.goal, verdict]
        table.add_row(figure.what, *cells)
    Console(width=150).print(table)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}"
