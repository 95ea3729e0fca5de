"""The page of the reference about model families, from the catalogue that the tests hold to."""

from collections.abc import Iterable

from ft_assets.settings.catalogue.composites import COMPOSITES
from ft_assets.settings.catalogue.families import FAMILIES, KNOWN, TEN
from ft_assets.settings.catalogue.placed import PLACED
from ft_assets.settings.catalogue.refused import ENCODERS, REFUSED

_YES, _NO = "yes", "not tried"


def models_page() -> str:
    """Tables of what is trained and how, and of what is refused, with the reason of each."""
    lines = [
        "# Models",
        "",
        "A base is any causal language model that the installed Transformers has itself; a model that brings its own",
        "code is refused. The tests hold this page to every `model_type` of Transformers' causal mapping, with tiny",
        "random models, in float32 on a CPU:",
        "",
        "* **LoRA**: three steps with the losses of a plain PEFT loop over one document at a time, to 1e-5; killed and",
        "  resumed to equal bytes; the adapter loads in plain PEFT, has the same validation loss there, and answers.",
        "* **Full**: three steps with the losses of a plain loop, to 1e-5. *Resumed*: killed and resumed, to equal",
        "  bytes.",
        "* **QLoRA**: one step on the base in four bits, with the loss of the base itself to 2 %.",
        "* Where all three say *not tried*, a trial found how documents run, and that each loses what it loses alone,",
        "  to 1e-5. It takes the same way as the others, and no test trains it.",
        "",
        "Documents are packed where it is proved that they cannot see each other. Otherwise each has a row of its own",
        "([packing](../explanation/packs.md#packing-and-isolation)); `packing.mode` says so in a recipe. The table",
        "says what a CPU does; on a GPU, kernels that know where documents begin may pack more, by a trial there.",
        "",
        "State-space layers have adapters at `in_proj`, and none at `out_proj`, `x_proj` and `dt_proj`: fused kernels",
        "of mamba-ssm take these weights on a GPU without calling the layers, so an adapter there would not train.",
        "QLoRA keeps those that are taken so unquantised.",
        "",
        f"Of {_names(COMPOSITES)}, which also see or hear, the",
        "[text part](../how-to/bases.md#a-vision-language-base) is trained, and the rest stays as it is.",
        "",
        "| `model_type` | documents run | because of | LoRA | full | QLoRA |",
        "|---|---|---|---|---|---|",
        *(_row(kind, why) for kind, why in sorted(KNOWN.items())),
        "",
        f"{len(FAMILIES)} of these are trained in the tests, {len(PLACED)} are placed by a trial.",
        "",
        "## Refused",
        "",
        f"Transformers loads these {len(REFUSED) + len(ENCODERS)} as well. They are refused, at the latest before the",
        "first step. Any other model with a vision or audio part is refused too: nobody has tried to train its text",
        "part alone.",
        "",
        "| `model_type` | because |",
        "|---|---|",
        *(f"| `{kind}` | {why} |" for kind, why in sorted({**REFUSED, **ENCODERS}.items())),
        "",
    ]
    return "\n".join(lines)


def _row(kind: str, why: str) -> str:
    lora = _YES if kind in FAMILIES else _NO
    full = "yes, resumed" if kind in TEN else lora
    return f"| `{kind}` | {'apart' if why else 'packed'} | {why} | {lora} | {full} | {_YES if kind in TEN else _NO} |"


def _names(kinds: Iterable[str]) -> str:
    return ", ".join(f"`{kind}`" for kind in sorted(kinds))
