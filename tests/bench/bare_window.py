"""Opens the window as the program does and never starts its worker; prints its memory; run as a process."""

import json
import sys
import tempfile
from pathlib import Path
from typing import get_args


def main() -> None:
    """Show every page once; one line of JSON: bytes at the first paint, and after the pages."""
    from PySide6.QtWidgets import QApplication

    from attnscope.app import Program, make_application
    from attnscope.crash import CrashLog
    from attnscope.settings import Settings, StartOptions
    from attnscope.viewmodels import Page
    from bench.resident import own_bytes, resident_bytes

    make_application()
    with tempfile.TemporaryDirectory(prefix="attnscope-bench-") as folder:
        program = Program(
            settings=Settings(),
            crash_log=CrashLog(Path(folder)),
            options=StartOptions(source=""),
            is_remembering=False,
        )
        program.window.removeEventFilter(program)  # the first paint would start the worker
        program.window.resize(1280, 800)
        program.show()
        QApplication.processEvents()
        program.window.repaint()
        shared, own = own_bytes()
        found = {"rss": resident_bytes(), "pss": shared, "uss": own, "has_torch": "torch" in sys.modules}
        for page in get_args(Page):
            program.window.view.show_page(page)
            QApplication.processEvents()
        found["rss_after_pages"] = resident_bytes()
        program.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
