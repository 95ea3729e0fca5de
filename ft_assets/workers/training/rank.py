"""One rank of a training: ``python -m torch.distributed.run … -m ft_assets.workers.training.rank FOLDER``.

It talks to its worker through files in FOLDER, which the worker made. It reads ``spec.json`` and ``scratch.json``, and
writes ``events.jsonl`` (rank 0), ``graceful`` and its ending. ``stop`` asks it to stop. The worker holds a lock on
``alive`` for as long as it lives.
"""

import json
import os
import sys
from pathlib import Path

from ft_assets.settings.layout import local_rank
from ft_assets.workers.training.distributed.endings import run_to_its_end
from ft_assets.workers.training.distributed.rank_files import RESULT, RankContext, live_with_worker
from ft_assets.workers.training.train import train_as_rank


def main() -> None:
    """Train as a rank, and exit."""
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    live_with_worker(folder)

    def work() -> None:
        if rank:
            # What all ranks would print is printed once; each prints its own errors.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        result = train_as_rank(RankContext(folder, rank, local_rank()))
        if rank == 0:
            (folder / RESULT).write_text(json.dumps(result.facts))

    run_to_its_end(folder, rank, work)


if __name__ == "__main__":
    main()
