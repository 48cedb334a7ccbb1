"""``python -m mqstore``: the command line."""

from mqstore.cli.main import main

main()
