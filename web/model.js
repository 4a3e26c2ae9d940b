// What the page knows of one namespace: targets, instances, changes; and what state each target is in. No requests and no
// elements: told what came, asked what to show. Used by app.js and whatever draws.
import { serverNow } from './api.js';
import { shortName } from './dom.js';

export const states = {
  held: 'Held',
  unowned: 'Unowned',
  moving: 'Moving',
  paused: 'Paused',
  free: 'Free',
};
const flappingMs = 5 * 60 * 1000;
const flappingTimes = 3;
const departedMs = 10 * 60 * 1000;
const plannedEnds = new Set(['drain', 'shutdown', 'resigned', 'done', 'removed']); // what follows is no flapping
const changesMax = 10000;

// A candidate has no share of a plan: it leads, or stands by.
export function roleText({ role, lock, held, draining }) {
  if (draining) return held ? `steps down from ${role}` : `is no candidate for ${role} while it is drained`;
  if (lock) return `${held ? 'holds' : 'waits for'} ${role}`;
  return `${held ? 'leads' : 'stands by for'} ${role}`;
}

export class Model {
  constructor(namespace) {
    this.namespace = namespace;
    this.rows = new Map(); // by id
    this.instances = new Map();
    this.moving = new Map(); // target → whom it is planned for, of those that another holds
    this.changes = []; // oldest first
    this.takings = new Map(); // target → when its holder changed, lately
    this.lastEnds = new Map(); // target → {instance, reason} of the end of its last lease
    this.departed = new Map(); // instance → when it left, or lost its leases
    this.denied = ''; // why the namespace may not be read
    this.complete = false;
    this.role = 'read';
  }

  // ---- targets

  // A page of the list that was asked for at `askedAt`. What an event has said since then is newer.
  takeRows(list, askedAt, generation) {
    for (const item of list) {
      const known = this.rows.get(item.id);
      if (known) known.generation = generation;
      if (known && (known.version > item.version || known.changedAt > askedAt)) continue;
      this.rows.set(item.id, this.toRow(item, generation, known));
    }
  }

  toRow(item, generation, known) {
    const now = performance.now();
    return {
      id: item.id,
      holder: item.holder_id || null,
      version: item.version,
      paused: item.paused === true,
      registered: item.registered === true,
      barred: item.barred === true,
      acquiredMs: item.acquired_at_ms || 0,
      endsAt: item.holder_id ? now + item.remaining_ms : 0,
      ttlMs: item.ttl_ms || 0,
      url: item.url, exec: item.exec, everyMs: item.every_ms, spec: item.spec,
      pin: item.pin || null,
      generation,
      changedAt: known ? known.changedAt : 0,
      order: known ? known.order : 0,
    };
  }

  // What was not in the list that has just ended is gone.
  dropOthers(generation, askedAt) {
    for (const [id, row] of this.rows) if (row.generation !== generation && row.changedAt < askedAt) this.rows.delete(id);
    this.complete = true;
  }

  // Outcomes of a batch of reads; false: nothing that shows is another.
  takeReads(outcomes, askedAt) {
    let changed = false;
    for (const item of outcomes) {
      const row = this.rows.get(item.id);
      if (!row || item.outcome !== 'ok' || row.changedAt > askedAt || row.version > item.version) continue;
      const holder = item.holder_id || null;
      changed ||= row.holder !== holder || row.version !== item.version || row.paused !== (item.paused === true) || row.barred !== (item.barred === true) || row.registered !== (item.registered === true);
      if (holder && (row.version !== item.version || !row.acquiredMs)) row.acquiredMs = item.acquired_at_ms || serverNow();
      row.holder = holder;
      row.version = item.version;
      row.paused = item.paused === true;
      row.registered = item.registered === true;
      row.barred = item.barred === true;
      row.endsAt = holder ? performance.now() + item.remaining_ms : 0;
      if (item.ttl_ms) row.ttlMs = item.ttl_ms;
    }
    return changed;
  }

