"""Chat templates that a recipe takes by name: three of our own, and those of known models as TRL ships them."""

import importlib.util
import re
from functools import cache
from pathlib import Path

PLAIN = "plain"
# An answer begins on its own line: after a blank it would begin with another token.
PLAIN_TEMPLATE = """\
{{- bos_token if bos_token }}
{%- for message in messages %}
{%- if tools or message.tool_calls or message.role not in ('system', 'user', 'assistant') %}
{{- raise_exception('the plain template has no tools, and no roles but system, user and assistant') }}
{%- elif message.role == 'assistant' %}
{{- 'Assistant:\\n' }}{% generation %}{{ message.content + eos_token }}{% endgeneration %}{{- '\\n\\n' }}
{%- else %}
{{- message.role | capitalize + ':\\n' + message.content + '\\n\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- 'Assistant:\\n' }}{% endif %}"""
# https://github.com/openai/openai-python/blob/release-v0.28.0/chatml.md
_CHATML = """\
{{- bos_token if bos_token }}
{%- for message in messages %}
{%- if tools or message.tool_calls %}{{- raise_exception('the chatml template has no tools') }}{% endif %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}
{%- generation %}{{- message.content + '<|im_end|>' }}{% endgeneration %}{{- '\\n' }}
{%- else %}
{{- message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""
# https://docs.mistral.ai/cookbooks/concept-deep-dive-tokenization-chat_templates, from version 3 of the tokenizer on.
_MISTRAL = """\
{{- bos_token }}
{%- set told = namespace(system='') %}
{%- for message in messages %}
{%- if tools or message.tool_calls %}{{- raise_exception('the mistral template has no tools') }}
{%- elif message.role == 'system' and loop.first %}{% set told.system = message.content + '\\n\\n' %}
{%- elif message.role == 'user' %}{{- '[INST]' + told.system + message.content + '[/INST]' }}{% set told.system = '' %}
{%- elif message.role == 'assistant' %}{% generation %}{{- message.content + eos_token }}{% endgeneration %}
{%- else %}{{- raise_exception('a system message comes first, and no others but user and assistant follow') }}
{%- endif %}
{%- endfor %}"""
_OWN = {PLAIN: PLAIN_TEMPLATE, "chatml": _CHATML, "mistral": _MISTRAL}
_ALSO = {"harmony": "gptoss", "qwen2": "qwen2_5"}
# Variants for training, older versions of a template, and vision models.
_OTHERS = re.compile(r".*(_training|_v\d+|_vl|^llava.*|^idefics.*|^smolvlm.*|^diffusion.*)")


@cache
def ready_templates() -> dict[str, str]:
    """Text of every ready template by its name; TRL's are missing where it is not installed."""
    folder = trl_templates()
    files = sorted(folder.glob("*.jinja")) if folder else []
    shipped = {path.stem: path.read_text(encoding="utf-8") for path in files if not _OTHERS.fullmatch(path.stem)}
    named = {name: shipped[other] for name, other in _ALSO.items() if other in shipped}
    return {**_OWN, **shipped, **named}


def ready_name(text: str) -> str | None:
    """The name of the ready template with this text, or None."""
    return next((name for name, other in ready_templates().items() if other == text), None)


def trl_templates() -> Path | None:
    """TRL's folder of chat templates, found without importing it; None where it is not installed."""
    trl = importlib.util.find_spec("trl")
    return Path(trl.origin).parent / "chat_templates" if trl and trl.origin else None
