"""SQL92 filters beside the broker's own."""

import json
import random
from pathlib import Path

import mqstore
from tests.compat.java_store import JavaStore

EXPRESSIONS = 4000
NAMES = ["a", "b", "price", "_x$1", "region", "missing"]
VALUES = [
    "0", "1", "-1", "5", "+5", "5.0", "5.5", "05", "1e2", ".5", "5.", "abc", " 5", "5 ", "NaN", "-Infinity", "true",
    "TRUE", "false", "9223372036854775807", "9223372036854775808", "2147483648", "x'y", "值", "5f", "5d", "1e400", "-0",
    "-0.0", "0.0", "inf",
]  # fmt: skip
CONSTANTS = [
    "0", "1", "5", "05", "5L", "5.0", "5.5", ".5", "5.", "1e2", "1E-2", "'5'", "'abc'", "''", "'x''y'", "'值'", "TRUE",
    "false", "NULL", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "0.0", "1e999", "1e-999",
]  # fmt: skip
JUNK = [
    "#", "a b", ")", "(", "--", "-- x\n", "/* y */", "/*", "'", "NOT", "IS", "5a", "==", "!=", "AND", "1 2", ";", ",",
]  # fmt: skip
TEXTS = ["'5'", "'abc'", "'x''y'", "'值'"]


class Grammar:
    """Makes up expressions: most are right, some nearly."""

    def __init__(self, seed: int) -> None:
        """The same seed gives the same expressions."""
        self._rnd = random.Random(seed)

    def expression(self, depth: int = 0) -> str:
        """An expression."""
        if self._rnd.random() < 0.02:
            return self._rnd.choice(JUNK)
        simple = [self._is_null, self._between, self._in, self._operand, *[self._comparison] * 4]
        if depth < 4 and self._rnd.random() < 0.3:
            return self._nested(depth + 1)
        return self._rnd.choice(simple)()

    def _nested(self, depth: int) -> str:
        inner = self.expression(depth)
        return self._rnd.choice(
            [
                f"{inner} {self._case('AND')} {self.expression(depth)}",
                f"{inner} {self._case('OR')} {self.expression(depth)}",
                f"({inner})",
                f"{self._case('NOT')} {inner}",
            ]
        )

    def _is_null(self) -> str:
        return f"{self._operand()} {self._case('IS')} {self._maybe_not()}{self._case('NULL')}"

    def _between(self) -> str:
        between = f"{self._maybe_not()}{self._case('BETWEEN')} {self._operand()} {self._case('AND')}"
        return f"{self._operand()} {between} {self._operand()}"

    def _in(self) -> str:
        texts = ",".join(self._rnd.choice(TEXTS) for _ in range(self._rnd.randint(1, 7)))
        return f"{self._operand()} {self._maybe_not()}{self._case('IN')} ({texts})"

    def _comparison(self) -> str:
        operator = self._rnd.choice(["=", "<>", ">", ">=", "<", "<="])
        space = self._rnd.choice(["", " ", "\n", "\t", "/* c */", "-- c\n"])
        return f"{self._operand()}{space}{operator}{space}{self._operand()}"

    def properties(self) -> dict[str, str]:
        """A message's properties."""
        return {name: self._rnd.choice(VALUES) for name in NAMES[:-1] if self._rnd.random() < 0.8}

    def _operand(self) -> str:
        sign = self._rnd.choice(["", "", "", "", "-", "+", "- -"])
        return sign + self._rnd.choice(NAMES if self._rnd.random() < 0.6 else CONSTANTS)

    def _maybe_not(self) -> str:
        return self._rnd.choice(["", "", f"{self._case('NOT')} "])

    def _case(self, word: str) -> str:
        return self._rnd.choice([word, word.lower(), word.title()])


def ours(expression: str, properties: list[dict[str, str]], *, compat: bool) -> list[bool] | None:
    """Whether each passes; ``None`` where the expression is none."""
    try:
        compiled = mqstore.SqlFilter(expression, compat=compat)
    except mqstore.OptionError:
        return None
    return [compiled.matches(one) for one in properties]


def test_filters_decide_as_the_brokers(java: JavaStore, tmp_path: Path, seed: int) -> None:
    grammar = Grammar(seed)
    asked = [(grammar.expression(), [grammar.properties() for _ in range(6)]) for _ in range(EXPRESSIONS)]
    lines = [json.dumps({"expression": expression, "properties": properties}) for expression, properties in asked]
    answers = [json.loads(line) for line in java.run("filter", tmp_path, {}, lines)]
    assert len(answers) == len(asked)
    for (expression, properties), answer in zip(asked, answers, strict=True):
        found = ours(expression, properties, compat=True)
        assert found == answer, (expression, properties)
        assert ours(expression, properties, compat=False) in (None, found), expression
    assert sum(answer is None for answer in answers) > EXPRESSIONS / 20
    assert sum(bool(answer and any(answer)) for answer in answers) > EXPRESSIONS / 20


def test_what_follows_an_expression_is_passed_over_by_java_alone(java: JavaStore, tmp_path: Path) -> None:
    line = json.dumps({"expression": "a = 1 b = 2", "properties": [{"a": "1"}]})
    assert java.run("filter", tmp_path, {}, [line]) == ["[true]"]
    assert ours("a = 1 b = 2", [{"a": "1"}], compat=True) == [True]
    assert ours("a = 1 b = 2", [{"a": "1"}], compat=False) is None


def test_numbers_that_java_alone_reads(java: JavaStore, tmp_path: Path) -> None:
    properties = [{"a": "0x1p3"}, {"a": "\u0668"}]
    lines = [json.dumps({"expression": text, "properties": properties}) for text in ("a > 1.5", "a = 8")]
    assert java.run("filter", tmp_path, {}, lines) == ["[true,false]", "[false,true]"]
    assert ours("a > 1.5", properties, compat=True) == [False, False]
    assert ours("a = 8", properties, compat=True) == [False, False]
