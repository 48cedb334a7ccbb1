"""Where what is made from a store may go: not into the store."""

import os
from pathlib import Path

from mqstore.option_error import bad_argument
from mqstore.options import StoreOptions
from mqstore.store.byte_ranges import resolved

__all__ = ["refuse_inside"]

_DERIVED = ("consumequeue", "consumequeue_ext", "index")


def refuse_inside(name: str, given: str | os.PathLike[str], options: StoreOptions) -> None:
    """Refuses a folder within a store, in its log's folders wherever those lie, and where links in it lead to.

    Opening the store would meet it.

    Args:
        name: The argument that names it.
        given: What that says.
        options: The store's.

    Raises:
        OptionError: it is in one of them.
    """
    real = Path(resolved(given))
    root = Path(os.path.realpath(options.store_path_root_dir))
    if root in real.parents:
        raise bad_argument(name, str(given), f"expected a folder outside of {root}, which is the store itself")
    derived = (str(root / folder) for folder in _DERIVED)
    for folder in (*options.log_folders(), *derived):
        if Path(os.path.realpath(folder)) in (real, *real.parents):
            raise bad_argument(name, str(given), f"expected a folder outside of {folder}, which is a part of the store")
