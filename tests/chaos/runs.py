"""One chaos run from its kind and seed, and whether it ended whole: one artifact, all stopped, billed once."""

import random
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ft_assets.control.metering.ledger import Ledger
from ft_assets.control.metering.usage import UsageRecord, count_usage, read_usage
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import OPEN_ATTEMPTS, attempts_at
from ft_resources.outcomes import Outcome
from tests.chaos.faults import KINDS
from tests.chaos.processes import TENANTS
from tests.chaos.world import TENANT, World, lives, world
from tests.cluster.objects import JOBS
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


def problems_of(world: World) -> list[str]:
    """What is not as it should be; empty where all is."""
    return [*world.problems, *_artifact(world), *_orphans(world), *_bill(world)]


def _artifact(world: World) -> list[str]:
    request = world.orders.request
    found = Artifacts(world.store).find(request.address)
    if found is None:
        return ["there is no artifact"]
    text = found.read("text.txt").decode()
    wrong = [] if text == request.params["text"] else [f"the artifact holds {text!r}"]
    folder = f"{request.tenant}/{request.asset}"
    others = [name for name in world.store.folders(folder) if name != request.address.fingerprint]
    return wrong + [f"there is another artifact {name}" for name in others]


def _orphans(world: World) -> list[str]:
    jobs = world.cluster.objects.list(JOBS, f"ft-{TENANT}")
    goes_on = [job["metadata"]["name"] for job in jobs if not ended(job)]
    pods = [pod["metadata"]["name"] for pod in world.pods() if lives(pod)]
    attempts = attempts_at(world.store, world.orders.request.address)
    open_ = [attempt.path for attempt in attempts if attempt.ending() is None]
    return [
        *(f"Job {name} goes on" for name in goes_on),
        *(f"pod {name} goes on" for name in pods),
        *(f"{path} has no end" for path in open_),
    ]


def _bill(world: World) -> list[str]:
    """One record for each attempt that ran; the tenant pays for one that made the artifact, and never for two moments
    at once."""
    store = world.store
    found = count_usage(store, TENANTS, tenant=TENANT)
    records = [each for month in store.folders(f"{TENANT}/usage") for each in read_usage(store, TENANT, month)]
    wrong = [f"{each.key} was counted only now" for each in found]
    wrong += [f"{entry.path} is not counted" for entry in store.entries(f"{OPEN_ATTEMPTS}/{TENANT}")]
    ran = {attempt.path: attempt for attempt in attempts_at(store, world.orders.request.address) if attempt.span()}
    if len(records) != len(ran):
        wrong.append(f"{len(ran)} attempts ran, {len(records)} are billed or refunded")
    paid = [each for each in records if each.refund == "none"]
    if len(paid) > 1 or any(each.outcome != Outcome.DONE for each in paid):
        wrong.append(f"paid for: {[(each.key[-4:], each.outcome) for each in paid]}")
    if not any(each.outcome == Outcome.DONE for each in records):
        wrong.append("nobody is billed for the work")
    if any(each.gpus != 1 for each in records):
        wrong.append("the recipe's GPU is not billed")
    return wrong + _overlaps(records) + _ledger(world, records)


def _overlaps(records: list[UsageRecord]) -> list[str]:
    billed = sorted((each for each in records if each.refund != "full"), key=lambda each: each.started_at)
    pairs = pairwise(billed)
    return [f"{a.key[-4:]} and {b.key[-4:]} are billed at once" for a, b in pairs if b.started_at < a.ended_at]


def _ledger(world: World, records: list[UsageRecord]) -> list[str]:
    ledger = Ledger(world.orders.ledger_url)
    try:
        rows = [row for month in {each.month for each in records} for row in ledger.usage_rows(TENANT, month)]
    finally:
        ledger.close()
    same = sorted((row.key, row.billed_hours) for row in rows) == sorted((r.key, r.billed_hours) for r in records)
    return [] if same else [f"the ledger has {len(rows)} rows for {len(records)} records"]


def ended(job: dict) -> bool:
    conditions = job.get("status", {}).get("conditions") or []
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)
