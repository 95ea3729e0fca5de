"""The HTTP API: OpenAI's fine-tuning dialect over the platform's own functions. It keeps nothing of its own."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse

from ft_assets import api
from ft_assets.api import Access, Job, Orchestrator, PromptCache
from ft_assets.server import (
    adapter_files,
    calls,
    chat,
    event_pages,
    feedback,
    files,
    jobs,
    keys,
    links,
    models,
    platform,
    sent,
    specified,
    talks,
    uploads,
)
from ft_assets.server.answering import Answering
from ft_assets.server.answers.errors import describe
from ft_assets.server.audit import Audit
from ft_assets.server.body_limit import BodyLimit
from ft_assets.server.console.app import console_app
from ft_assets.server.context import Context
from ft_assets.server.errors import add_handlers
from ft_assets.server.health import add_health
from ft_assets.server.long_calls import LongCalls
from ft_assets.server.metrics.requests import Counted, RequestFigures
from ft_assets.server.metrics.shadows import ShadowFigures
from ft_assets.server.models_asked import ModelsAsked
from ft_assets.server.outcomes import Outcomes
from ft_assets.server.settling import Settling
from ft_assets.server.shadows import Shadows
from ft_assets.server.traced_requests import Traced
from ft_assets.server.upload_slots import UploadSlots
from ft_resources.launchers.base import Launcher
from ft_resources.serving.fleet import Fleet
from ft_resources.store import Store
from ft_resources.tracing import traces_wanted


def api_app(
    store: Store,
    access: Access,
    *,
    launcher: Launcher | None = None,
    orchestrator: Orchestrator | None = None,
    settle: Callable[[Job], object] | None = None,
    fleet: Fleet | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> FastAPI:
    """The application. Jobs are launched by the submissions sensor of a running Dagster on the same store.

    ``settle`` settles a job; by default in a thread of this process. ``fleet`` are the servers of models.
    ``clock`` says how old is what was looked up of them.
    """
    # One for all requests: it keeps its connection to Dagster's database.
    orchestrator = api.orchestrator_or_default(orchestrator)
    here = partial(api.settle_job, store=store, launcher=launcher, orchestrator=orchestrator)
    settling = Settling(store, settle or here)
    long_calls = LongCalls()
    answering, models_asked, outcomes = Answering(fleet), ModelsAsked(store, launcher, clock=clock), Outcomes(store)
    figures = RequestFigures()
    shadows = Shadows(fleet, outcomes.shadows, ShadowFigures(figures.registry))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        settling.start()
        outcomes.start()
        yield
        settling.stop()
        long_calls.stop()
        models_asked.close()
        await answering.close()
        await shadows.close()
        outcomes.stop()

    app = FastAPI(
        title="Fine-tuning",
        description="OpenAI's fine-tuning API. Identify with `Authorization: Bearer ft-…`.",
        lifespan=lifespan,
        # A redirect would repeat the Host header that it was asked with.
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    context = Context(
        store=store,
        access=access,
        settle=settling.add,
        uploads=UploadSlots(),
        long_calls=long_calls,
        models=models_asked,
        prompts=PromptCache(),
        answering=answering,
        outcomes=outcomes,
        shadows=shadows,
        launcher=launcher,
        orchestrator=orchestrator,
        fleet=fleet,
    )
    app.state.context = context
    # Routes are matched in this order, so the busiest ones come first.
    for part in (
        chat,
        files,
        uploads,
        jobs,
        event_pages,
        models,
        platform,
        keys,
        links,
        calls,
        sent,
        adapter_files,
        feedback,
        talks,
    ):
        app.include_router(part.router)
    specified.include(app)
    app.mount("/console", console_app(context))
    for path in ("/", "/console"):
        app.add_route(path, _to_console)
    add_health(app, store, access)
    add_handlers(app)
    describe(app)
    app.add_middleware(Audit)
    app.add_middleware(BodyLimit)
    app.state.figures = figures
    app.add_middleware(Counted, figures=figures)
    if traces_wanted():
        app.add_middleware(Traced)
    return app


async def _to_console(_: Request) -> RedirectResponse:
    return RedirectResponse("/console/", 303)
