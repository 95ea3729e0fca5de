"""The template a base is packed with: the recipe's, the base's own, or TRL's training variant of it."""

import re
from collections.abc import Iterator
from pathlib import Path

from ft_assets.settings.recipe.end_of_turn import with_end_of_turn, without_end_of_turn
from ft_assets.settings.recipe.ready_templates import ready_name, trl_templates
from ft_assets.workers.templates.probes import first_end
from ft_assets.workers.templates.source import own_template
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase

_TOKEN = re.compile(r"\s*(<[^<>\s]+>)")


def load_template(folder: Path, tokenizer: ChatTokenizer, override: str | None) -> ChatTemplate:
    """The recipe's template (``Recipe.template``) if it names one, else the base's.

    Raises BadBase if there is neither, if the base has no token for the end of turn of a ready template or of
    ``packing.end_of_turn``, or if the template itself ends turns that ``packing.end_of_turn`` should.
    """
    given, ends = without_end_of_turn(override)
    source = given if given is not None else own_template(folder)
    if source is None:
        raise BadBase(
            "the base has no chat template",
            where="tokenizer_config.json",
            remedy="Write chat_template: plain into the recipe, or name a Jinja file there; or take a base with one.",
        )
    name = "the recipe's chat_template" if given is not None else "the base's chat template"
    template = ChatTemplate(source, name=name, variables=tokenizer.named, control=tokenizer.control)
    if given is not None and (ready := ready_name(given)):
        _require_end(template, ready, tokenizer)
    return _ended(template, ends, tokenizer) if ends else template


def template_text(folder: Path, override: str | None) -> str | None:
    """The Jinja text of ``load_template``; None if there is neither template."""
    given, ends = without_end_of_turn(override)
    source = given if given is not None else own_template(folder)
    return None if source is None else with_end_of_turn(source, ends)


def _ended(template: ChatTemplate, ends: tuple[str, ...], tokenizer: ChatTokenizer) -> ChatTemplate:
    """``template`` with the first of ``ends`` after a last answer."""
    missing = [end for end in ends if end not in tokenizer.special_ids]
    if missing:
        raise BadBase(
            f"the base's tokenizer has no control token {missing[0]}",
            where="packing.end_of_turn",
            remedy="Name control tokens of the base: those that begin its next turn, or end the others.",
        )
    if there := first_end(template.probes.answered, template.control):
        raise BadBase(
            f"{template.name} ends a last answer with {there} itself",
            where="packing.end_of_turn",
            remedy="Leave packing.end_of_turn out.",
        )
    source = with_end_of_turn(template.source, ends) or ""
    return ChatTemplate(source, name=template.name, variables=template.variables, control=template.control, ends=ends)


def _require_end(template: ChatTemplate, ready: str, tokenizer: ChatTokenizer) -> None:
    end = _TOKEN.match(template.probes.after_answer)
    if end is not None and end[1] not in tokenizer.special_ids:
        raise BadBase(
            f"the base's tokenizer has no token {end[1]}, with which the template {ready} ends a turn",
            where="chat_template",
            remedy="Take a template whose tokens the base has, such as plain; or teach it the tokens (new_tokens).",
        )


def reference_template(folder: Path, tokenizer: ChatTokenizer, override: str | None) -> ChatTemplate:
    """The template that a pack made with ``override`` must agree with.

    A recipe's template with generation marks is a training variant of the base's and must render the same; one without
    marks, or a ready one, is a deliberately different template, which the adapter then carries.
    """
    template = load_template(folder, tokenizer, override)
    given, ends = without_end_of_turn(override)
    if given is None or not template.marked or ready_name(given) or own_template(folder) is None:
        return template
    return load_template(folder, tokenizer, with_end_of_turn(None, ends))


def training_variant(template: ChatTemplate) -> ChatTemplate | None:
    """TRL's template with ``{% generation %}`` marks for exactly this text, or None.

    A variant may render other text (some keep the reasoning of earlier turns that the original drops), so the caller
    must compare; ``Tracer`` does.
    """
    if template.marked:
        return None
    for original, variant in _shipped():
        if original.read_text(encoding="utf-8") == template.source:
            source = variant.read_text(encoding="utf-8")
            return ChatTemplate(source, name=template.name, variables=template.variables, control=template.control)
    return None


def _shipped() -> Iterator[tuple[Path, Path]]:
    """TRL's files of templates and their training variants."""
    folder = trl_templates()
    for variant in sorted(folder.glob("*_training.jinja")) if folder else ():
        original = variant.with_name(variant.name.replace("_training", ""))
        if original.exists():
            yield original, variant
