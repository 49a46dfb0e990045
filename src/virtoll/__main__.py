"""``python -m virtoll``: the command line."""

from virtoll.cli import main

if __name__ == "__main__":
    main()
