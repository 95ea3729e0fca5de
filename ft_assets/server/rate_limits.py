"""How much a client may ask: counted for each request, and told in the headers that OpenAI's API has."""

from fastapi import Request
from starlette.datastructures import MutableHeaders

from ft_assets import api
from ft_assets.api import Access, Allowance, Identity
from ft_resources.errors import TooManyRequests, UserError


def count(request: Request, access: Access, caller: Identity) -> None:
    """Count a request of ``caller``. Raises TooManyRequests beyond the limits of the tenants file."""
    require_allowed(request, api.count_request(caller, access=access))


def require_allowed(request: Request, left: Allowance | None) -> None:
    """Have the answer tell what is left. Raises TooManyRequests where the request is one too many."""
    request.state.allowance = left
    if left is not None and left.retry_s:
        raise TooManyRequests(
            f"more than {left.limit} requests a minute",
            where="requests",
            remedy=f"Try again in {_time(left.retry_s)}.",
            retry_s=left.retry_s,
        )


def refused(request: Request, access: Access, error: UserError) -> UserError:
    """What to raise where a key or link does not hold: ``error``, or TooManyRequests for an address that guesses. Valid
    keys of the same address are not held back."""
    left = api.count_wrong_key(peer_of(request), access=access)
    if not left.retry_s:
        return error
    return TooManyRequests(
        "too many requests without a valid key came from this address",
        where=error.where,
        remedy=error.remedy,
        retry_s=left.retry_s,
    )


def count_stranger(request: Request, access: Access) -> None:
    """Count a request of somebody who is about to sign in. Raises TooManyRequests, as for wrong keys."""
    left = api.count_wrong_key(peer_of(request), access=access)
    if left.retry_s:
        raise TooManyRequests(
            "too many people or programs sign in from this address",
            where="sign-in",
            remedy="Try again in a minute.",
            retry_s=left.retry_s,
        )


def peer_of(request: Request) -> str:
    """The address that a request came from, as the server believes it."""
    return request.client.host if request.client else ""


def tell(request: Request, headers: MutableHeaders) -> None:
    """Add what is left to the headers of an answer to whom was identified."""
    left: Allowance | None = getattr(request.state, "allowance", None)
    if left is not None:
        headers["x-ratelimit-limit-requests"] = str(left.limit)
        headers["x-ratelimit-remaining-requests"] = str(left.remaining)
        headers["x-ratelimit-reset-requests"] = _time(left.reset_s)


def _time(seconds: float) -> str:
    return f"{seconds:.3f}s"
