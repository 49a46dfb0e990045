"""The version of Virtoll, which everything may import."""

from typing import Final

__version__: Final = "0.1.0"
