"""Every piece of work has exactly one owner: libtenure for Python, by ctypes, without a compiler.

    with LeaderElection("daily-report") as election:     # one-shot: one replica gets in
        if election.is_leader:
            generate_report(fence=election.token)

    @leader_only("aggregation")                           # the same, for a function; async ones, too
    def aggregate(): ...

    with LeaseManager(targets=["s1", "s2"]) as manager:   # one instance of a fleet
        with manager.work("s1") as token: ...

    with Client() as client, client.acquire("job-1") as lease: ...
"""

from ._client import Client, Info, Lease
from ._election import LeaderElection, leader_only
from ._errors import Denied, Held, Lost, Stale, TenureError, Unreachable
from ._guard import Guard
from ._manager import Event, LeaseInfo, LeaseManager, LeaseState
from ._native import library_version

__all__ = [
    "Client", "Denied", "Event", "Guard", "Held", "Info", "LeaderElection", "Lease", "LeaseInfo", "LeaseManager",
    "LeaseState", "Lost", "Stale", "TenureError", "Unreachable", "leader_only", "library_version",
]
__version__ = "0.1.0"
