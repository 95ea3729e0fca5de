"""A program passes by values that are right: whatever else it does, its tests run where it cannot reach them."""

import pytest

from ft_assets.workers.suites.kinds.code import CodeItem
from ft_assets.workers.suites.kinds.sandbox import State, run_program
from tests.workers.evals.sandboxed import PATIENT
from tests.workers.evals.sandboxed import allowed as allowed

pytestmark = [pytest.mark.sandbox, pytest.mark.subprocess]
DOUBLES = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(-7) == -14\n"


def outcome(answer: str, test: str, prompt: str = "def f(x):\n", entry_point: str | None = "f") -> State:
    item = CodeItem(id="1", before="", prompt=prompt, question=prompt, test=test, entry_point=entry_point)
    return run_program(item.program(answer), PATIENT, tests=item.tests, names=item.names)


EQUALS_ALL = """
    class Any(int):
        def __eq__(self, other): return True
        def __ne__(self, other): return False
        def __sub__(self, other): return 0
        def __lt__(self, other): return True
        def __gt__(self, other): return True
        def __abs__(self): return 0
        __hash__ = int.__hash__
    return Any(1)
"""
EQUALS_ALL_AND_IS_NOTHING_KNOWN = """
    return type("Any", (), {"__eq__": lambda *_: True, "__ne__": lambda *_: False, "__sub__": lambda *_: 0})()
"""
LISTS_THAT_EQUAL_ALL = """
    return type("Any", (list,), {"__eq__": lambda *_: True, "__ne__": lambda *_: False})()
"""
FINDS_A_MARK_IN_FRAMES = """
    import os, sys
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            if isinstance(value, bytes):
                for file in range(3, 64):
                    try:
                        os.write(file, value)
                    except OSError:
                        pass
                os._exit(0)
        frame = frame.f_back
"""
WRITES_TO_ALL_FILES = """
    import os
    for file in range(64):
        for mark in (b"P", b"passed", b'{"state": "passed"}', b'{"value": 4}\\n'):
            try:
                os.write(file, mark)
            except OSError:
                pass
    os._exit(0)
"""
PATCHES_BUILTINS = """
    return 0
import builtins
builtins.abs = builtins.round = lambda *_: 0
builtins.all = builtins.isinstance = lambda *_: True
"""
PATCHES_MODULES = """
    return 0
import math, unittest
math.isclose = lambda *_, **__: True
for name in dir(unittest.TestCase):
    if name.startswith("assert"):
        setattr(unittest.TestCase, name, lambda *_, **__: None)
"""
CHANGES_THE_TESTS_OWN_NAMES = """
    import sys
    frame = sys._getframe()
    while frame:
        frame.f_globals["EXPECTED"] = [0, 0]
        frame = frame.f_back
    return 0
"""
READS_WHAT_IS_EXPECTED = """
    import sys
    f.calls = getattr(f, "calls", 0) + 1
    expected = [each for each in sys._getframe(1).f_code.co_consts if isinstance(each, int) and each not in (2, -7)]
    return expected[f.calls - 1]
"""
SKIPS_LINES_BY_A_TRACE = """
    import sys
    caller = sys._getframe(1)
    def trace(frame, event, _):
        if frame is caller and event == "line" and "assert" not in frame.f_code.co_name:
            frame.f_lineno = caller.f_code.co_firstlineno + 4
        return trace
    caller.f_trace = trace
    sys.settrace(trace)
    return 4
"""
CHANGES_SMALL_NUMBERS = """
    import ctypes
    for number in (4, -14):
        if number > -6:
            ctypes.memmove(id(number) + 24, id(2) + 24, 4)
    return 2
"""
ENDS_ITS_TESTS_ITERATION = "    raise StopIteration\n"
SKIPS_ITS_TESTS = "    import unittest\n    raise unittest.SkipTest\n"
CLEARS_WHAT_IT_GETS = "    x.clear()\n    return []\n"
IS_AS_NEAR_AS_IT_LIKES = """
    return type("Any", (), {"__sub__": lambda self, _: self, "__abs__": lambda _: 0, "__lt__": lambda *_: True})()
"""
IS_NOTHING_TIMES_ALL = """
    return type("Any", (), {"__mul__": lambda *_: 4, "__rmul__": lambda *_: 4, "__truediv__": lambda *_: 1})()
"""
WRITES_ANSWERS_AHEAD = """
    import json, os
    for file in range(3, 64):
        try:
            os.write(file, json.dumps({"value": [], "left": {"tuple": []}}).encode() + b"\\n")
        except OSError:
            pass
    return []
"""
LEAVES = "    import sys\n    sys.exit(0)\n"
LEAVES_AT_ONCE = "    import os\n    os._exit(0)\n"
LEAVES_A_CHILD = """
    import os
    if os.fork():
        os._exit(0)
    return None
"""
INTERRUPTS_ITS_TESTS = """
    import os, signal, time
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.kill(-1, signal.SIGINT)
    time.sleep(0.2)
    return 0
"""
CLOSE = "import math\ndef check(candidate):\n    assert math.isclose(candidate(2), 4.5)\n"
CASES = (
    "import unittest\nclass Case(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(2), 4)\n"
    "def check(candidate):\n    assert unittest.TextTestRunner().run(Case('test')).wasSuccessful()\n"
)
FAILS_ON = "def check(candidate):\n    try:\n        candidate(-1)\n    except {}:\n        return\n    assert False\n"


