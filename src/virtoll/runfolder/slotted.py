"""What records are made of that a run has thousands of: a slot a field takes half the memory of a dictionary."""


class Slotted:
    """Base of records with `slots=True`; their `__dict__` is for keys that no field declares (`Answered`)."""

    __slots__ = ("__dict__",)
