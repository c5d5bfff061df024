"""Carries out each call of /@NAME@. The body comes as text (None where it is empty), the headers by their names."""


def fn(body, headers):
    name = (body or "").strip() or "world"
    return f"Hello, {name}!@MORE@\n"
