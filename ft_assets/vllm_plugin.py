"""A plug-in of vLLM: it fetches an adapter from the store when somebody first asks for it by name.

vLLM finds ``register`` by this distribution's entry point ``vllm.general_plugins``. The distribution is installed there
without its dependencies, as they contradict vLLM's: what is imported here needs pydantic and obstore.
"""

import asyncio
import logging
import os
import weakref
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ft_assets.control.serving.fetched import FetchedAdapters
from ft_resources.artifacts import Artifacts
from ft_resources.environment import whole_number
from ft_resources.errors import Misconfigured, StoreUnavailable, UserError
from ft_resources.serving.adapter_folders import AdapterFolders
from ft_resources.shown import shown
from ft_resources.store_marker import open_store

# Below vLLM's logger, which has a handler.
_LOG = logging.getLogger("vllm.ft")
_NAME, _BASE, _STORE = "ft", "FT_VLLM_BASE", "FT_STORE"
_CACHE_MB = 65_536


def register() -> None:
    """Make vLLM ask this store; nothing where ``FT_VLLM_BASE`` is not set. Raises Misconfigured.

    vLLM calls it in each of its processes, so the store is opened by the first request.
    """
    base = os.environ.get(_BASE)
    if not base:
        return
    if not os.environ.get(_STORE):
        raise Misconfigured("the variable is not set", where=_STORE, remedy=f"Set it beside {_BASE}.")
    from vllm.lora.resolver import LoRAResolverRegistry

    limit = whole_number("FT_CACHE_MB", _CACHE_MB, at_least=1) << 20
    folders = AdapterFolders(Path(os.environ.get("FT_CACHE", ".ft/cache")) / "adapters", limit)
    LoRAResolverRegistry.register_resolver(_NAME, StoreResolver(os.environ[_STORE], folders, base))


class StoreResolver:
    """What vLLM asks for adapters that it does not have, as its ``LoRAResolver``."""

    def __init__(self, store: str, folders: AdapterFolders, base: str) -> None:
        self._store, self._folders, self._base = store, folders, base

    @cached_property
    def _adapters(self) -> FetchedAdapters:
        return FetchedAdapters(Artifacts(open_store(self._store)), self._folders, self._base)

    async def resolve_lora(self, base_model_name: str, lora_name: str) -> Any:
        """The adapter as vLLM's LoRARequest; None where the name means none, which vLLM answers with 404.

        Raises StoreUnavailable, which vLLM answers with 500: the next request tries again.
        """
        try:
            digest, folder = await asyncio.to_thread(lambda: self._adapters.take(lora_name))
        except StoreUnavailable:
            raise
        except UserError as error:
            why = f"{error.where}: {error.what}" if error.where else error.what
            # The name is whoever's who asked.
            _LOG.warning("%s", " ".join(shown(f"{lora_name}: {why}").split()))
            return None
        # vLLM sets the number. Nobody is told when it forgets an adapter, so the request itself is watched: vLLM keeps
        # it until the adapter is unloaded, and each request in flight does.
        request = _watched()(lora_name=lora_name, lora_int_id=1, lora_path=str(folder))
        weakref.finalize(request, self._adapters.give_back, digest).atexit = False
        return request


@cache
def _watched() -> type[Any]:
    """vLLM's LoRARequest, with a place for weak references."""
    from vllm.lora.request import LoRARequest

    # vLLM is not there where types are checked.
    made: type[Any] = type(LoRARequest)("Watched", (LoRARequest,), {}, weakref=True)
    return made
