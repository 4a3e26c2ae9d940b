"""Which fault is when, from a seed. Faults are dealt from shuffled decks, so that each kind comes before any comes again.

There are four lanes, and within a lane one fault is over, and its host is well again, before the next begins: two lanes of
two hosts each, so that at any time two hosts are well and can take over; one of the store; and one of operators.
"""
import random

from harm import KINDS

WELL_S = 1.2  # until a host that was hit has joined again
OPERATIONS = {"drained": (0.8, 1.5), "target-added": (1.5, 2.5), "forced": None}
NAMES = "abcd"


class Planned:
    def __init__(self, at_s, lane, kind, who, lasts_s):
        self.at_s, self.lane, self.kind, self.who, self.lasts_s = at_s, lane, kind, who, lasts_s

    def __repr__(self):
        return f"{self.at_s:.2f} {self.lane} {self.kind} {self.who} {self.lasts_s:.2f}"


class Deck:
    def __init__(self, dice, cards):
        self.dice, self.cards, self.left = dice, list(cards), []

    def deal(self):
        if not self.left:
            self.left = self.dice.sample(self.cards, len(self.cards))
        return self.left.pop()


def length(dice, lasts, ttl_s):
    return dice.uniform(*lasts) * ttl_s if lasts else 0.0


def host_kinds(store, names, from_file):
    """Kinds with the host that they are for, if that is a certain one."""
    cards = []
    for kind, what in KINDS.items():
        if what.needs == "proxies" and not store.addresses():
            continue
        if what.needs == "file" and not from_file:
            continue
        if what.needs == "clock":
            cards += [(kind, "d")] if "d" in names else []
        elif what.needs == "rate":
            cards += [(kind, "c")] if "c" in names and not store.shares_boot_clock else []
        else:
            cards.append((kind, None))
    return cards


def host_lane(dice, store, names, seconds, ttl_s, from_file):
    deck, at_s = Deck(dice, host_kinds(store, names, from_file)), dice.uniform(0, 1)
    while True:
        kind, who = deck.deal()
        lasts_s = length(dice, KINDS[kind].lasts, ttl_s)
        if at_s + lasts_s > seconds:
            return
        yield Planned(at_s, "host", kind, who or dice.choice(names), lasts_s)
        at_s += lasts_s + WELL_S + dice.uniform(0.0, 0.6) * ttl_s


def store_lane(dice, store, seconds, ttl_s):
    deck, at_s = Deck(dice, store.harms), dice.uniform(1, 2)
    while True:
        kind = deck.deal()
        lasts_s = length(dice, store.harms[kind], ttl_s)
        if at_s + lasts_s > seconds:
            return
        yield Planned(at_s, "store", kind, "", lasts_s)
        at_s += lasts_s + dice.uniform(1.2, 2.2) * ttl_s + store.pause_s


def operator_lane(dice, targets, seconds, ttl_s):
    deck, at_s, number = Deck(dice, OPERATIONS), dice.uniform(0.5, 1.5), 0
    while True:
        kind = deck.deal()
        lasts_s = length(dice, OPERATIONS[kind], ttl_s)
        if at_s + lasts_s > seconds:
            return
        number += 1
        who = {"drained": dice.choice(NAMES), "target-added": f"extra-{number}", "forced": dice.choice(targets)}[kind]
        yield Planned(at_s, "operator", kind, who, lasts_s)
        at_s += lasts_s + dice.uniform(0.8, 1.6) * ttl_s


def make(seed, store, settings, seconds):
    ttl_s, from_file, targets = settings.ttl_ms / 1000, settings.from_file, settings.targets
    dice = random.Random(seed)
    planned = [*host_lane(dice, store, NAMES[:2], seconds, ttl_s, from_file),
               *host_lane(dice, store, NAMES[2:], seconds, ttl_s, from_file),
               *store_lane(dice, store, seconds, ttl_s), *operator_lane(dice, targets, seconds, ttl_s)]
    return sorted(planned, key=lambda each: each.at_s)
