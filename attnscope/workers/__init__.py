"""The bridge: the only place where the window and the engine meet, on one thread."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.workers.engine import BackgroundJobs, Engine, StepsJob, TrainingJob
    from attnscope.workers.fetch_desk import NEWS_EVERY_S, FetchDesk
    from attnscope.workers.mailbox import IDLE_S, Mailbox, RateLimit
    from attnscope.workers.serve_measuring import batch_size, ranking_runs, run_cost, samples_asked
    from attnscope.workers.serve_tiles import HeadTiles, TileServer
    from attnscope.workers.threads import *
    from attnscope.workers.views import N_CHECKPOINTS_KEPT, Views
else:
    __getattr__, __dir__ = door_of(__name__)
