"""Questions with exactly one right answer, read off Python source by its syntax tree (nothing is imported).

Every question shows a piece of code and asks for something that stands in it verbatim, so an answer is right or
wrong without judgement, and a model that learned to *look* generalises to modules that it never saw.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

MAX_CODE = 320
MAX_ANSWER = 24
KINDS = ("default", "base_class")
"""Kept by measurement: after a minute of LoRA the base reached 0.48 and 0.40 on these, but 0.05 on naming the next
argument, 0.06 on what a function returns and 0.00 on what it raises, so those three are gone."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """`owner` identifies what the code shows, so that one function does not fill the data set."""

    kind: str
    source: str
    owner: str
    prompt: str
    answer: str


def questions_in(code: str, source: str) -> Iterator[Question]:
    """Every question that `code`, a module of the top-level package `source`, gives rise to.

    Raises SyntaxError or ValueError where the text is not Python; the caller decides whether that matters.
    """
    tree = ast.parse(code)
    for node in _functions(tree):
        for kind, shown, asked, answer in _about_function(node):
            if len(shown) <= MAX_CODE and 0 < len(answer) <= MAX_ANSWER and "\n" not in answer:
                yield Question(kind=kind, source=source, owner=shown, prompt=f"{shown}\n\n{asked}", answer=answer)
    yield from _about_classes(tree, source)


def _functions(tree: ast.Module) -> Iterator[_Function]:
    """As ``ast.walk`` finds them, without a look into expressions: most of a tree, and no function is in one."""
    left: list[ast.AST] = [tree]
    for node in left:
        if isinstance(node, _Function):
            yield node
        left += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]


def signature(node: _Function) -> str:
    """One line, as the interpreter would print it: ``def seek(self, offset, whence=0)``."""
    prefix = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{prefix} {node.name}({ast.unparse(node.args)})"


def _about_function(node: _Function) -> Iterator[tuple[str, str, str, str]]:
    """(kind, code shown, question, answer)."""
    shown = signature(node)
    positional = [*node.args.posonlyargs, *node.args.args]
    firsts = positional[len(positional) - len(node.args.defaults) :]
    pairs = [*zip(firsts, node.args.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d is not None]
    for argument, default in pairs:
        if len(positional) + len(node.args.kwonlyargs) > 1:
            yield "default", shown, f"What is the default of {argument.arg}?", ast.unparse(default)


def _about_classes(tree: ast.Module, source: str) -> Iterator[Question]:
    """The base of one class among up to four neighbours' headers, so that the name has to be looked up."""
    found = [n for n in tree.body if isinstance(n, ast.ClassDef) and len(n.bases) == 1 and not n.keywords]
    for start in range(0, len(found), 4):
        group = found[start : start + 4]
        shown = "\n".join(f"class {n.name}({ast.unparse(n.bases[0])})" for n in group)
        if len({n.name for n in group}) < len(group) or len(shown) > MAX_CODE:
            continue
        for node in group:
            answer = ast.unparse(node.bases[0])
            if len(answer) <= MAX_ANSWER:
                prompt = f"{shown}\n\nWhat is the base class of {node.name}?"
                yield Question(kind="base_class", source=source, owner=prompt, prompt=prompt, answer=answer)
