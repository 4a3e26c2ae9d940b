"""At most one owner for every piece of work: libtenure for Python, by ctypes, without a compiler.

    with Context() as context, context.acquire("job-1") as lease: ...   # renewed until the block is left

    with Context() as context, Member(context, ["s1", "s2"]) as member:   # one instance of a fleet
        with member.work("s1") as token: ...

    with LeaderElection("daily-report") as election:     # one-shot: one replica gets in
        if election.is_leader:
            generate_report(fence=election.token)

    @leader_only("aggregation")                           # the same, for a function; async ones, too
    def aggregate(): ...

tenure.aio has contexts, leases and elections for asyncio, without a thread.
"""

from ._context import Context, Event, Info, Lease
from ._election import Election, LeaderElection, leader_only
from ._errors import Cancelled, Denied, Held, Lost, Stale, TenureError, Unreachable
from ._guard import Guard
from ._member import LeaseManager, Member, MemberInfo, MemberState
from ._native import library_version

LeaseInfo = MemberInfo
LeaseState = MemberState

__all__ = [
    "Cancelled", "Context", "Denied", "Election", "Event", "Guard", "Held", "Info", "LeaderElection", "Lease",
    "LeaseInfo", "LeaseManager", "LeaseState", "Lost", "Member", "MemberInfo", "MemberState", "Stale", "TenureError",
    "Unreachable", "leader_only", "library_version",
]
__version__ = "0.3.0"