@pytest.mark.parametrize(
    ("answer", "test"),
    [
        (EQUALS_ALL, DOUBLES),
        (EQUALS_ALL, "def check(candidate):\n    assert abs(candidate(2) - 4) < 1e-6\n"),
        (EQUALS_ALL_AND_IS_NOTHING_KNOWN, DOUBLES),
        (LISTS_THAT_EQUAL_ALL, "def check(candidate):\n    assert candidate(2) == [4]\n"),
        (FINDS_A_MARK_IN_FRAMES, DOUBLES),
        (WRITES_TO_ALL_FILES, DOUBLES),
        (PATCHES_BUILTINS, "def check(candidate):\n    assert abs(candidate(2) - 4.5) < 1e-6\n"),
        (
            PATCHES_BUILTINS,
            "def check(candidate):\n    assert all([candidate(2) == 4, isinstance(candidate(2), str)])\n",
        ),
        (PATCHES_MODULES, CLOSE),
        (PATCHES_MODULES, CASES),
        (
            CHANGES_THE_TESTS_OWN_NAMES,
            "EXPECTED = [4]\ndef check(candidate):\n    assert candidate(2) == EXPECTED[0]\n",
        ),
        (
            READS_WHAT_IS_EXPECTED,
            "def check(candidate):\n    assert candidate(2) == 41\n    assert candidate(2) == 5\n",
        ),
        (SKIPS_LINES_BY_A_TRACE, "def check(candidate):\n    candidate(1)\n    x = 1\n    assert x == 2\n    x = 2\n"),
        (CHANGES_SMALL_NUMBERS, "def check(candidate):\n    assert candidate(2) == 4\n"),
        (SKIPS_ITS_TESTS, CASES),
        (CLEARS_WHAT_IT_GETS, "def check(candidate):\n    x = [2, 1]\n    assert candidate(x) == sorted(x)\n"),
        (WRITES_ANSWERS_AHEAD, "def check(candidate):\n    x = [2, 1]\n    assert candidate(x) == sorted(x)\n"),
        (IS_AS_NEAR_AS_IT_LIKES, "def check(candidate):\n    assert abs(candidate(2) - 4) < 1e-6\n"),
        (IS_NOTHING_TIMES_ALL, "def check(candidate):\n    assert candidate(2) * 1 == 4\n"),
        (IS_NOTHING_TIMES_ALL, "def check(candidate):\n    assert candidate(2) / 4 == 1\n"),
        (ENDS_ITS_TESTS_ITERATION, "def check(candidate):\n    assert all(map(candidate, [1, 2]))\n"),
        (LEAVES, DOUBLES),
        (LEAVES, FAILS_ON.format("BaseException")),
        (LEAVES_AT_ONCE, DOUBLES),
        (LEAVES_AT_ONCE, FAILS_ON.format("BaseException")),
        (LEAVES_A_CHILD, DOUBLES),
        (INTERRUPTS_ITS_TESTS, FAILS_ON.format("BaseException")),
    ],
)
def test_no_pass_is_forged(answer: str, test: str) -> None:
    assert outcome(answer, test) == "failed"


