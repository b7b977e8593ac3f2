"""``python -m bandfall``."""

from bandfall._cli.main import main

if __name__ == "__main__":
    main()
