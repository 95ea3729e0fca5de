"""The chat template for bases that have none: ``chat_template: plain``."""

PLAIN = "plain"
# Lines end before an answer begins: a blank in front of it would be a token that answers do not begin with.
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