  // An event of the stream. Returns what is to be looked up: 'target', 'instances' or nothing.
  takeChange(change) {
    this.keepChange(change);
    const what = change.event;
    if (what.startsWith('instance_')) {
      if (what === 'instance_left') this.instances.delete(change.instance);
      return 'instances';
    }
    if (!change.target) return null;
    const now = performance.now();
    let row = this.rows.get(change.target);
    if (what === 'target_removed') {
      if (row && !row.holder) this.rows.delete(change.target);
      else if (row) row.registered = false;
      return null;
    }
    if (!row) {
      row = this.toRow({ id: change.target, version: 0, registered: what === 'target_added' }, 0);
      this.rows.set(change.target, row);
    }
    if (what === 'target_changed' && change.reason === 'unpinned') row.pin = null;
    if (what === 'target_changed' && change.reason.startsWith('pinned')) row.pin = { instance: change.instance, away: change.reason === 'pinned_away', actor: change.actor };
    if (what === 'lease_acquired' && change.token >= row.version) {
      Object.assign(row, { holder: change.instance, version: change.token, barred: false, acquiredMs: change.atMs, endsAt: 0, changedAt: now });
      return 'target'; // for when it ends
    }
    if ((what === 'lease_released' || what === 'lease_lost') && (!change.token || change.token >= row.version)) {
      // One that was forced keeps its holder until its lease ends; a look will tell.
      if (change.reason === 'forced') return 'target';
      Object.assign(row, { holder: null, endsAt: 0, barred: false, changedAt: now });
      return 'target';
    }
    return 'target';
  }

  keepChange(change) {
    this.changes.push(change);
    if (this.changes.length > changesMax * 1.2) this.changes.splice(0, this.changes.length - changesMax);
    if (change.event === 'instance_left' || (change.event === 'lease_lost' && change.reason === 'expired')) this.departed.set(change.instance, change.atMs);
    if (change.event === 'instance_joined') this.departed.delete(change.instance);
    if (change.event === 'lease_lost' || change.event === 'lease_released') this.lastEnds.set(change.target, { instance: change.instance, reason: change.reason });
    if (change.event === 'lease_acquired') this.keepTaking(change);
  }

  // A change of holder that somebody planned (a drain, a deploy, a job that is done) is not counted.
  keepTaking(change) {
    const end = this.lastEnds.get(change.target);
    this.lastEnds.delete(change.target);
    if (end && (end.instance === change.instance || plannedEnds.has(end.reason))) return;
    const times = this.takings.get(change.target) || [];
    times.push(change.atMs);
    if (times.length > flappingTimes) times.shift();
    this.takings.set(change.target, times);
  }

  // The instances that left lately, latest first: [id, when].
  departures() {
    return [...this.departed].filter(([id, at]) => !this.instances.has(id) && at > serverNow() - departedMs).sort((a, b) => b[1] - a[1]);
  }

  takeHistory(list) {
    this.changes = [];
    this.takings.clear();
    this.lastEnds.clear();
    this.departed.clear();
    for (const item of list) this.keepChange(toChange(item));
  }

  // ---- instances

  takeInstances(list, withPlan) {
    const old = this.instances;
    this.instances = new Map();
    if (withPlan) this.moving.clear();
    for (const item of list) {
      const before = old.get(item.instance) || {};
      this.instances.set(item.instance, {
        id: item.instance,
        weight: item.weight,
        draining: item.draining,
        sinceMs: item.since_ms,
        ttlMs: item.ttl_ms,
        beatMs: Math.max(0, item.ttl_ms - item.remaining_ms), // as of this answer: it may have come again since
        metadata: item.metadata,
        address: item.address,
        labels: item.labels,
        role: item.role,
        lock: item.lock,
        planned: withPlan ? item.planned : before.planned,
        movingCount: withPlan ? item.moving_count : before.movingCount || 0,
        held: before.held || 0,
      });
      if (withPlan) for (const target of item.moving) this.moving.set(target.id, target.planned);
    }
  }

  // ---- questions

  stateOf(row) {
    if (row.paused) return row.holder ? 'moving' : 'paused';
    if (!row.holder) return row.registered ? 'unowned' : 'free';
    if (row.barred || this.moving.has(row.id)) return 'moving';
    const holder = this.instances.get(row.holder);
    if (holder ? holder.draining : row.registered && this.instances.size > 0) return 'moving';
    return 'held';
  }

