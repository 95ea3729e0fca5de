"""``python -m ft_assets.workers.evals.suite_process FOLDER RANK``: a process of a fan-out, see ``fan_out.py``.

It uses the store only to save scores, and records its outcome in FOLDER.
"""

import os
import sys
import threading
from pathlib import Path

from ft_assets.workers.evals.suite_saves import SuiteSaves
from ft_assets.workers.libraries import UNUSED, absent, keep_offline
from ft_assets.workers.training.distributed.endings import run_to_its_end


def main() -> None:
    """Score the suites that no other process takes."""
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_end_with_the_worker, name="worker", daemon=True).start()

    def work() -> None:
        keep_offline()
        with absent(*UNUSED):
            from ft_assets.workers.evals.fan_out import JOB, SuiteJob

            job = SuiteJob.model_validate_json((folder / JOB).read_bytes())
            saves = SuiteSaves.of(job.spec.open_store(), job.spec, folder / "claims", job.saves)
            job.score(job.load(), saves, lambda *_: None)

    run_to_its_end(folder, rank, work)


def _end_with_the_worker() -> None:
    """The worker holds the other end of the pipe; once it is gone, nobody needs the scores."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
