"""The experiments of the labs: a file for each, which says what question it answers."""

from importlib import import_module

from attnscope.schemes.registry import module_names
from attnscope.workers.experiments.experiment import work_on

for _name in module_names(__name__):
    import_module(f"{__name__}.{_name}")

__all__ = ["work_on"]
