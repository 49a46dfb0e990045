"""Text that a terminal may get. Main function: ``printable``."""

import unicodedata


def printable(text: str) -> str:
    """A text as a terminal may get it: letters that would steer one are written out ('\\x1b'); lines stay lines."""
    if text.isprintable():  # as nearly all are
        return text
    return "".join(
        letter if letter == "\n" or unicodedata.category(letter)[0] != "C" else letter.encode("unicode_escape").decode()
        for letter in text
    )
