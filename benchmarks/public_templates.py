"""Public chat templates: how many label plain chats, and how many label anything wrong without a word."""

import tempfile
from pathlib import Path

from benchmarks.table import Figure
from ft_resources.errors import UserError
from tests.workers.packs.templates.public import ARCHIVES, Tried, distinct, fetched
from tests.workers.packs.templates.shapes import SHAPES, mislabelled
from tests.workers.packs.templates.templates import NAMES, make_tokenizer, source


def measure() -> list[Figure]:
    """TRL's templates, and those of the archives that can be fetched."""
    made = make_tokenizer(Path(tempfile.mkdtemp()))
    texts = [source(name) for name in NAMES]
    for archive in ARCHIVES:
        try:
            texts += distinct(fetched(archive)).values()
        except OSError as error:
            print(f"{archive.file} cannot be fetched ({type(error).__name__}): its templates are left out")
    usable, wrong = 0, 0
    for text in texts:
        tried = Tried(text, made)
        found = {shape: tried.trace(shape) for shape in SHAPES}
        usable += not isinstance(found["one turn"], UserError)
        wrong += any(
            list(mislabelled(*SHAPES[shape], traced.rendering.text, traced.learned, tried.theirs))
            for shape, traced in found.items()
            if not isinstance(traced, UserError)
        )
    return [
        Figure(
            key="templates_usable",
            what="public templates that label plain chats",
            ours=usable,
            peer=len(texts),
            peer_is="templates tried",
            goal="reported",
            met=True,
        ),
        Figure(
            key="templates_silently_wrong",
            what="public templates that label one of 20 shapes wrong",
            ours=wrong,
            peer=None,
            peer_is="",
            goal="0",
            met=wrong == 0,
        ),
    ]
