"""The families of models that train, and how often the host waits for a device in a step.

Every family of ``tests/workers/training/families.py`` is fully fine-tuned for three steps at tiny size beside a plain
loop, document by document. One whose losses differ by more than 1e-5 is wrong. Every architecture that the catalogue
refuses is given to the checks of a base; refused are those that they turn away.
"""

import tempfile
from pathlib import Path

from benchmarks.table import Figure
from ft_assets.settings.catalogue.refused import ENCODERS, REFUSED
from ft_assets.workers.training.train import train
from tests.workers.training.conftest import make_bench
from tests.workers.training.families import FAMILIES, family_bench
from tests.workers.training.placed import refusal
from tests.workers.training.test_families import losses, plain, plain_losses, rates
from tests.workers.training.test_trainer import built
from tests.workers.training.waits import Reads

_TOLERANCE = 1e-5


def measure() -> dict[str, float]:
    """``trained``, ``refused`` and ``wrong`` families, and ``waits`` a step."""
    found = {"trained": 0.0, "refused": 0.0, "wrong": 0.0}
    with tempfile.TemporaryDirectory(prefix="ft-families-") as name:
        for kind in FAMILIES:
            found[_tried(Path(name) / kind, kind)] += 1
        for kind in (*REFUSED, *ENCODERS):
            if reason := refusal(kind, Path(name)):
                found["refused"] += 1
                print(f"{kind} is refused: {reason.what}", flush=True)
        found["waits"] = _waits(Path(name) / "waits")
    return found


def figures(found: dict[str, float]) -> list[Figure]:
    """Table rows of what ``measure`` found."""
    trained, wrong, waits = found["trained"], found["wrong"], found["waits"]
    refused, known = found["refused"], len(REFUSED) + len(ENCODERS)
    rows = (
        ("families_trained", "families that train with a plain loop's losses", trained, ">= 40", trained >= 40),
        ("families_refused", "architectures that are refused, with a reason", refused, str(known), refused == known),
        ("families_wrong", "families with other losses", wrong, "0", not wrong),
        ("host_waits_per_step", "times that the host waits for the device in a step", waits, "1", waits == 1),
    )
    return [
        Figure(key=key, what=what, ours=ours, peer=None, peer_is="", goal=goal, met=met)
        for key, what, ours, goal, met in rows
    ]


def _tried(folder: Path, kind: str) -> str:
    folder.mkdir()
    bench = family_bench(folder, FAMILIES[kind], variant="full")
    result = train(bench.context())
    expected = plain_losses(bench, plain(bench.inputs["base"].folder(folder / "plain"), kind), rates(result))
    worst = max(abs(found / loss - 1) for found, loss in zip(losses(result), expected, strict=True))
    if worst > _TOLERANCE:
        print(f"{kind} differs by {worst:.1g}", flush=True)
        return "wrong"
    return "trained"


def _waits(folder: Path) -> float:
    folder.mkdir()
    trainer = built(make_bench(folder, documents=24, epochs=3, global_batch_size=4, micro_batch_size=1))
    with Reads() as reads:
        trainer.train()
    # One more at the end, for a mean loss of Transformers'.
    return (reads.count - 1) / trainer.last.step.number
