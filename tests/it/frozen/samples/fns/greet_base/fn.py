"""Greets whoever calls."""


def fn(body, headers):
    name = (body or "").strip() or "world"
    return f"Hello, {name}!\n"