SEES_ITS_TESTS = """
    import gc, sys
    mark, frame, seen = "quag" + "gax", sys._getframe(1), gc.get_objects()
    while frame:
        seen.append(dict(frame.f_locals))
        frame = frame.f_back
    values = (value for each in seen if isinstance(each, dict) for value in each.values())
    return any(isinstance(value, str) and mark in value for value in values)
"""
REACHES_ITS_TESTS = """
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    reached = []
    for process in range(1, 64):
        if process == os.getpid():
            continue
        if libc.ptrace(16, process, 0, 0) == 0:
            reached.append(("ptrace", process))
        try:
            found = ctypes.create_string_buffer(8)
            part = (ctypes.c_void_p * 2)(ctypes.addressof(found), 8)
            other = (ctypes.c_void_p * 2)(id(reached), 8)
            if libc.process_vm_readv(process, part, 1, other, 1, 0) > 0:
                reached.append(("memory", process))
            for file in range(64):
                if libc.syscall(438, os.pidfd_open(process), file, 0) >= 0:
                    reached.append(("file", process))
        except OSError:
            pass
    return reached
"""


@pytest.mark.parametrize(
    ("answer", "test"),
    [
        (SEES_ITS_TESTS, "# quaggax\ndef check(candidate):\n    assert candidate(2) is False\n"),
        (REACHES_ITS_TESTS, "def check(candidate):\n    assert candidate(2) == []\n"),
    ],
)
def test_a_program_has_no_copy_of_its_tests_and_no_way_into_their_process(answer: str, test: str) -> None:
    assert outcome(answer, test) == "passed"


VALUES = """from collections import Counter, deque
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
def check(candidate):
    for value in (None, True, 3, -(10**5000), 2.5, float("inf"), "ä\\ud800", b"x", [1, [2]], (1, (2,)), {1, 2},
                  bytearray(b"x"), deque([1]), range(2, 5), date(2020, 1, 2), time(3), timedelta(1.5), Counter("aa"),
                  datetime(2020, 1, 2, tzinfo=timezone.utc), Decimal("1.10"), Fraction(1, 3), int,
                  {1: {"a": (2,)}}, frozenset({(1, 2)}), {(1, 2): {3}}, 1 + 2j, [], (), {}, set()):
        back = candidate(value)
        assert back == value and type(back) is type(value), value
    assert candidate(float("nan")) != candidate(float("nan"))
"""


