"""Numbers of things in words, with the right plural. No imports: every command may need it."""


def count_text(number: int, noun: str, plural: str = "") -> str:
    """Return `1 pod`, `1,503 cgroups`.

    Args:
        number: how many.
        noun: of one.
        plural: of several, if it is not the noun with an s.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
