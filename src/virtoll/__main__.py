"""``python -m virtoll``: the command line."""

from virtoll import main

if __name__ == "__main__":
    main()
