"""Which example made a step fail: found afterwards, by going through the step's documents again, one by one."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch

from ft_assets.checkpoints.memory import is_out_of_memory
from ft_assets.checkpoints.naming import name_examples
from ft_assets.checkpoints.sampler import Order, Step
from ft_assets.packs.format import Pack, Window
from ft_assets.packs.format.layout import offsets_of
from ft_assets.packs.isolation.batches import as_row
from ft_assets.packs.isolation.losses import learned_logits
from ft_resources.errors import BadData, UserError

Forward = Callable[[Window], Any]


@contextmanager
def examples_blamed(pack: Pack, order: Order, position: Callable[[], int], forward: Forward) -> Iterator[None]:
    """Raise BadData, naming the example, where a step fails because one of its documents cannot be read or computed.

    ``position()`` is where the failed step began. Whatever no document is to blame for goes through as it is.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        step = next(order.read(position()), None)
        if step is None or is_out_of_memory(error):
            raise
        guilty = malformed(pack, step, forward)
        if not guilty:
            raise
        raise BadData(
            f"the step cannot be computed ({type(error).__name__}): its example {name_examples(pack, guilty)} is "
            f"malformed in the token pack",
            where=f"step {step.number} of {order.steps}",
            remedy="Look at this row of the upload; verify the token pack (ft verify), and if it is whole, leave the "
            "row out in a new dataset version.",
        ) from error


def malformed(pack: Pack, step: Step, forward: Forward) -> list[int]:
    """Examples of ``step`` whose documents fail by themselves; all of a window where it cannot even be read."""
    guilty: list[int] = []
    for window in step.windows.tolist():
        try:
            read = pack.read([window])
            documents = list(_documents(read))
        except Exception:
            guilty.extend(pack.examples_of([window]).tolist())
            continue
        guilty.extend(int(document.examples[0]) for document in documents if _fails(forward, document))
    return guilty


@torch.no_grad()
def forward_alone(model: Any, window: Window, *, computes: bool) -> None:
    """Send a document through the model by itself; raises whatever is wrong with it.

    Unless it ``computes``, the document is only looked at: a GPU may be beyond computing after what went wrong, and a
    model that several ranks hold together computes only where all of them do.
    """
    row = as_row(window)
    vocabulary = model.config.get_text_config().vocab_size
    # Asked for here, as a GPU that was sent a wrong token can do nothing more.
    if len(window.input_ids) and not 0 <= int(window.input_ids.min()) <= int(window.input_ids.max()) < vocabulary:
        raise ValueError("a token that the model does not have")
    if computes and row.learned:
        learned_logits(model, row)


def _fails(forward: Forward, document: Window) -> bool:
    try:
        forward(document)
    except Exception:
        return True
    return False


def _documents(window: Window) -> Iterator[Window]:
    """The documents of a window, each as a window of its own."""
    edges = offsets_of(window.document_lengths).tolist()
    for number, (start, end) in enumerate(pairwise(edges)):
        one = slice(number, number + 1)
        yield Window(
            input_ids=window.input_ids[start:end],
            learned=window.learned[start:end],
            document_lengths=window.document_lengths[one],
            examples=window.examples[one],
            pieces=window.pieces[one],
        )
