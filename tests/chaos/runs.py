"""One chaos run from its kind and seed, and what was wrong at its end."""

import random
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.faults import KINDS
from tests.chaos.verdict import problems_of
from tests.chaos.world import world
from tests.faults import HttpFaults, http_faults, some
from tests.postgres import postgres_database
from tests.s3_server import ENVIRONMENT

BUCKET = "chaos"
S3_SHARE = 0.05
"""Part of all requests to the store that fail."""


@dataclass(frozen=True, kw_only=True)
class ChaosRun:
    """How a run went: how often the fault struck before its work was done, and what was wrong at the end."""

    kind: str
    seed: int
    struck: int
    problems: list[str]


def chaos_run(folder: Path, kind: str, seed: int, s3_endpoint: str) -> ChaosRun:
    """Do the work while the fault of ``kind`` happens to it; ``s3_endpoint`` is of a server that has ``BUCKET``."""
    draw = random.Random(f"{kind} {seed}")
    with ExitStack() as stack:
        proxy: HttpFaults | None = None
        options: dict[str, Any] = {"closed": kind == "pod_deleted_before_start", "held": kind != "s3_faults"}
        if kind == "postgres_restarted":
            options["ledger_url"] = stack.enter_context(postgres_database())
        if kind == "s3_faults":
            proxy = stack.enter_context(http_faults(s3_endpoint))
            proxy.plan = some(S3_SHARE, seed)
            options["store_url"] = f"s3://{BUCKET}/{uuid.uuid4().hex}"
            options["environment"] = {**ENVIRONMENT, "AWS_ENDPOINT_URL": proxy.url}
        here = stack.enter_context(world(folder, seed=seed, **options))
        struck = KINDS[kind](here, draw)
        here.settle()
        if proxy is not None:
            struck = len(proxy.struck)
        return ChaosRun(kind=kind, seed=seed, struck=struck, problems=problems_of(here))
