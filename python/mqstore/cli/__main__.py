"""``python -m mqstore.cli``."""

from mqstore.cli.main import main

main()
