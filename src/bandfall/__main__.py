"""``python -m bandfall``."""

from bandfall.cli import main

if __name__ == "__main__":
    main()