@pytest.mark.parametrize(
    ("answer", "test"),
    [
        ("    return 2 * x\n", DOUBLES),
        ("    return x\n", VALUES),
        ("    yield from range(x)\n", "def check(candidate):\n    assert list(candidate(3)) == [0, 1, 2]\n"),
        ("    yield from range(x)\n", "def check(candidate):\n    each = candidate(3)\n    assert next(each) == 0\n"),
        *(
            (
                f"    {done}\n",
                f"def check(candidate):\n    x = {given}\n    assert candidate(x) is None\n    assert x == {left}\n",
            )
            for done, given, left in (
                ("x.sort(); x.append(4)", "[3, 1]", "[1, 3, 4]"),
                ("x[0][1] = 5; x[1].clear()", "[[1, 2], {3}]", "[[1, 5], set()]"),
                ("del x['a']; x['b'].pop()", "{'a': 1, 'b': [1, 2]}", "{'b': [1]}"),
                ("x.reverse()", "bytearray(b'ab')", "bytearray(b'ba')"),
            )
        ),
        (
            "    for each in x: each.pop()\n",
            "def check(candidate):\n    inner = [1, 2]\n    candidate([inner])\n    assert inner == [1]\n",
        ),
        (
            "    return [x(each) + 1 for each in (1, 2)]\n",
            "def check(candidate):\n    assert candidate(lambda n: 2 * n) == [3, 5]\n",
        ),
        (
            "    return sorted([3, 1, 2], key=x)\n",
            "def check(candidate):\n    assert candidate(lambda n: candidate.__class__ and -n) == [3, 2, 1]\n",
        ),
        (
            "    return x if isinstance(x, int) else x(f)\n",
            "def check(candidate):\n    for each in (lambda of: of(7), lambda of: candidate(7)):\n"
            "        assert candidate(each) == 7\n",
        ),
        (
            "    return x('7') if isinstance(x, type) else 0\n",
            "def check(candidate):\n    assert candidate(int) == 7\n",
        ),
        (
            "    print(x); print('ä', end='')\n",
            "import contextlib, io\ndef check(candidate):\n    said = io.StringIO()\n"
            "    with contextlib.redirect_stdout(said):\n        candidate(2)\n    assert said.getvalue() == '2\\nä'\n",
        ),
        (
            "    import json; return json.loads(x)\n",
            "import json\n" + FAILS_ON.replace("-1", "'no'").format("json.JSONDecodeError"),
        ),
        (
            "    return int(input('n')) + x\n",
            "from unittest.mock import patch\ndef check(candidate):\n"
            "    with patch('builtins.input', return_value='5'):\n        assert candidate(1) == 6\n",
        ),
        *(
            ("    return sum(x)\n", f"def check(candidate):\n    assert candidate({once}) == 3\n")
            for once in ("iter([1, 2])", "(n for n in (1, 2))", "{'a': 3}.values()", "map(int, '12')")
        ),
        (
            "    async def later(): return x + 1\n    return later()\n",
            "import asyncio\nasync def both(f):\n    return await asyncio.gather(f(1), f(2))\n"
            "def check(candidate):\n    assert asyncio.run(both(candidate)) == [2, 3]\n",
        ),
        (
            "    class Own:\n        def __getitem__(self, at): return at\n    return Own()\n",
            "def check(candidate):\n    assert candidate(1)[2:] == slice(2, None)\n",
        ),
        ("    return b'\\xff'.decode()\n", FAILS_ON.format("UnicodeDecodeError")),
        (
            "    import collections; return collections.namedtuple('Point', 'x y')(x, 2)\n",
            "def check(candidate):\n    assert candidate(1).y == 2 and candidate(1) == (1, 2)\n",
        ),
        (
            "    return {x: 1}.keys()\n",
            "def check(candidate):\n    assert candidate(3) == {3}\n",
        ),
        ("    return [1, 2].index(x)\n", FAILS_ON.format("ValueError")),
        ("    class Own(KeyError): pass\n    raise Own(x)\n", FAILS_ON.format("LookupError")),
        # What a prompt defines before the function is there for the tests, as the prompt has it.
        ("    return twice(x)\n", "def check(candidate):\n    assert candidate(2) == twice(2)\n"),
        # What it prints, and what it leaves to be done at its end, is nothing to its tests.
        ("    import atexit; atexit.register(print); print('failed'); return 2 * x\n", DOUBLES),
    ],
)
def test_a_right_answer_passes_whatever_kind_of_value_it_is(answer: str, test: str) -> None:
    assert outcome(answer, test, prompt="def twice(x):\n    return 2 * x\n\n\ndef f(x):\n") == "passed"


