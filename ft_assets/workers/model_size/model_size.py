"""A decoder's parameters by kind, from its ``config.json``.

The families of ``families.py`` are known. For others only the number of parameters is known: a decoder of usual
proportions with the same number stands in for them, marked ``rough``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from ft_assets.settings.catalogue.composites import has_other_parts, text_settings
from ft_assets.workers.model_size.families import FAMILIES, Family, family_of

# The tolerated difference between the parameters of a known family and those in the weights: buffers, odd biases.
_TOLERANCE = 0.02
# No size in a config.json, and no model, is larger; larger numbers are mistakes.
_MOST, _MOST_PARAMETERS = 2**31, 10**14

Reads = Literal["attention in", "attention out", "mlp in", "mlp out", "expert in", "expert out"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Linear:
    """One kind of matrix in every layer; ``experts`` of them in parallel, of which a token passes ``active``.

    ``reads`` names the rows it multiplies, as matrices that read the same rows may keep them once. An adapter on it has
    ``adapter_ranks`` times the recipe's rank: PEFT adds one adapter for each of two matrices that Transformers keeps
    fused, and none (0) to some families' routers.
    """

    name: str
    reads: Reads
    inputs: int
    outputs: int
    bias: bool = False
    experts: int = 1
    active: int = 1
    adapter_ranks: int = 1

    @property
    def parameters(self) -> int:
        return self.experts * (self.inputs * self.outputs + (self.outputs if self.bias else 0))

    @property
    def active_parameters(self) -> int:
        return self.active * self.inputs * self.outputs


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What memory and time depend on. Sizes count numbers, not bytes.

    Args:
        model_type: as in config.json.
        linears: the matrices of one layer, without the output head.
        norms: parameters of one layer's normalisations; ``final_norm`` those of the last one.
        positions: learned position embeddings.
        tied: whether the output head is the embedding.
        intermediate: width of the feed-forward part that a token passes, all its experts together.
        gated: whether the feed-forward part has a gate besides its up projection.
        frozen: parameters besides the text part (a vision tower, a projector), loaded and never trained.
        rough: a stand-in for an unknown architecture, with the same number of parameters.
        doubt: if rough, why config.json was not trusted; "" if only its family is unknown.
    """

    model_type: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool
    linears: tuple[Linear, ...]
    norms: int
    final_norm: int
    positions: int = 0
    gated: bool = True
    frozen: int = 0
    rough: bool = False
    doubt: str = ""

    @cached_property
    def by_kind(self) -> dict[str, int]:
        """Parameters of ``embedding``, ``attention``, ``mlp``, ``norm`` and, unless tied, ``head``."""
        attention = sum(linear.parameters for linear in self.linears if linear.reads.startswith("attention"))
        mlp = sum(linear.parameters for linear in self.linears) - attention
        return {
            "embedding": self.vocabulary * self.hidden + self.positions,
            "attention": self.layers * attention,
            "mlp": self.layers * mlp,
            "norm": self.layers * self.norms + self.final_norm,
            "head": 0 if self.tied else self.vocabulary * self.hidden,
        }

    @property
    def parameters(self) -> int:
        return sum(self.by_kind.values())

    @property
    def matrices(self) -> int:
        """Parameters of all layers' matrices: those that are quantised and that adapters are added to."""
        return self.by_kind["attention"] + self.by_kind["mlp"]

    @property
    def active(self) -> int:
        """Parameters of the layers' matrices that one token passes: fewer than all in a mixture of experts."""
        return self.layers * sum(linear.active_parameters for linear in self.linears)

    def adapted(self, targets: str | Iterable[str]) -> list[Linear]:
        """The matrices of a layer that get an adapter, for ``all-linear`` or module names."""
        able = [linear for linear in self.linears if linear.adapter_ranks]
        if targets == "all-linear":
            return able
        return [linear for linear in able if linear.name.rsplit(".", 1)[-1] in set(targets)]

    def adapter_parameters(self, rank: int, targets: str | Iterable[str]) -> int:
        """Parameters of low-rank adapters (https://arxiv.org/abs/2106.09685): rank · (inputs + outputs) per matrix."""
        each = [
            linear.experts * linear.adapter_ranks * (linear.inputs + linear.outputs) for linear in self.adapted(targets)
        ]
        return self.layers * rank * sum(each)


