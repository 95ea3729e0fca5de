"""Find the example that made a step fail, by running the step's documents again one by one."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.format import Pack, Window
from ft_assets.workers.packs.isolation.batches import as_row
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.packs.sampler import Order, Step
from ft_assets.workers.training.divergence import name_examples
from ft_assets.workers.training.memory import is_out_of_memory
from ft_resources.errors import BadData, UserError

Forward = Callable[[Window], Any]


@contextmanager
def examples_blamed(pack: Pack, order: Order, position: Callable[[], int], forward: Forward) -> Iterator[None]:
    """Raise BadData, naming the example, if a step fails because one of its documents cannot be read or computed.

    ``position()`` is where the failed step began. Errors that no single document causes pass through unchanged.
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
        # If no example can be computed, the model is at fault, and not a row of the user's.
        if not guilty or 1 < len(set(guilty)) == len(set(pack.examples_of(step.windows.tolist()).tolist())):
            raise
        raise BadData(
            f"the step cannot be computed ({type(error).__name__}): its example {name_examples(pack, guilty)} is "
            f"malformed in the token pack",
            where=f"step {step.number} of {order.steps}",
            remedy="Check this row of the upload and verify the token pack (ft verify). If the pack is intact, leave "
            "the row out in a new dataset version.",
        ) from error


def malformed(pack: Pack, step: Step, forward: Forward) -> list[int]:
    """Examples of ``step`` with a document that fails on its own; all examples of a window that cannot be read."""
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
    """Run a document through the model on its own; raises whatever is wrong with it.

    Without ``computes`` the document is only inspected: a GPU may be unusable after the failure, and a sharded model
    computes only if all ranks do.
    """
    row = as_row(window)
    vocabulary = model.config.get_text_config().vocab_size
    # Checked here, as a GPU is unusable after a token outside the vocabulary.
    if len(window.input_ids) and not 0 <= int(window.input_ids.min()) <= int(window.input_ids.max()) < vocabulary:
        raise ValueError("a token is outside the model's vocabulary")
    if computes and row.learned:
        token_losses(model, row)


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
