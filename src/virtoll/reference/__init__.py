"""What the studies published, as data that the package carries; `published` reads it."""
