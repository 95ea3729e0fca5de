"""The adapters of one base: known by name, and a few of them in memory."""

# ruff: noqa: TID253 -- imported by the engine only, which needs torch anyway.

import hashlib
import inspect
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch
from peft import LoraConfig, PeftConfig, PeftModel
from peft.tuners.lora import LoraLayer

from ft_resources.errors import NotFound, first_line
from ft_resources.serving.errors import BadAdapter, NameTaken, ServerBusy

# PEFT's name of the base among the adapters of a batch's rows.
_BASE = "__base__"
_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@dataclass(frozen=True, slots=True)
class Adapter:
    """What a name means: the files in ``folder``, with this digest."""

    name: str
    folder: Path
    digest: str


class Adapters:
    """Adapters of ``model``, of which at most ``most`` are in memory; those used longest ago make room.

    A name means the same bytes as long as the process lives, unloaded or not: who cached an answer, or its keys and
    values, by that name would else give the old one. Names of equal bytes share their memory. All but ``find`` and
    ``names`` belong on the thread of the engine.
    """

    def __init__(self, model: Any, base: str, most: int) -> None:
        self._bare, self._base, self._most = model, base, most
        self._peft: PeftModel | None = None
        self._digests: dict[str, str] = {}
        self._served: dict[str, Adapter] = {}
        self._inside: OrderedDict[str, str] = OrderedDict()
        """PEFT's names of the digests in memory; the one used last is the last."""
        self._in_flight: Counter[str] = Counter()
        self._numbered = 0
        self._by_row: list[str] | None = None
        self._told: WeakSet[torch.nn.Module] = WeakSet()
        self.mixes = True
        """Whether rows of several of these adapters can share a batch."""
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters

    def names(self) -> list[Adapter]:
        """The adapters that are served, oldest first."""
        return list(self._served.values())

    def find(self, name: str) -> Adapter | None:
        """What ``name`` means; None for the base. Raises NotFound."""
        if name == self._base:
            return None
        found = self._served.get(name)
        if found is None:
            raise NotFound(f"no model {name!r} is served here", where="model", remedy="GET /v1/models lists them.")
        return found

    def add(self, name: str, folder: Path) -> None:
        """Serve the adapter in ``folder`` as ``name``; it is read now, so that a bad one is refused now.

        Raises NameTaken, NotFound for a missing folder, BadAdapter, and ServerBusy if all in memory are in use.
        """
        adapter = Adapter(name, folder, _digest(folder))
        if name == self._base or self._digests.get(name, adapter.digest) != adapter.digest:
            raise NameTaken(
                f"{name!r} belongs to other bytes than those in {folder}",
                where="lora_name",
                remedy="Give each adapter a name of its own, such as one with its digest.",
            )
        if self._bring_in(adapter) is None:
            raise ServerBusy("all adapters in memory are in use", where="lora_name", remedy="Try again.", retry_s=1)
        self._digests[name], self._served[name] = adapter.digest, adapter

    def remove(self, name: str) -> None:
        """Serve ``name`` no longer; requests in flight keep it until they end. Raises NotFound."""
        adapter = self.find(name)
        if adapter is None:
            raise BadAdapter(f"{name!r} is the base", where="lora_name", remedy="End the server instead.")
        del self._served[name]
        self._drop_unserved(adapter.digest)

    def take(self, adapter: Adapter) -> str | None:
        """PEFT's name of ``adapter``, which stays in memory until it is given back; None if there is no room now.

        Raises BadAdapter if its folder changed since it was added.
        """
        inside = self._bring_in(adapter)
        if inside is not None:
            self._in_flight[adapter.digest] += 1
        return inside

    def give_back(self, adapter: Adapter) -> None:
        """One request less uses ``adapter``."""
        self._in_flight[adapter.digest] -= 1
        self._drop_unserved(adapter.digest)

    def forward(self, *, adapters: Sequence[str | None], last_only: bool, **inputs: Any) -> torch.Tensor:
        """The logits [rows, tokens, vocabulary] of a batch whose rows use these adapters (None: the base); with
        ``last_only`` at least those of the last token."""
        inputs |= {"use_cache": True, **({"logits_to_keep": 1} if last_only and self._keeps else {})}
        with torch.inference_mode(), self._set(adapters):
            logits: torch.Tensor = self._bare(**inputs).logits
        return logits

    @contextmanager
    def _set(self, adapters: Sequence[str | None]) -> Iterator[None]:
        if self._peft is None:
            yield
        elif len(set(adapters)) > 1:
            self._by_row = [name or _BASE for name in adapters]
            try:
                yield
            finally:
                self._by_row = None
        elif adapters[0] is None:
            with self._peft.disable_adapter():
                yield
        else:
            self._peft.set_adapter(adapters[0], inference_mode=True)
            yield

    def _tell_rows(self, layer: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Before each layer of PEFT: which adapter each row of its input has. PEFT hooks layers for each call, and
        leaves its hooks where a call fails."""
        return (args, {**kwargs, "adapter_names": self._by_row}) if self._by_row else None

    def _bring_in(self, adapter: Adapter) -> str | None:
        if adapter.digest not in self._inside:
            if len(self._inside) >= self._most:
                idle = next((digest for digest in self._inside if not self._in_flight[digest]), None)
                if idle is None:
                    return None
                self._drop(idle)
            self._inside[adapter.digest] = self._read(adapter)
            self.mixes = self._can_mix()
        self._inside.move_to_end(adapter.digest)
        return self._inside[adapter.digest]

    def _read(self, adapter: Adapter) -> str:
        if _digest(adapter.folder) != adapter.digest:
            raise BadAdapter(
                f"the files of {adapter.name!r} have changed since it was loaded",
                where=str(adapter.folder),
                remedy="Load them under another name.",
            )
        # Names of adapters may hold what names of PyTorch's modules may not, such as a dot.
        self._numbered += 1
        inside = f"adapter_{self._numbered}"
        try:
            config = PeftConfig.from_pretrained(str(adapter.folder))
            config.inference_mode = True
            if self._peft is None:
                self._peft = PeftModel(self._bare, config, adapter_name=inside)
            found = self._peft.load_adapter(str(adapter.folder), adapter_name=inside, is_trainable=False)
            lost = [*found.missing_keys, *found.unexpected_keys]
        except Exception as error:  # Whatever PEFT, safetensors and PyTorch say of files that do not fit.
            self._forget(inside)
            raise _bad(adapter, first_line(error)) from error
        if lost:
            self._forget(inside)
            raise _bad(adapter, f"{len(lost)} of its tensors do not fit the base, such as {lost[0]}")
        self._peft.eval().requires_grad_(False)
        for layer in self._peft.modules():
            if isinstance(layer, LoraLayer) and layer not in self._told:
                self._told.add(layer)
                layer.register_forward_pre_hook(self._tell_rows, with_kwargs=True)
        return inside

    def _can_mix(self) -> bool:
        """Whether PEFT computes rows of all adapters in memory in one call: by their settings, where it would be wrong
        in silence, and else by trial."""
        if self._peft is None or len(self._inside) == 0:
            return True
        if not all(_is_plain(self._peft.peft_config[inside]) for inside in self._inside.values()):
            return False
        adapters = [None, *self._inside.values()]
        ids = torch.zeros(len(adapters), 2, dtype=torch.long, device=self._bare.device)
        try:
            self.forward(adapters=adapters, last_only=True, input_ids=ids, attention_mask=torch.ones_like(ids))
        except (ValueError, TypeError, RuntimeError):
            return False
        return True

    def _drop_unserved(self, digest: str) -> None:
        if not self._in_flight[digest] and all(each.digest != digest for each in self._served.values()):
            self._drop(digest)

    def _drop(self, digest: str) -> None:
        inside = self._inside.pop(digest, None)
        if inside is not None:
            self._forget(inside)
            self.mixes = self.mixes or self._can_mix()

    def _forget(self, inside: str) -> None:
        if self._peft is None or inside not in self._peft.peft_config:
            return
        others = [name for name in self._peft.peft_config if name != inside]
        if others:
            # PEFT goes on naming an active adapter that is gone.
            self._peft.set_adapter(others[0], inference_mode=True)
            self._peft.delete_adapter(inside)
        else:
            self._bare, self._peft = self._peft.base_model.unload(), None


def _is_plain(config: PeftConfig) -> bool:
    """Whether an adapter is nothing but pairs of matrices beside linear layers."""
    more = ("use_dora", "modules_to_save", "trainable_token_indices", "target_parameters", "alora_invocation_tokens")
    return isinstance(config, LoraConfig) and not any(getattr(config, name, None) for name in more)


def _digest(folder: Path) -> str:
    """SHA-256 of an adapter's settings and weights."""
    if not folder.is_dir():
        raise NotFound("there is no such folder", where=str(folder), remedy="Name a folder of this machine.")
    found = hashlib.sha256()
    for name in (_CONFIG, _WEIGHTS):
        try:
            with (folder / name).open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            what = f"{name} cannot be read: {first_line(error)}"
            raise BadAdapter(what, where=str(folder), remedy="Name the folder of an adapter.") from error
    return found.hexdigest()


def _bad(adapter: Adapter, what: str) -> BadAdapter:
    return BadAdapter(what, where=str(adapter.folder), remedy="Load an adapter that was trained on this base.")
