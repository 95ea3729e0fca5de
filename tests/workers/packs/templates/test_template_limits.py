"""A template has limits on its work and on what it makes, which change nothing of what templates write."""

import json
from pathlib import Path

import pytest

from ft_assets.workers.templates.limits import STEPS
from ft_assets.workers.templates.source import own_template
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase
from tests.workers.packs.conftest import chat
from tests.workers.packs.templates.templates import compiled

# Forty lists, each of the one before twice: a terabyte as text, and as long to compare or to hash.
NESTED = (
    "{% set ns = namespace(x=[0], y=[0], z=(0,)) %}{% for _ in range(40) %}{% set ns.x = [ns.x, ns.x] %}"
    "{% set ns.y = [ns.y, ns.y] %}{% set ns.z = (ns.z, ns.z) %}{% endfor %}"
)
USES_OF_NESTED = (
    *("{{ ns.x }}", "{{ ns }}", "{{ {'a': ns.x}.values() }}", "{{ ns.x | tojson }}", "{{ ns.x | string | length }}"),
    *("{{ (ns.x ~ '') | length }}", "{{ ns.x | join }}", "{{ [1] | join(ns.x) }}", "{{ '%s' % (ns.x,) }}"),
    *("{{ '{}'.format(ns.x) }}", "{{ '{0[0]}'.format(ns.x) }}", "{{ ns.x == ns.y }}", "{{ ns.x is eq ns.y }}"),
    *("{{ [ns.x] | select('eq', ns.y) | list }}", "{{ ns.x in [ns.y] }}", "{{ [ns.x].index(ns.y) }}"),
    *("{{ [ns.x, ns.y] | sort | length }}", "{{ [ns.z] | unique | list }}", "{{ {ns.z: 1} | length }}"),
    *("{{ {}.get(ns.z) }}", "{{ [ns.x] | map('string') | list }}", "{% if ns.z in {} %}{% endif %}"),
    *("{% if ns.z not in {1: 2} %}{% endif %}", "{% if ns.z is in {} %}{% endif %}"),
)


