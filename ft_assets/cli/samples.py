"""A few answers of a result beside its base's, to rows of the holdout, and the address of the page with all of them."""

from rich.console import Console
from rich.text import Text

from ft_assets.cli.door import api, page_of
from ft_assets.records.submissions import Submission
from ft_resources.store import Store

_SHOWN, _LETTERS = 5, 240
_PAGE = "report/report.html"


def print_samples(store: Store | None, submission: Submission) -> None:
    """Print at most five questions of the holdout with the wanted answer, the base's and the result's; then the page's
    address. Nothing where no answers were asked for."""
    asked = submission.dataset, submission.recipe
    found = api.answers_side_by_side(*asked, most=_SHOWN, store=store)
    console = Console(highlight=False, soft_wrap=True)
    for each in found:
        console.print()
        for role, text in each.before:
            console.print(Text.assemble((f"{role:10}", "dim"), one_line(text)))
        console.print(Text.assemble(("question  ", "dim"), one_line(each.question)))
        console.print(Text.assemble(("wanted    ", "dim"), one_line(each.target)))
        for who, said, right in (
            ("base", each.base, each.base_right),
            ("result", each.candidate, each.candidate_right),
        ):
            style = "green" if right else ""
            console.print(Text.assemble((f"{who:10}", "dim"), (one_line(said) or "(nothing)", style)))
    console.print()
    console.print(Text(f"all of it: {page_of(api.evaluation(*asked, store=store).report, _PAGE)}", "dim"))


def one_line(text: str) -> str:
    """The beginning of a ``text`` of others for a terminal: nothing in it moves the cursor or turns letters round."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= _LETTERS else f"{line[: _LETTERS - 1]}…"