def read_architecture(config: Mapping[str, Any], parameters: int | None = None) -> Architecture | None:
    """The architecture that ``config`` (a parsed config.json) describes.

    ``parameters`` is the number in the weights, if known: a known family must agree with it within 2 %, and what a
    composite has besides its text part is ``frozen``. A rough
    stand-in is returned if it does not, if a setting makes no sense, and for an unknown family. None if ``parameters``
    is not known either.
    """
    found, doubt = _read(config, parameters)
    if found is not None or parameters is None or parameters < 1:
        return found
    vocabulary = text_settings(config).get("vocab_size")
    return rough(parameters, vocabulary if isinstance(vocabulary, int) and vocabulary > 0 else None, doubt)


def doubt_about(config: Mapping[str, Any], parameters: int | None = None) -> str:
    """Why ``read_architecture`` does not trust the config.json of a known family; "" in all other cases."""
    return _read(config, parameters)[1]


def _read(config: Mapping[str, Any], parameters: int | None) -> tuple[Architecture | None, str]:
    """The architecture in ``config`` if it can be trusted, else the reason why not."""
    values = text_settings(config)
    family = family_of(str(values.get("model_type", "")))
    if family is None:
        return None, ""
    described = 0
    try:
        for tied in _tied(values, family):
            found = _known(values, family, tied)
            described = described or found.parameters
            if found.parameters > _MOST_PARAMETERS:
                raise ValueError(f"it describes {found.parameters:.0e} parameters")
            if parameters is None or abs(found.parameters - parameters) <= _TOLERANCE * parameters:
                return found, ""
            if has_other_parts(config) and found.parameters < parameters:
                return replace(found, frozen=parameters - found.parameters), ""
    except ValueError as error:
        return None, f"config.json: {error}"
    return None, f"config.json describes {described:,} parameters and the weights hold {parameters:,}"


