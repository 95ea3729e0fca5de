"""Adapters on tiny bases as PEFT writes them, published with what their export reads."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_resources.artifacts import Artifact
from ft_resources.work import WorkRequest
from tests.fake_base import CHAT_TEMPLATE, make_fake_base
from tests.made import REVISION, SOURCE
from tests.workers.evals.world import World

OWN_TEMPLATE = CHAT_TEMPLATE + "{# the adapter's #}"
Experts = Literal["mixtral", "qwen3_moe"]
KINDS: dict[str, dict[str, Any]] = {"lora": {}, "rslora": {"use_rslora": True}, "dora": {"use_dora": True}}


@dataclass(frozen=True, kw_only=True)
class Made:
    """An adapter and what it stands on."""

    world: World
    adapter: Artifact
    base: Artifact
    dataset: Artifact

    @classmethod
    def make(
        cls,
        world: World,
        kind: str = "lora",
        *,
        dtype: str = "float32",
        template: str = OWN_TEMPLATE,
        experts: Experts | None = None,
        wide: bool = False,
        **changes: Any,
    ) -> "Made":
        """``changes`` are of its ``LoraConfig``; with ``experts`` its base is a mixture of experts of that family, with
        ``wide`` one whose layers hold groups of 128 weights."""
        folder = tiny_base(world.folder / f"base-{dtype}", dtype, experts=experts, wide=wide)
        base = world.publish("base_model", folder, tenant="shared", facts={"source": SOURCE, "revision": REVISION})
        files = peft_adapter(folder, world.folder / "adapter", **{**KINDS[kind], **changes})
        (files / "chat_template.jinja").write_text(template)
        settings = json.loads((folder / "tokenizer_config.json").read_bytes())
        # As an adapter's export leaves it: the template is in its own file.
        settings.pop("chat_template", None)
        (files / "tokenizer_config.json").write_text(json.dumps(settings))
        adapter = world.publish("adapter", files, inputs={"base": base}, facts={"line": "acme.things.tiny"})
        return cls(world=world, adapter=adapter, base=base, dataset=world.dataset())

    def request(self, **inputs: Artifact) -> WorkRequest:
        return self.request_of(EXPORTS["merged"], **inputs)

    def request_of(self, wanted: ExportFormat, **inputs: Artifact) -> WorkRequest:
        named = {"adapter": self.adapter, "base": self.base, "dataset": self.dataset, **inputs}
        return self.world.request(wanted.asset, inputs=named, params=dict(wanted.settings))


def tiny_base(folder: Path, dtype: str, *, experts: Experts | None = None, wide: bool = False) -> Path:
    """The fake base as it is, as a mixture of experts, wider, or stored in another dtype; with a licence and a card of
    its own."""
    make_fake_base(folder)
    if wide:
        torch.manual_seed(0)
        config = AutoConfig.from_pretrained(folder, hidden_size=128, intermediate_size=128, head_dim=64)
        AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    if experts:
        torch.manual_seed(0)
        sizes = {"hidden_size": 32, "intermediate_size": 32, "moe_intermediate_size": 32, "num_hidden_layers": 2}
        heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 256}
        count = {"num_experts" if experts == "qwen3_moe" else "num_local_experts": 4, "num_experts_per_tok": 2}
        config = AutoConfig.for_model(experts, vocab_size=288, **sizes, **heads, **count)
        AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    if dtype != "float32":
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
        model.save_pretrained(folder)
    (folder / "LICENSE").write_text("free")
    (folder / "README.md").write_text("the base's card")
    return folder


def peft_adapter(base: Path, target: Path, **config: Any) -> Path:
    """A PEFT folder with random updates that change what the model says."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    settings = {"r": 3, "lora_alpha": 5, "target_modules": "all-linear", **config}
    tuned: Any = get_peft_model(model, LoraConfig(**settings))
    for name, parameter in tuned.named_parameters():
        if ".lora_magnitude" in name:
            parameter.data *= 1 + 0.2 * torch.rand_like(parameter)
        elif ".lora_" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    tuned.save_pretrained(target, save_embedding_layers=False)
    (target / "README.md").unlink()
    return target
