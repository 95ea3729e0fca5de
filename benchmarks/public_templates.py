"""Public chat templates: how many conversations they label, and how many templates label anything wrong unnoticed."""

import tempfile
from pathlib import Path

from benchmarks.table import Figure
from ft_resources.errors import UserError
from tests.workers.packs.templates.public import Tried, expected, text_of
from tests.workers.packs.templates.shapes import SHAPES, mislabelled
from tests.workers.packs.templates.templates import make_tokenizer


def measure() -> list[Figure]:
    """All templates of ``public_templates.json``, with ``packing.end_of_turn`` where one needs it.

    A conversation counts as usable if it is labelled, and the doctor passes its document.
    """
    made, known = make_tokenizer(Path(tempfile.mkdtemp())), expected()
    tried, usable, wrong = 0, 0, []
    for name, each in known.items():
        try:
            text = text_of(name)
        except OSError as error:
            print(f"{name} cannot be fetched ({type(error).__name__})")
            continue
        tried += 1
        template = Tried(text, made, each.get("end_of_turn", ()))
        found = {shape: template.trace(shape) for shape in SHAPES}
        labelled = {shape: each for shape, each in found.items() if not isinstance(each, UserError)}
        usable += len(labelled)
        if any(
            list(mislabelled(*SHAPES[shape], traced.rendering.text, traced.learned, template.theirs))
            for shape, traced in labelled.items()
        ):
            wrong.append(name)
    if wrong:
        print(f"labelled wrong unnoticed: {', '.join(wrong)}")
    goal = sum(each.get("ended", each["shapes"]).count("U") for each in known.values()) / len(SHAPES)
    return [
        Figure(
            key="templates_usable",
            what=f"public templates that label a conversation, mean of {len(SHAPES)} shapes",
            ours=usable / len(SHAPES),
            peer=tried,
            peer_is="templates tried",
            goal=f">= {goal:g}",
            met=usable / len(SHAPES) >= goal,
        ),
        Figure(
            key="templates_silently_wrong",
            what="public templates that label a shape wrong, and the doctor passes it",
            ours=len(wrong),
            peer=tried,
            peer_is="templates tried",
            goal=f"0 of {len(known)}",
            met=not wrong and tried == len(known),
        ),
    ]
