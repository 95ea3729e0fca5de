"""A first look at a chat template: is it Jinja at all? What it renders is the pack doctor's question."""

from typing import Any

from ft_resources.errors import BadBase


def check_template(text: str, where: str) -> None:
    """Parse ``text`` with the extensions transformers allows. Raises BadBase that names the line; renders nothing."""
    from jinja2 import TemplateSyntaxError, nodes
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}…{% endgeneration %}`` around what the assistant says."""

        tags = {"generation"}  # noqa: RUF012 -- the name and type jinja2 asks for

        def parse(self, parser: Any) -> list[nodes.Node]:
            next(parser.stream)
            body: list[nodes.Node] = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return body

    environment = ImmutableSandboxedEnvironment(extensions=[Generation, "jinja2.ext.loopcontrols"])
    try:
        environment.parse(text)
    except TemplateSyntaxError as error:
        what = f"line {error.lineno} of the chat template is not valid Jinja ({error.message})"
        raise BadBase(what, where=where, remedy="Correct the template.") from error