# Of a part of the steps of a rendering, with as much smaller texts and lists; in `make test-long` of all of them.
@pytest.mark.parametrize("part", [20, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "source",
    [
        "{% set ns = namespace(n=9) %}{% for _ in range(20) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
        "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% set ns = namespace(t='ab') %}{% for i in range(60) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
        "{% set ns = namespace(t='ab') %}{% for i in range(60) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
        "{% set t = 'a' * 1000000 %}{% for i in range(99999) %}{{ t }}{% endfor %}",
        "{{ 'a' * 10000000000 }}",
        "{{ 10 ** (10 ** 10) }}",
        "{{ 2 ** 64 }}",
        "{{ '%400000000d' % 1 }}",
        "{{ '%.400000000f' % 1 }}",
        "{{ '%*d' % (400000000, 1) }}",
        "{{ '%400000000d' | format(1) }}",
        "{{ '{:400000000}'.format(1) }}",
        "{{ '{:{w}}'.format(1, w=400000000) }}",
        "{{ '{a:400000000}'.format_map({'a': 1}) }}",
        "{{ 'a' | center(400000000) }}",
        "{{ 'a'.ljust(400000000) }}",
        "{{ 'a'.rjust(400000000) }}",
        "{{ 'a'.center(400000000) }}",
        "{{ 'a'.zfill(400000000) }}",
        "{{ (1).to_bytes(400000000) | length }}",
        "{{ ('\\t' * 1000).expandtabs(1000000) }}",
        "{{ 'a\\nb' | indent(400000000) }}",
        "{{ [1] | batch(400000000, 1) | list | length }}",
        "{{ [1] | slice(400000000) | list | length }}",
        "{{ 1 | round(400000000, 'floor') }}",
        "{{ [1] | tojson(indent=400000000) }}",
        "{{ ('a' * 100000) | replace('a', 'a' * 100000) }}",
        "{{ ('a' * 100000).replace('a', 'a' * 100000) }}",
        "{{ range(100000) | join('a' * 100000) }}",
        "{{ ('a' * 100000).join(('a' * 100000) | list) }}",
        "{% set ns = namespace(l=[0]) %}{% for _ in range(27) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
        "{{ ([0] * 200000000) | length }}",
        "{{ (200000000 * (0,)) | length }}",
        "{{ ('a ' * 100000000).split() | length }}",
        "{{ ('a,' * 100000000).split(',') | length }}",
        "{% set ns = namespace(l=[])%}{% for _ in range(99) %}{% set ns.l = ns.l + [range(99999)|list] %}{% endfor %}",
        *(NESTED + use for use in USES_OF_NESTED),
        "{{ ([[0] * 1000] * 100000) | sum(start=[]) | length }}",
        "{% set l = [0] * LIST %}{% for _ in range(1000) %}{{ 1 in l }}{% endfor %}",
        "{% set l = [0] * LIST %}{% for _ in range(1000) %}{% set m = l[1:] %}{% endfor %}",
        "{% set t = 'a' * TEXT %}{% for _ in range(1000) %}{% set u = t ~ 'b' %}{% endfor %}",
        "{% set t = 'a' * TEXT %}{% for _ in range(1000) %}{% set u = t | upper %}{% endfor %}",
        "{% set t = 'a' * TEXT %}{% for _ in range(1000) %}{{ t.find('b') }}{% endfor %}",
        "{{ ('a ' * 100000000) | wordcount }}",
        "{{ ('\\n' * 100000000) | indent(1000000) }}",
        "{{ ('a ' * 1000) | urlize(target='b' * 1000000) }}",
        "{% for _ in range(100000) %}{{ range(100000) | sum }}{% endfor %}",
        "{% set ns = namespace(l=[])%}{% for _ in range(99)%}{% set ns.l = ns.l+[range(99999)|sort] %}{% endfor %}",
    ],
)
def test_a_template_that_makes_what_fits_no_memory_or_never_ends_is_refused(
    base_tokenizer: ChatTokenizer, source: str, part: int
) -> None:
    sized = source.replace("LIST", f"{50_000_000 // part}").replace("TEXT", f"{200_000_000 // part}")
    template = compiled(sized, base_tokenizer)
    template._template.environment.steps = STEPS // part  # type: ignore[attr-defined]
    with pytest.raises(BadBase, match="without end"):
        template.render(chat("a", "b"), where="row 1")


def test_a_filter_whose_time_is_quadratic_in_a_word_is_left_out(base_tokenizer: ChatTokenizer) -> None:
    with pytest.raises(BadBase, match="No filter named 'wordwrap'"):
        compiled("{{ ('a' * 7000000) | wordwrap(1) }}", base_tokenizer)


def test_limits_change_nothing_of_what_templates_write(base_tokenizer: ChatTokenizer) -> None:
    source = (
        "{{ '%5.2f|%-4s|%(x)%' % () if false else '%5.2f|%-4s|' % (1.5, 'a') }}{{ '%s!' | format('b') }}"
        "{{ '{:>4}{a}'.format(1, a='z') }}{{ '{a}'.format_map({'a': 2}) }}{{ [1, 'c'] | join('-') }}{{ 7 % 4 }}"
        "{{ 'aXa' | replace('a', 'bb', 1) }}{{ 'aXa'.replace('a', 'bb') }}{{ ','.join(['p', 'q']) }}{{ 3 * 4 }}"
        "{{ 2 ** 10 }}{{ 2 ** -1 }}{{ 'k' | center(3) }}{{ [1, 2, 3] | batch(2) | list }}{{ 'q'.ljust(3) }}"
    )
    source += (
        "{{ [1, 2][1:] }}{{ 'abc'[:2] }}{{ {1: 2, (1, 2): 3}[1] }}{{ 'b' in 'abc' }}{{ 3 not in [1] }}{{ 1 < 2 < 3 }}"
        "{{ [[1], [2]] | sum(start=[]) }}{{ [2, 1] | sort }}{{ [1, 1] | unique | list }}{{ 'x' | default('y') }}"
        "{{ messages | selectattr('role', 'eq', 'user') | map(attribute='content') | list }}{{ [1, 2] == [1, 2] }}"
        "{{ 'a b' | title }}{{ 'ab' | reverse }}{{ range(3) | list }}{{ {'a': 1} | items | list }}{{ none ~ 1 }}"
        "{{ {'a': {'b': 'é'}} | tojson }}{{ {}[(1, 2)] }}"
    )
    expected = (
        " 1.50|a   |b!   1z21-c3bbXabbXbbp,q1210240.5 k [[1, 2], [3]]q  "
        "[2]ab2TrueTrueTrue[1, 2][1, 2][1]x['a']TrueA Bba[0, 1, 2][('a', 1)]None1"
        '{"a": {"b": "é"}}'
    )
    assert compiled(source, base_tokenizer).render(chat("a", "b"), where="row 1") == expected


@pytest.mark.parametrize("call", ["c.replace('a', 'bb')", "c.expandtabs(4)", "c.ljust(4)", "c.center(4)", "c.zfill(4)"])
def test_methods_of_texts_work_behind_a_set_in_a_loop(base_tokenizer: ChatTokenizer, call: str) -> None:
    source = "{% for m in messages %}{% set c = m.content %}{{ CALL }};{% endfor %}".replace("CALL", call)
    template = compiled(source, base_tokenizer)
    found = template.render(chat("ab", "x\ty"), where="row 1")
    assert found == "".join(f"{eval(call, {'c': content})};" for content in ("ab", "x\ty"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("chat_template.jinja", b"{{ a }}" * 10_000),
        ("chat_template.jinja", b"\xff"),
        ("tokenizer_config.json", json.dumps({"chat_template": "{{ a }}" * 10_000}).encode()),
        (
            "tokenizer_config.json",
            json.dumps({"chat_template": [{"name": [], "template": 1}, {"name": "default", "template": "x" * 65_537}]}),
        ),
    ],
)
def test_a_bases_own_template_may_be_as_long_as_a_recipes(tmp_path: Path, name: str, data: bytes | str) -> None:
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(BadBase, match="the chat template") as caught:
        own_template(tmp_path)
    assert caught.value.where == name
