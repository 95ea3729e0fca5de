"""Seeded faults of each kind in turn, on work that runs on a test cluster: how many runs end whole."""

import os
import sys
from pathlib import Path

import boto3

from benchmarks.table import Figure
from tests.chaos.faults import KINDS
from tests.chaos.runs import BUCKET, ChaosRun, chaos_run
from tests.s3_server import ENVIRONMENT, s3_server

RUNS = 100
_SEED = 20261122


def measure(folder: Path, runs: int = RUNS) -> list[ChaosRun]:
    """``runs`` runs whose fault struck while the work was under way; what was wrong is told on stderr."""
    done: list[ChaosRun] = []
    with s3_server() as endpoint:
        os.environ.update({**ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint})
        boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket=BUCKET)
        kinds = list(KINDS)
        # Twice as many at most: a fault may come when the work is done already, which proves nothing.
        for number in range(2 * runs):
            if len(done) == runs:
                break
            kind = kinds[number % len(kinds)]
            run = chaos_run(folder / f"run-{number}", kind, _SEED + number, endpoint)
            if run.problems:
                print(f"{kind}, seed {run.seed}:", *run.problems, sep="\n  ", file=sys.stderr, flush=True)
            if run.struck:
                done.append(run)
    return done


def figures(done: list[ChaosRun]) -> list[Figure]:
    whole = sum(not run.problems for run in done)
    return [
        Figure(
            key="chaos_runs",
            what=f"runs that met a fault ({len(KINDS)} kinds in turn)",
            ours=len(done),
            peer=None,
            peer_is="",
            goal=f"{RUNS}",
            met=len(done) >= RUNS,
        ),
        Figure(
            key="chaos_whole",
            what="of these, ended with the artifact once, no orphan, billed once",
            ours=whole,
            peer=len(done),
            peer_is="runs that met a fault",
            goal="all",
            met=whole == len(done),
        ),
    ]
