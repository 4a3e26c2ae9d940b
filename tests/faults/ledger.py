"""Reads what the recorders wrote (ledger_client.c), and judges it: each target's history by linear.py, and here, that no two
believed in a lease of one target at the same time."""
import glob

from linear import FOREVER, Operation, check


def read(directory):
    """{target: operations}. What was invoked and never answered, because its client was killed, is unknown. Each start of a
    recorder has a file of its own, whose last line is incomplete if it was killed in the middle of it."""
    history = {}
    for path in sorted(glob.glob(f"{directory}/*.ledger")):
        invoked = {}
        with open(path, encoding="ascii") as log:
            for line in log:
                if not line.endswith("\n"):
                    break
                words = line.split()
                if len(words) != 9:
                    raise SystemExit(f"{path}: not a line of a recorder: {line!r}")
                at, client, number, event, kind, target, token, until, holder = words
                if event == "invoke":
                    operation = Operation(client, kind, "unknown", int(token), None, int(at), FOREVER, int(until))
                    invoked[client, number] = operation
                    history.setdefault(target, []).append(operation)
                    continue
                operation = invoked.pop((client, number))
                operation.event, operation.until_after = event, int(until)
                operation.token = operation.token or int(token)
                operation.holder = None if holder == "-" else holder
                if event != "unknown":
                    operation.answered = int(at)
                else:
                    operation.token = operation.token if kind != "acquire" else 0
    return history


class Belief:
    def __init__(self, client, token, begin, end):
        self.client, self.token, self.begin, self.end = client, token, begin, end


def beliefs(operations):
    """Stretches of time in which a client believed, each from an answer to the earliest of: the deadline that the client knew
    then, the invocation of its release, the answer that the lease is lost. A client that was stopped hears and tells of
    things long after their time: an answer never makes a belief longer than its deadline, and a belief whose deadline had
    passed when it was written down counts for nothing. A client does one operation at a time: their order is certain."""
    result, current = [], {}
    for operation in sorted(operations, key=lambda each: each.invoked):
        belief = current.get(operation.client)
        mine = belief is not None and belief.token == operation.token
        if operation.event == "ok" and (operation.kind == "acquire" or (operation.kind == "renew" and mine)):
            if operation.kind == "renew" and operation.answered <= belief.end:
                # Not the later of the two deadlines: the new term may be a shorter one. 0: it was over at once.
                belief.end = operation.until_after or operation.answered
                continue
            belief = Belief(operation.client, operation.token, operation.answered, operation.until_after)
            current[operation.client] = belief
            result.append(belief)
        elif operation.kind == "renew" and operation.event == "lost" and mine:
            belief.end = min(belief.end, operation.answered)
        elif operation.kind == "release" and mine:
            belief.end = min(belief.end, operation.invoked)
    return sorted((belief for belief in result if belief.begin < belief.end), key=lambda belief: belief.begin)


def overlaps(target, operations):
    problems, last = [], None
    for belief in beliefs(operations):
        if last and belief.begin < last.end and belief.client != last.client:
            problems.append(f"{target}: {last.client} believed in token {last.token} until {last.end // 1000}, and "
                            f"{belief.client} in token {belief.token} from {belief.begin // 1000} on")
        if not last or belief.end > last.end:
            last = belief
    return problems


def lower_tokens(target, operations):
    """Tokens in the order in which they were granted, as far as that is known."""
    problems, highest = [], None
    granted = [each for each in operations if each.kind == "acquire" and each.event == "ok"]
    for operation in sorted(granted, key=lambda each: each.invoked):
        if highest and highest.answered < operation.invoked and operation.token < highest.token:
            problems.append(f"{target}: token {operation.token} of {operation.client} was granted after {highest.token}")
        if not highest or operation.token > highest.token:
            highest = operation
    return problems


class Judgement:
    def __init__(self):
        self.problems = []
        self.operations = self.unknown = self.grants = self.refusals = self.beliefs = 0


def judge(directory, settings, fired):
    result, store, ttl_us = Judgement(), settings.store, settings.ttl_ms * 1000
    longest_us = max([(fault.end_us or fault.at_us) - fault.at_us for fault in fired if fault.lane != "operator"], default=0)
    # A proxy may have kept a request for as long as its fault lasted; then it may have waited for the store.
    horizon_us = longest_us + 2 * ttl_us + 2_000_000
    forgets = [(fault.at_us, (fault.end_us or fault.at_us) + 2 * ttl_us + store.recovers_ms * 1000 + 2_000_000)
               for fault in fired if fault.lane == "store" and fault.kind in (*store.forgetful, *store.renewing)]
    for target, operations in sorted(read(directory).items()):
        result.operations += sum(each.event != "unknown" for each in operations)
        result.unknown += sum(each.event == "unknown" for each in operations)
        result.grants += sum(each.kind == "acquire" and each.event == "ok" for each in operations)
        result.refusals += sum(each.event == "held" for each in operations)
        result.beliefs += len(beliefs(operations))
        result.problems += overlaps(target, operations) + lower_tokens(target, operations)
        result.problems += check(target, operations, ttl_us, horizon_us, store.may_lag_ms * 1000 + 300_000, forgets)
    return result
