"""A row's formulas: Python expressions of a call's sizes, fields and numbers.

A formula contains size letters, names of fields and values, numbers, + - * /, comparisons, `a if
test else b`, min, max, log and sqrt. lib/instance evaluates it in double.
"""

import ast
import math

FUNCTIONS = {"min": min, "max": max, "log": math.log, "sqrt": math.sqrt}
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
COMPARISONS = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="
}


def parsed(text):
    return ast.parse(text, mode="eval").body


def names(text):
    """Returns the sizes, fields and values that a formula reads."""
    found = [node.id for node in ast.walk(parsed(text)) if isinstance(node, ast.Name)]
    return set(found) - set(FUNCTIONS)


def evaluate(text, values):
    """Returns a formula's value. `values`: numbers by name."""
    return eval(text, {"__builtins__": {}, **FUNCTIONS}, values)


def condition(node):
    """Returns a test as a C++ expression."""
    return number(node) if isinstance(node, ast.Compare) else f"{number(node)} != 0"


def number(node):
    """Returns a part of a formula as a C++ expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return repr(float(node.value))
    if isinstance(node, ast.Name):
        return f'n("{node.id}")'
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return f"({number(node.left)} {OPERATORS[type(node.op)]} {number(node.right)})"
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        symbol = COMPARISONS[type(node.ops[0])]
        return f"({number(node.left)} {symbol} {number(node.comparators[0])})"
    if isinstance(node, ast.IfExp):
        return f"({condition(node.test)} ? {number(node.body)} : {number(node.orelse)})"
    if isinstance(node, ast.Call) and node.func.id in FUNCTIONS and not node.keywords:
        return f"std::{node.func.id}({', '.join(map(number, node.args))})"
    raise ValueError(f"a formula cannot contain {ast.unparse(node)}")


def cpp(text):
    """Returns a C++ lambda with the parameter `n`, a function from names to numbers, or nullptr
    without a formula."""
    if not text:
        return "nullptr"
    parameter = "const Numbers& n" if names(text) else "const Numbers&"
    return f"[]({parameter}) -> double {{ return {number(parsed(text))}; }}"
