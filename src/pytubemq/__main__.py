"""`python -m pytubemq` is the command `pytubemq`."""

from pytubemq.cli import main

if __name__ == "__main__":
    main()
