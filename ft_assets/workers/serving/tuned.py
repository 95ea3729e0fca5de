"""A base with several PEFT adapters; each row of a batch uses its own."""

# ruff: noqa: TID253 -- imported by the engine only, which needs torch anyway.

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch
from peft import LoraConfig, PeftConfig, PeftModel
from peft.tuners.lora import LoraLayer

from ft_assets.workers.evals.model import last_logits
from ft_resources.errors import first_line
from ft_resources.serving.errors import BadAdapter

# PEFT's name for the base among the adapters of a batch's rows.
_BASE = "__base__"


class Tuned:
    """``model`` with adapters that are added and removed under PEFT's names; without any it is the bare model.

    ``mixes``: whether rows with different adapters can share a call.
    """

    def __init__(self, model: Any) -> None:
        self._bare: Any = model
        self._peft: Any = None
        self._numbered = 0
        self._by_row: list[str] | None = None
        self._told: WeakSet[torch.nn.Module] = WeakSet()
        self._last = last_logits(model, 1)
        self.mixes = True

    def add(self, folder: Path) -> str:
        """Load the adapter in ``folder``; returns its name here. Raises BadAdapter if it does not fit the base."""
        # Names in requests may contain characters that names of PyTorch's modules may not, such as a dot.
        self._numbered += 1
        name = f"adapter_{self._numbered}"
        try:
            if self._peft is None:
                config = PeftConfig.from_pretrained(str(folder))
                config.inference_mode = True
                self._peft = PeftModel(self._bare, config, adapter_name=name)
            found = self._peft.load_adapter(str(folder), adapter_name=name, is_trainable=False)
            lost = [*found.missing_keys, *found.unexpected_keys]
        except Exception as error:  # PEFT, safetensors and PyTorch raise many kinds for files that do not fit.
            self.remove(name)
            raise _bad(folder, first_line(error)) from error
        if lost:
            self.remove(name)
            raise _bad(folder, f"{len(lost)} of its tensors do not fit the base, such as {lost[0]}")
        self._peft.eval().requires_grad_(False)
        layers: list[Any] = [each for each in self._peft.modules() if isinstance(each, LoraLayer)]
        for layer in layers:
            if layer not in self._told:
                self._told.add(layer)
                layer.register_forward_pre_hook(self._tell_rows, with_kwargs=True)
        self.mixes = self.mixes and self._can_mix()
        return name

    def remove(self, name: str) -> None:
        """Forget an adapter, if it is there."""
        if self._peft is None or name not in self._peft.peft_config:
            return
        others = [each for each in self._peft.peft_config if each != name]
        if others:
            # PEFT would keep naming the deleted adapter as active.
            self._peft.set_adapter(others[0], inference_mode=True)
            self._peft.delete_adapter(name)
        else:
            self._bare, self._peft = self._peft.base_model.unload(), None
        self.mixes = self.mixes or self._can_mix()

    def forward(self, *, adapters: Sequence[str | None], last_only: bool, **inputs: Any) -> torch.Tensor:
        """The logits [rows, tokens, vocabulary] of a batch whose rows use these adapters (None: the base); with
        ``last_only`` at least those of the last token."""
        inputs |= {"use_cache": True, **(self._last if last_only else {})}
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
        """A hook before each of PEFT's layers that passes each row's adapter. PEFT's own hooks are added for each call,
        and left behind if it fails."""
        return (args, {**kwargs, "adapter_names": self._by_row}) if self._by_row else None

    def _can_mix(self) -> bool:
        """Whether PEFT can compute rows of all adapters in one call: by their settings for those that it would compute
        wrongly, else by a trial."""
        if self._peft is None:
            return True
        if not all(map(_is_plain, self._peft.peft_config.values())):
            return False
        adapters = [None, *self._peft.peft_config]
        ids = torch.zeros(len(adapters), 2, dtype=torch.long, device=self._bare.device)
        try:
            self.forward(adapters=adapters, last_only=True, input_ids=ids, attention_mask=torch.ones_like(ids))
        except (ValueError, TypeError, RuntimeError):
            return False
        return True


def _is_plain(config: PeftConfig) -> bool:
    """Whether an adapter consists only of pairs of matrices beside linear layers."""
    more = ("use_dora", "modules_to_save", "trainable_token_indices", "target_parameters", "alora_invocation_tokens")
    return isinstance(config, LoraConfig) and not any(getattr(config, name, None) for name in more)


def _bad(folder: Path, what: str) -> BadAdapter:
    return BadAdapter(what, where=str(folder), remedy="Load an adapter that was trained on this base.")