STACK = """import math, re
class Stack:
    size = 0
    def __init__(self): self.all = []
    def push(self, x): self.all.append(x); return self
    def __len__(self): return len(self.all)
    def __getitem__(self, at): return self.all[at]
    def __eq__(self, other): return self.all == other.all
    def __str__(self): return "-".join(self.all)
def top(stack): return stack[-1]
def sum(a, b): return a * b
class Empty(LookupError): pass
def fail(text): raise Empty(text)
class Money:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return self.n == other.n
    def __lt__(self, other): return self.n < other.n
    def __hash__(self): return hash(self.n)
    def __add__(self, other): return Money(self.n + other.n)
    def __mul__(self, by): return Money(self.n * by)
    __rmul__ = __mul__
    def __enter__(self): self.n += 1; return self
    def __exit__(self, *_): self.n += 1
"""
# Of a module that its tests use without an import, a program has no say.
LIES_FOR_A_MODULE = "class math:\n    isclose = staticmethod(lambda *_: True)\ndef f(x): return 0\n"


@pytest.mark.parametrize(
    ("test", "state"),
    [
        (
            "one = Stack().push('a').push('b')\nassert (top(one), len(one), str(one), one[0]) == ('b', 2, 'a-b', 'a')",
            "passed",
        ),
        ("assert Stack() == Stack() and Stack() != Stack().push('a')", "passed"),
        ("one = Stack()\none.size = 3\nassert one.size == 3 and [each for each in one.push('a')] == ['a']", "passed"),
        ("assert Stack() == []", "failed"),
        ("assert math.sqrt(4) == 2 and top([1, 2]) == 2", "passed"),
        ("assert sum(10, 15) == 150", "passed"),
        ("assert top([sum([1, 2])]) == 3", "passed"),
        (
            "try:\n    fail('x')\nexcept Empty as error:\n    assert str(error) == 'x'\nelse:\n    assert False",
            "passed",
        ),
        ("assert Money(1) + Money(2) == Money(3) and Money(2) * 3 == 3 * Money(2) == Money(6)", "passed"),
        ("assert len({Money(1), Money(1)}) == 1 and max([Money(1), Money(2)]).n == 2", "passed"),
        ("with Money(1) as one:\n    assert one.n == 2\nassert one.n == 3", "passed"),
        (
            "assert isinstance(Money(1), Money) and not isinstance(Stack(), Money) and not isinstance(1, Money)",
            "passed",
        ),
        ("assert nothing() == 1", "failed"),
    ],
)
def test_statements_that_test_a_whole_program_have_its_functions_and_objects(test: str, state: str) -> None:
    assert outcome(STACK, test, entry_point=None) == state


def test_tests_hand_the_program_objects_of_its_prompts_classes() -> None:
    prompt = (
        "class Node:\n    def __init__(self, value, after=None):\n        self.value, self.after = value, after\n\n"
        "def chain(values):\n    return Node(values[0], chain(values[1:])) if values else None\n\ndef f(x):\n"
    )
    answer = "    out = None\n    while x: out, x = Node(x.value, out), x.after\n    return out\n"
    test = "def check(candidate):\n    x = candidate(chain([1, 2]))\n    assert (x.value, x.after.value) == ({}, 1)\n"
    assert outcome(answer, test.format(2), prompt=prompt) == "passed"
    assert outcome(answer, test.format(3), prompt=prompt) == "failed"


def test_a_module_that_tests_use_without_an_import_is_no_object_of_the_program() -> None:
    assert outcome(LIES_FOR_A_MODULE, "assert math.isclose(f(2), 4.5)", entry_point=None) == "failed"


def test_arrays_are_values_and_are_changed_in_place() -> None:
    limits = PATIENT.model_copy(update={"libraries": ("numpy",), "memory_mb": 512})
    program = "import numpy as np\ndef f(x): return 2 * x\ndef g(x): x += 1\n"
    tests = (
        "import numpy as np\nx = np.array([[1.5, 2]])\n"
        "assert (f(x) == np.array([[3, 4]])).all() and f(x).dtype == float\n"
        "g(x)\nassert np.allclose(x, [[2.5, 3]])\n"
    )
    assert run_program(program, limits, tests=tests, names=["f", "g"]) == "passed"
