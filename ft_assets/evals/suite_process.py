"""``python -m ft_assets.evals.suite_process FOLDER RANK``: a process of a fan-out, see ``fan_out.py``.

It talks to the store only to save scores, and leaves in FOLDER how it ended.
"""

import os
import sys
import threading
import traceback
from pathlib import Path

from ft_assets.checkpoints.distributed.endings import write_begun, write_ending
from ft_assets.checkpoints.libraries import UNUSED, absent, keep_offline


def main() -> None:
    """Score the suites that nobody else takes."""
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_end_with_the_worker, name="worker", daemon=True).start()
    write_begun(folder, rank)
    problem: BaseException | None = None
    try:
        _score(folder)
    except BaseException as error:
        problem = error
        traceback.print_exc()
    write_ending(folder, rank, problem)
    # Libraries leave threads and atexit hooks behind that can hang or change the exit code.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if problem is None else 1)


def _score(folder: Path) -> None:
    keep_offline()
    with absent(*UNUSED):
        from ft_assets.evals.fan_out import JOB, SuiteJob
        from ft_assets.evals.suite_saves import SuiteSaves
        from ft_resources.store import Store

        job = SuiteJob.model_validate_json((folder / JOB).read_bytes())
        saves = SuiteSaves.of(Store(job.spec.store_url), job.spec, folder / "claims", job.saves)
        job.score(job.load(), saves, lambda *_: None)


def _end_with_the_worker() -> None:
    """The worker holds the other end of the pipe; when it is gone, nobody wants these scores."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
