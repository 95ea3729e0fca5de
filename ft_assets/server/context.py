"""What every endpoint has: the store, who asks, and what the platform's own functions may be given."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from starlette.concurrency import run_in_threadpool

from ft_assets import api
from ft_assets.api import Access, Identity, Job, Orchestrator, PromptCache, Role
from ft_assets.server import rate_limits
from ft_assets.server.answering import Answering
from ft_assets.server.long_calls import LongCalls
from ft_assets.server.models_asked import ModelsAsked
from ft_assets.server.outcomes import Outcomes
from ft_assets.server.shadows import Shadows
from ft_assets.server.upload_slots import UploadSlots
from ft_resources.errors import NotIdentified
from ft_resources.launchers.base import Launcher
from ft_resources.serving.fleet import Fleet
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class Context:
    """The parts of a running server.

    Args:
        settle: told of each new job, which it settles beside the requests.
        uploads: where bodies of any length are read.
        long_calls: where calls are carried out that may take long.
        launcher: who starts workers; that of ``FT_LAUNCHER`` where None.
        orchestrator: who runs jobs; Dagster where None.
        fleet: the model servers; None where no models are served.
        models: what names of models mean.
        prompts: how models are asked.
        answering: asks servers of models.
        outcomes: what is known of answers.
        shadows: asks the candidates of rollouts what production was asked.
    """

    store: Store
    access: Access
    settle: Callable[[Job], None]
    uploads: UploadSlots
    long_calls: LongCalls
    models: ModelsAsked
    prompts: PromptCache
    answering: Answering
    outcomes: Outcomes
    shadows: Shadows
    launcher: Launcher | None = None
    orchestrator: Orchestrator | None = None
    fleet: Fleet | None = None


def context_of(request: Request) -> Context:
    found: Context = request.app.state.context
    return found


# The header stands in the API's description; ``KeyFirst`` has read it.
_Key = Annotated[str, Header(alias="authorization")]


async def caller_of(request: Request, _: _Key = "") -> Identity:
    """The caller that ``_admit_caller`` found before the body was read."""
    found: Identity = request.state.caller
    return found


async def asker_of(request: Request, _: _Key = "") -> Identity:
    """Who asks a model, a viewer at least, as ``_admit_asker`` found it."""
    found: Identity = request.state.caller
    return found


async def _admit_caller(request: Request) -> None:
    """Raise NotIdentified without a valid API key, and TooManyRequests."""
    await run_in_threadpool(_admitted, request, partial(api.require_not_erased, store=context_of(request).store))


async def _admit_asker(request: Request) -> None:
    """The same for who asks a model. Only that the tenant was erased counts two seconds later: whether it was is for
    the store to say, which may be away."""
    # Nothing is changed: no entry of the audit log.
    request.state.reads = True
    context = context_of(request)
    found = await run_in_threadpool(_admitted, request, lambda tenant: None)
    try:
        await context.models.require_not_erased(found.tenant)
    except NotIdentified as error:
        raise await run_in_threadpool(rate_limits.refused, request, context.access, error) from None
    api.require_role(found.role, "viewer")


ADMITTING: dict[Callable[..., Any], Callable[[Request], Awaitable[None]]] = {
    caller_of: _admit_caller,
    asker_of: _admit_asker,
}
"""What identifies a caller, by the dependency that tells of him."""


def _admitted(request: Request, require_there: Callable[[str], None]) -> Identity:
    context, authorization = context_of(request), request.headers.get("authorization", "")
    try:
        found, left = api.admit(_key(authorization), access=context.access, require_there=require_there)
    except NotIdentified as error:
        raise rate_limits.refused(request, context.access, error) from None
    request.state.caller = found
    rate_limits.require_allowed(request, left)
    return found


def identified(context: Context, authorization: str) -> Identity:
    """Who holds the key in the header ``authorization``. Raises NotIdentified."""
    return api.identify(_key(authorization), store=context.store, access=context.access)


def _key(authorization: str) -> str:
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer" or not key:
        raise NotIdentified(
            "no API key was sent",
            where="API key",
            remedy="Send one as `Authorization: Bearer ft-…`; ft key create TENANT makes one.",
        )
    return key.strip()


async def _context(request: Request) -> Context:
    return context_of(request)


# What does not wait is async: FastAPI has a thread call each of the others, and a request waits for it.
def at_least(role: Role) -> Any:
    """A dependency: who asks, if they may as much as ``role``. Raises NotPermitted."""

    async def permitted(caller: Annotated[Identity, Depends(caller_of)]) -> Identity:
        api.require_role(caller.role, role)
        return caller

    return Depends(permitted)


async def _administrator(caller: Annotated[Identity, Depends(caller_of)]) -> Identity:
    if caller.role != "platform":
        api.require_role(caller.role, "admin")
    return caller


Ctx = Annotated[Context, Depends(_context)]
Caller = Annotated[Identity, Depends(caller_of)]
Viewer = Annotated[Identity, at_least("viewer")]
Asker = Annotated[Identity, Depends(asker_of)]
"""A viewer, who asks a model."""
Member = Annotated[Identity, at_least("member")]
Promoter = Annotated[Identity, at_least("promoter")]
Admin = Annotated[Identity, at_least("admin")]
Administrator = Annotated[Identity, Depends(_administrator)]
"""A tenant's admin, or the platform's own key, which belongs to no tenant."""