def rough(parameters: int, vocabulary: int | None = None, doubt: str = "") -> Architecture:
    """A decoder with about ``parameters`` parameters in usual proportions.

    Dense decoders have 12 · hidden² parameters per layer and are about hidden / 128 layers deep (Kaplan et al. 2020,
    https://arxiv.org/abs/2001.08361, for the first; Llama's models for both). For small models the embedding is
    subtracted, as at most half of the parameters.
    """
    parameters = min(parameters, _MOST_PARAMETERS)
    hidden = max(16, round((parameters * 128 / 12) ** (1 / 3) / 16) * 16)
    vocabulary = max(1, min(vocabulary or 64_000, parameters // (2 * hidden)))
    layers = max(1, round((parameters - vocabulary * hidden) / (12 * hidden**2)))
    heads = max(1, hidden // 128)
    values = {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": round(8 * hidden / 3),
        "vocab_size": vocabulary,
    }
    found = _known(values, FAMILIES["llama"], tied=True)
    return replace(found, model_type="unknown", rough=True, doubt=doubt)


def _tied(values: Mapping[str, Any], family: Family) -> list[bool]:
    """Whether embeddings are tied; if config.json does not say, both options, the family's default first."""
    said = values.get("tie_word_embeddings")
    return [said] if isinstance(said, bool) else [family.tied, not family.tied]


def _known(values: Mapping[str, Any], family: Family, tied: bool) -> Architecture:
    """Raises ValueError, with an explanation, for settings that are missing or make no sense."""
    keys = dict(family.keys)

    def number(name: str, default: int | None = None, *, least: int = 1) -> int:
        name = keys.get(name, name)
        value = values.get(name)
        if value is None and default is not None:
            value = default
        if value is None:
            raise ValueError(f"there is no {name}")
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST:
            raise ValueError(f"{name} is {str(value)[:40]}, which is not a valid number")
        return value

    hidden, heads = number("hidden_size"), number("num_attention_heads")
    kv_heads = number("num_key_value_heads", heads) if family.grouped else heads
    if heads % kv_heads:
        raise ValueError(f"{heads} attention heads cannot share {kv_heads} keys")
    head_dim = number("head_dim", hidden // heads)
    intermediate = number("intermediate_size", 4 * hidden)
    layers = number("num_hidden_layers")
    attention = _attention(family, values, hidden, heads * head_dim, kv_heads * head_dim)
    mlp, width = _mlp(family, values, number, hidden, intermediate)
    qk = {"": 0, "head": 2 * head_dim, "width": (heads + kv_heads) * head_dim}[family.qk_norm]
    norm = 2 * hidden if family.biases else hidden
    return Architecture(
        model_type=str(values["model_type"]),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=width,
        vocabulary=number("vocab_size"),
        tied=tied,
        linears=(*attention, *mlp),
        norms=family.norms * norm + qk,
        final_norm=norm,
        positions=number("max_position_embeddings") * hidden if family.keys else 0,
        gated=family.gated,
    )


def _attention(family: Family, values: Mapping[str, Any], hidden: int, query: int, key: int) -> list[Linear]:
    every = family.biases or bool(values.get("attention_bias", False))
    outputs = {family.fused: query + 2 * key} if family.fused else {"q_proj": query, "k_proj": key, "v_proj": key}
    out = Linear(name=family.names[0], reads="attention out", inputs=query, outputs=hidden, bias=every)
    return [*_reading("attention in", hidden, outputs, every or family.qkv_bias), out]


def _reading(reads: Reads, inputs: int, outputs: Mapping[str, int], bias: bool) -> list[Linear]:
    """Matrices, by name, that read the same rows."""
    return [Linear(name=name, reads=reads, inputs=inputs, outputs=each, bias=bias) for name, each in outputs.items()]


def _mlp(
    family: Family, values: Mapping[str, Any], number: Any, hidden: int, intermediate: int
) -> tuple[list[Linear], int]:
    """The feed-forward matrices of a layer, and the width that one token passes."""
    bias = family.biases or bool(values.get("mlp_bias", False))
    experts = number("num_experts", number("num_local_experts", 0, least=0), least=0)
    _, up, down = family.names
    if not experts:
        outputs = dict.fromkeys(("gate_proj", up) if family.gated else (up,), intermediate)
        if family.fused_mlp:
            outputs = {family.fused_mlp: 2 * intermediate}
        out = Linear(name=down, reads="mlp out", inputs=intermediate, outputs=hidden, bias=bias)
        return [*_reading("mlp in", hidden, outputs, bias), out], intermediate
    width, active = number("moe_intermediate_size", intermediate), number("num_experts_per_tok", family.active or 1)
    if active > experts:
        raise ValueError(f"num_experts_per_tok is {active}, of {experts} experts")
    shared = number("shared_expert_intermediate_size", 0, least=0)
    many = {"experts": experts, "active": active}
    ranks = int(family.adapted_router)
    linears = [
        Linear(name="router", reads="mlp in", inputs=hidden, outputs=experts, adapter_ranks=ranks),
        Linear(
            name="gate_up_proj", reads="expert in", inputs=hidden, outputs=2 * width, adapter_ranks=1 + ranks, **many
        ),
        Linear(name="experts.down_proj", reads="expert out", inputs=width, outputs=hidden, **many),
    ]
    if shared:
        ways_in = {"gate_proj": shared, "up_proj": shared, "shared_expert_gate": 1}
        linears += _reading("mlp in", hidden, ways_in, bias=False)
        linears.append(Linear(name="down_proj", reads="mlp out", inputs=shared, outputs=hidden))
    return linears, active * width + shared
