"""The HTTP API beside PostgreSQL and an S3 server: jobs, uploads, listeners, and requests that are odd.

``python -m benchmarks server [jobs=10000] [mb=2048] [clients=500] [requests=20000] [s3=URL]``; the server is a process
of its own. Without ``s3``, an S3 server that runs already and has no bucket ``bench``, it is moto, which holds an
upload in memory when its parts become one: it is no server for ``mb=10240``.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import boto3
import httpx
import psutil

from benchmarks.table import Figure
from ft_assets import api
from ft_assets.records.jobs import Job, SettledJob
from ft_assets.records.sorted_ids import new_id
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.postgres import postgres_database
from tests.s3_server import ENVIRONMENT, s3_server
from tests.server.odd_requests import OddRequests

ROWS = b"".join(
    b'{"messages": [{"role": "user", "content": "What is %d times %d?"}, '
    b'{"role": "assistant", "content": "It is %d."}]}\n' % (number, number + 7, number * (number + 7))
    for number in range(200)
)
ROW = b'{"messages": [{"role": "user", "content": "what?"}, {"role": "assistant", "content": "that"}]}\n'
UNLIMITED = "tiers: {default: {requests_per_minute: null, requests_per_minute_of_one: null}}\n"
MODELS = Path(__file__).parents[1] / "ft_assets" / "demo" / "models.yaml"


def measure(*options: str) -> list[Figure]:
    """Run everything; takes some minutes, most of it the S3 server's."""
    given = dict(option.split("=", 1) for option in options)
    at = given.pop("s3", "")
    asked = {"jobs": 10_000, "mb": 2048, "clients": 500, "requests": 20_000}
    asked |= {name: int(number) for name, number in given.items()}
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    s3 = nullcontext(at) if at else s3_server()
    with tempfile.TemporaryDirectory() as folder, s3 as endpoint, postgres_database() as database:
        os.environ.update(ENVIRONMENT, AWS_ENDPOINT_URL=endpoint, FT_ACCESS_DB=database, FT_STATE=folder)
        os.environ.update(FT_MODELS=str(MODELS), DAGSTER_HOME=folder, FT_TRACKING="off", FT_STORE="s3://bench/root")
        os.environ["FT_TENANTS"] = str(Path(folder, "tenants.yaml"))
        Path(folder, "tenants.yaml").write_text(UNLIMITED)
        boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket="bench")
        store = open_store(os.environ["FT_STORE"], create=True)
        _, key = api.create_key("acme", role="admin", actor="bench")
        with _server() as (client, process):
            client.headers["authorization"] = f"Bearer {key}"
            rows = client.post("/files", files={"file": ("a.jsonl", ROWS)}, data={"purpose": "fine-tune"}).json()
            created = [_create(client, rows["id"], seed) for seed in range(200)]
            _fill(store, asked["jobs"])
            _until_settled(store)
            newest = client.get("/fine_tuning/jobs", params={"limit": 200}).json()["data"]
            waiting = [_timed(lambda: client.get("/fine_tuning/jobs")) for _ in range(100)]
            older = {"after": newest[-1]["id"]}
            listed = [_timed(lambda: client.get("/fine_tuning/jobs", params=older)) for _ in range(100)]
            ours, peak = _upload(client, process, asked["mb"])
            heard = _listen(client, rows["id"], asked["clients"])
            # Of the jobs these have ended, so that nobody listens to one for ever.
            failed = _fail(client, [rows["id"], *(job["id"] for job in newest[-20:])], asked["requests"])
            # The S3 server's own speed: the same bytes by the same client library, without the API.
            began = time.monotonic()
            store.write("acme/peer", _bytes(asked["mb"]))
            peer = asked["mb"] / (time.monotonic() - began)
    timed = created, listed, waiting
    failures = failed + sum(status >= 500 for each in timed for _, status in each)
    p99 = [sorted(seconds for seconds, _ in each)[int(0.99 * len(each))] * 1000 for each in timed]
    return [
        _figure("create_job_ms_p99", "creating a job, p99 of 200, ms", p99[0], 150),
        _figure(f"list_jobs_ms_p99_{asked['jobs'] // 1000}k_jobs", "a page of jobs, p99 of 100, ms", p99[1], 100),
        _figure("list_waiting_jobs_ms_p99", "the same of 20 jobs that wait, ms", p99[2], 100),
        Figure(
            key="upload_mb_s",
            what="upload, MB/s",
            ours=ours,
            peer=peer,
            peer_is="the S3 server without the API",
            goal=">= 0.7 of it",
            met=ours >= 0.7 * peer,
        ),
        _figure(f"upload_{asked['mb']}mb_rss_mb", "memory that the upload adds, MB", peak, 200),
        Figure(
            key="sse_clients",
            what="clients that heard a job's end",
            ours=heard,
            peer=None,
            peer_is="",
            goal=f">= {asked['clients']}",
            met=heard >= asked["clients"],
        ),
        _figure("requests_5xx", "answers 500 and above", failures, 0),
    ]


