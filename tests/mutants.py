"""Every small mistake that could be made in a Python source, one at a time.

Mutated: comparison operators (each to all others of its family), + and -, * and //, ** to *, signs,
integers by one, True and False, and/or, each operand of these, `not`, conditions to True and to
False, min and max, `sorted` and `abs`, single statements (removed; a `return` to None). Left alone:
docstrings, annotations and string literals (text for people), imports, fields of a NamedTuple.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any, NamedTuple

ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
FAMILIES: tuple[tuple[type[ast.cmpop], ...], ...] = (
    ORDER,
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
)
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
}
SWAPPED = {"min": "max", "max": "min"}
REMOVABLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Continue, ast.Break, ast.Raise)


class Mutant(NamedTuple):
    """One changed program: where and what, and its code."""

    line: int
    change: str
    code: CodeType


def load(code: CodeType) -> ModuleType:
    """Run a module's code; gives the module."""
    module = ModuleType("mutant")
    exec(code, module.__dict__)
    return module


def survivors(
    source: str, dies: Callable[[ModuleType], bool], equivalent: Mapping[str, str]
) -> tuple[list[str], int]:
    """List the mutants that nothing notices, those known to be equivalent apart; and count all.

    ``equivalent`` holds what leaves the program what it is, with the reason: ``line  :  change``,
    or a line, of which all changes do.
    """
    found = []
    number = 0
    lines = source.splitlines()
    for mutant in mutants(source):
        number += 1
        try:
            module = load(mutant.code)
        except Exception:  # dead at import
            continue
        line = lines[mutant.line - 1].strip()
        if not {
            mutant.change,
            line,
            f"{line}  :  {mutant.change}",
        } & equivalent.keys() and not dies(module):
            found.append(f"line {mutant.line}: {line}  :  {mutant.change}")
    return found, number


def endless_loops(source: str) -> list[str]:
    """Name what could make a mutant run forever: ``while`` loops and recursion."""
    tree = ast.parse(source)
    found = [f"line {node.lineno}: while" for node in ast.walk(tree) if isinstance(node, ast.While)]
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            if function.name in names:
                found.append(f"line {function.lineno}: {function.name}")
    return found


def mutants(source: str, filename: str = "mutant.py") -> Iterator[Mutant]:
    """Compile each mutant of a source, in the order of the syntax tree."""
    tree = ast.parse(source)
    for parent, field, index, node in _places(tree):
        for replacement in _replacements(node):
            line = getattr(node, "lineno", getattr(parent, "lineno", 0))
            ast.fix_missing_locations(ast.copy_location(replacement, node))
            before, after = _text(node), _text(replacement)
            _put(parent, field, index, replacement)
            code = compile(tree, filename, "exec", dont_inherit=True)
            yield Mutant(line, f"{before}  ->  {after}", code)
            _put(parent, field, index, node)


def _places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """All nodes that may change, each with its parent and its place there."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or isinstance(child, ast.Import | ast.ImportFrom):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue  # a docstring
            yield node, field, index if isinstance(value, list) else None, child
            yield from _places(child)


def _put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                for other in next(family for family in FAMILIES if type(op) in family):
                    if other is not type(op):
                        yield _changed(node, ops=[*ops[:index], other(), *ops[index + 1 :]])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in ARITHMETIC:
            yield _changed(node, op=ARITHMETIC[type(op)]())
        case ast.BoolOp(op=op, values=values):
            yield _changed(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
            for index in range(len(values)):
                rest = values[:index] + values[index + 1 :]
                yield _changed(node, values=rest) if rest[1:] else copy.deepcopy(rest[0])
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield copy.deepcopy(operand)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Call(func=ast.Name(id=name)) if name in SWAPPED:
            yield _changed(node, func=ast.Name(SWAPPED[name], ast.Load()))
        case ast.Call(func=ast.Name(id="sorted"), args=[first, *_]):
            yield _changed(node, func=ast.Name("list", ast.Load()), args=[first], keywords=[])
        case ast.Call(func=ast.Name(id="abs"), args=[first]):
            yield copy.deepcopy(first)
        case ast.Return(value=ast.Constant(value=None)):
            yield ast.Return(ast.Constant(0))
        case ast.Return(value=value) if value is not None:
            yield ast.Return(None)
    if isinstance(node, ast.If | ast.IfExp):
        yield from (_changed(node, test=ast.Constant(to)) for to in (True, False))
    if isinstance(node, ast.comprehension) and node.ifs:
        yield from (_changed(node, ifs=[ast.Constant(to)]) for to in (True, False))
    declaration = isinstance(node, ast.AnnAssign) and node.value is None
    if isinstance(node, REMOVABLE) and not declaration:
        yield ast.Pass()
    if isinstance(node, ast.Return) and node.value is None:
        yield ast.Pass()


def _changed(node: ast.AST, **fields: Any) -> ast.AST:
    result = copy.copy(node)
    for name, value in fields.items():
        setattr(result, name, value)
    return result


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.comprehension):
        return " ".join(f"if {ast.unparse(test)}" for test in node.ifs)
    return ast.unparse(node).splitlines()[0]
