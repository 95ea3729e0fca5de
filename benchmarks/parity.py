"""``python -m benchmarks parity``: whether the parity gate proves a good server and finds each planted fault.

The base is the demo's, with a random adapter; the server is the embedded one over HTTP, the reference the evaluation's
own code, both in float32.
"""

import tempfile
from pathlib import Path

import ft_assets.demo
from benchmarks.table import Figure
from ft_assets.workers.serving.parity.limits import LIMITS
from tests.workers.serving.parity.world import FAULTS, NAME, OLD, World, serving

_DEMO_BASE = Path(ft_assets.demo.__file__).parent / "base"


def measure() -> list[Figure]:
    """The largest difference of a log-probability on a good server, and how many faults are found."""
    bar = LIMITS["float32"].max
    with tempfile.TemporaryDirectory(prefix="ft-parity-") as scratch:
        # As large as what training gives: rounding is amplified by wilder ones.
        world = World.make(Path(scratch), _DEMO_BASE, std=0.05)
        with serving(_DEMO_BASE, {NAME: world.evaluated.adapter, OLD: world.old}) as served:
            good = world.check(served.client, prompts=50)
            found = 0
            for number, (name, fault) in enumerate(FAULTS.items()):
                folder = Path(scratch) / f"fault-{number}"
                folder.mkdir()
                report = fault(world, served, folder)
                found += report.outcome == "failed"
                print(f"{name}: {report.outcome}: {'; '.join(report.reasons)}")
    print(f"good server: {good.outcome}: {good.figures}")
    largest = good.figures.max if good.figures and good.proved else None
    return [
        Figure(
            key="parity_max_dlogprob_f32",
            what="largest difference of a log-probability, nats",
            ours=largest,
            peer=None,
            peer_is="",
            goal=f"<= {bar}",
            met=largest is not None and bar is not None and largest <= bar,
        ),
        Figure(
            key="planted_parity_faults_found",
            what=f"planted faults found, of {len(FAULTS)}",
            ours=found,
            peer=None,
            peer_is="",
            goal=f"= {len(FAULTS)}",
            met=found == len(FAULTS),
        ),
    ]