def _fail(client: httpx.Client, known: list[str], requests: int) -> int:
    """How many of so many odd requests the server fails at."""
    schema = client.get("/openapi.json").json()
    failed = 0
    for request in OddRequests(schema, [*known, "demo-base"], seed=1).requests(requests):
        url, headers = client.base_url.join(request.target), request.encoded_headers
        # Some the client itself does not send.
        with suppress(httpx.LocalProtocolError):
            answer = client.request(request.method, url, headers=headers, content=request.content)
            if answer.status_code >= 500:
                failed += 1
                print(f"{answer.status_code}: {request.method} {url}", file=sys.stderr)
    return failed


def _figure(key: str, what: str, ours: float, goal: float) -> Figure:
    return Figure(key=key, what=what, ours=ours, peer=None, peer_is="", goal=f"<= {goal}", met=ours <= goal)


@contextmanager
def _server() -> Iterator[tuple[httpx.Client, psutil.Process]]:
    port = 8219
    command = [sys.executable, "-c", "from ft_assets.cli.main import app; app()", "serve", "--port", str(port)]
    # What it says is shown: of an answer 500 only its log knows why.
    process = subprocess.Popen(command)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=600, trust_env=False) as client:
            for _ in range(300):
                try:
                    client.get("/models")
                    break
                except httpx.ConnectError:
                    time.sleep(0.2)
            yield client, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def _timed(call: Any) -> tuple[float, int]:
    began = time.monotonic()
    status: int = call().status_code
    return time.monotonic() - began, status


def _create(client: httpx.Client, file: str, seed: int) -> tuple[float, int]:
    body = {"model": "demo-base", "training_file": file, "seed": seed}
    return _timed(lambda: client.post("/fine_tuning/jobs", json=body))


def _fill(store: Store, jobs: int) -> None:
    """Jobs of the last months that were cancelled, and so are read like any other."""
    for number in range(jobs):
        now = time.time() - 1000 - number * 600
        job = Job(id=new_id(now), tenant="acme", model="demo-base", training_file="0" * 24, actor="a", created_at=now)
        job.create(store, job.path)
        SettledJob(cancelled_by="a", at=now).create(store, f"acme/settled_jobs/{job.id}.json")


def _until_settled(store: Store) -> None:
    """Wait for the server to have made submissions of all jobs."""
    while store.folders("open_jobs"):
        time.sleep(1)


def _bytes(mb: int) -> Iterator[bytes]:
    block = (ROW * (1 + (1 << 20) // len(ROW)))[: 1 << 20]
    return (block for _ in range(mb))


def _upload(client: httpx.Client, process: psutil.Process, mb: int) -> tuple[float, float]:
    """MB/s, and the MB that the server's memory grew by at most."""
    head = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n'
    head += b'--b\r\nContent-Disposition: form-data; name="file"; filename="big.jsonl"\r\n\r\n'
    before, most = process.memory_info().rss, 0

    def body() -> Iterator[bytes]:
        nonlocal most
        yield head
        for number, block in enumerate(_bytes(mb)):
            if number % 16 == 0:
                most = max(most, process.memory_info().rss)
            yield block
        yield b"\r\n--b--\r\n"

    began = time.monotonic()
    answer = client.post("/files", content=body(), headers={"content-type": "multipart/form-data; boundary=b"})
    assert answer.status_code == 200, answer.text
    return mb / (time.monotonic() - began), max(0, most - before) / 1e6


def _listen(client: httpx.Client, file: str, clients: int) -> int:
    """How many of so many listeners hear of a job's end."""
    import asyncio

    job = client.post("/fine_tuning/jobs", json={"model": "demo-base", "training_file": file, "seed": 777}).json()["id"]

    async def all_of_them() -> int:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=client.base_url, headers=client.headers, timeout=300, limits=limits, trust_env=False
        ) as listening:

            async def one() -> bool:
                async with listening.stream("GET", f"/fine_tuning/jobs/{job}/events?stream=true") as lines:
                    return any([line == "data: [DONE]" async for line in lines.aiter_lines()])

            tasks = [asyncio.create_task(one()) for _ in range(clients)]
            await asyncio.sleep(5)
            await listening.post(f"/fine_tuning/jobs/{job}/cancel")
            return sum(each is True for each in await asyncio.gather(*tasks, return_exceptions=True))

    return asyncio.run(all_of_them())
