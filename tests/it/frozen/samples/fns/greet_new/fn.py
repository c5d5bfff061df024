"""Greets whoever calls, with the length of the name."""


def fn(body, headers):
    name = (body or "").strip() or "world"
    return f"Hello, {name}! Your name has {len(name)} letters.\n"
