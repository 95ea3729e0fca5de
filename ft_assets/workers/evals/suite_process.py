"""``python -m ft_assets.workers.evals.suite_process FOLDER RANK``: a process of a fan-out, see ``fan_out.py``.

It uses the store only to save scores, and records its outcome in FOLDER.
"""

import os
import sys
import threading
import traceback
from pathlib import Path

from ft_assets.workers.evals.suite_saves import SuiteSaves
from ft_assets.workers.libraries import UNUSED, absent, keep_offline
from ft_assets.workers.training.distributed.endings import write_begun, write_ending


def main() -> None:
    """Score the suites that no other process takes."""
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_end_with_the_worker, name="worker", daemon=True).start()
    write_begun(folder, rank)
    problem: BaseException | None = None
    try:
        keep_offline()
        with absent(*UNUSED):
            from ft_assets.workers.evals.fan_out import JOB, SuiteJob

            job = SuiteJob.model_validate_json((folder / JOB).read_bytes())
            saves = SuiteSaves.of(job.spec.open_store(), job.spec, folder / "claims", job.saves)
            job.score(job.load(), saves, lambda *_: None)
    except BaseException as error:
        problem = error
        traceback.print_exc()
    write_ending(folder, rank, problem)
    # Libraries leave threads and atexit hooks behind that can hang or change the exit code.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if problem is None else 1)


def _end_with_the_worker() -> None:
    """The worker holds the other end of the pipe; once it is gone, the scores are not needed."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
