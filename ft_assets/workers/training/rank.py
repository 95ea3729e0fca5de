"""One rank of a training: ``python -m torch.distributed.run … -m ft_assets.workers.training.rank FOLDER``.

It talks to its worker through files in FOLDER, which the worker made: ``spec.json`` and ``scratch.json`` come in;
``events.jsonl`` (of rank 0), ``graceful`` and the endings go out; ``stop`` asks it to stop; ``alive`` is locked by
the worker for as long as it lives.
"""

import json
import os
import sys
import traceback
from pathlib import Path

from ft_assets.settings.layout import local_rank
from ft_assets.workers.training.distributed.endings import write_begun, write_ending
from ft_assets.workers.training.distributed.rank_files import RESULT, RankContext, live_with_worker
from ft_assets.workers.training.train import train_as_rank
from ft_resources.worker_context import Preempted


def main() -> None:
    """Work as a rank, leave how it ended, and exit with 0 unless it failed, as that ends the other ranks."""
    folder = Path(sys.argv[1])
    rank = int(os.environ["RANK"])
    live_with_worker(folder)
    write_begun(folder, rank)
    if rank:
        # What all ranks would say alike is said once; errors are said by whoever has them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    problem: BaseException | None = None
    try:
        result = train_as_rank(RankContext(folder, rank, local_rank()))
        if rank == 0:
            (folder / RESULT).write_text(json.dumps(result.facts))
    except BaseException as error:
        problem = error
        if not isinstance(error, Preempted):
            traceback.print_exc()
    write_ending(folder, rank, problem)
    sys.stdout.flush()
    sys.stderr.flush()
    # Libraries leave threads and atexit hooks behind that can hang.
    os._exit(0 if problem is None or isinstance(problem, Preempted) else 1)


if __name__ == "__main__":
    main()