  // Why it is in that state, in words.
  whyOf(row) {
    if (row.paused) return row.holder ? 'paused: being released' : 'paused: no instance takes it';
    if (row.barred) return 'forced: free when the lease expires';
    if (!row.holder) return !row.registered ? 'not registered, and not held' : this.instances.size ? 'about to be taken' : 'no instance is alive';
    const holder = this.instances.get(row.holder);
    if (!holder && row.registered && this.instances.size > 0) return 'its holder is gone or outside of this fleet; free when the lease expires';
    if (holder && holder.draining) return 'its holder is draining';
    if (this.moving.has(row.id)) return 'planned for another: being handed over';
    if (!holder || holder.role) return this.roleOf(row);
    if (this.isPinned(row)) return row.pin.away ? `kept away from ${shortName(row.pin.instance)}` : 'pinned here';
    return 'as planned';
  }

  // What its holder is to it, as far as the candidates that have announced themselves say.
  roleOf(row) {
    const candidates = this.candidatesOf(row);
    const waiting = this.standbysOf(row).length;
    if (candidates.length === 0) return 'by lock, once, acquire, REST or a library';
    if (!candidates.some(({ lock }) => lock)) return 'leads';
    return `holds the lock${waiting ? `; ${waiting} ${waiting === 1 ? 'waits' : 'wait'}` : ''}`;
  }

  // Whether its pin says where it is.
  isPinned(row) {
    return row.pin && (row.pin.instance === row.holder) !== row.pin.away && this.instances.has(row.pin.instance);
  }

  isFlapping(row) {
    const times = this.takings.get(row.id);
    return times !== undefined && times.length >= flappingTimes && times[0] > serverNow() - flappingMs;
  }

  // Candidates for a role, or for a numbered slot of it.
  candidatesOf(row) {
    return [...this.instances.values()].filter(({ role }) => role && (role === row.id || row.id.startsWith(`${role}/`)));
  }

  // Those of them that hold nothing.
  standbysOf(row) {
    return this.candidatesOf(row).filter(({ held }) => held === 0);
  }

  // 'fresh', 'late' or 'overdue': an instance sends a heartbeat each third of its TTL or so.
  beatOf(instance) {
    return instance.beatMs > instance.ttlMs * 0.8 ? 'overdue' : instance.beatMs > instance.ttlMs * 0.5 ? 'late' : 'fresh';
  }

  // One pass over everything: counts by state, and shares of instances.
  count() {
    const counts = { all: 0, held: 0, unowned: 0, moving: 0, paused: 0, free: 0, flapping: 0 };
    for (const instance of this.instances.values()) instance.held = 0;
    const holders = new Map();
    for (const row of this.rows.values()) {
      counts.all++;
      counts[this.stateOf(row)]++;
      if (this.takings.size > 0 && this.isFlapping(row)) counts.flapping++;
      if (!row.holder) continue;
      holders.set(row.holder, (holders.get(row.holder) || 0) + 1);
      const instance = this.instances.get(row.holder);
      if (instance) instance.held++;
    }
    this.holders = holders;
    return counts;
  }

  // The rows that match, in order.
  select({ text, state, holder, sort, descending }) {
    const wanted = text.toLowerCase();
    const found = [];
    for (const row of this.rows.values()) {
      if (holder && row.holder !== holder) continue;
      if (state === 'flapping' ? !this.isFlapping(row) : state && this.stateOf(row) !== state) continue;
      if (wanted && !row.id.toLowerCase().includes(wanted) && !(row.holder && row.holder.toLowerCase().includes(wanted))) continue;
      found.push(row);
    }
    const keys = {
      id: null,
      state: (row) => this.stateOf(row),
      holder: (row) => row.holder || '\uffff',
      version: (row) => row.version,
      since: (row) => (row.holder ? row.acquiredMs : Infinity),
      ends: (row) => (row.holder ? row.endsAt : Infinity),
    };
    const key = keys[sort];
    const byId = (a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
    if (key) for (const row of found) row.order = key(row);
    found.sort(key ? (a, b) => (a.order < b.order ? -1 : a.order > b.order ? 1 : byId(a, b)) : byId);
    if (descending) found.reverse();
    return found;
  }
}

// An entry of the history, or the data of an event.
export function toChange(item) {
  return {
    event: item.event,
    atMs: item.at_ms || Date.parse(item.at) || serverNow(),
    target: item.target || '',
    instance: item.instance || '',
    token: item.token || 0,
    reason: item.reason || '',
    actor: item.actor || '',
    heldMs: item.held_ms,
    freeMs: item.free_ms,
    instant: item.instant, // of the runs of a job
    durationMs: item.duration_ms,
    exitCode: item.exit_code,
    count: item.count,
  };
}
