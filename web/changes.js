// The latest changes in words. Changes that belong together are one line: what an instance lost, released or acquired
// within a few seconds, and who took it over. Draws what the model knows; called by app.js.
import { find, formatDuration, formatNumber, formatStamp, formatTime, make, shortName } from './dom.js';

const gapMs = 5000; // changes that are further apart do not belong together
const linesMax = 60;
const targetsMax = 50; // that an opened line shows

const words = {
  lease_acquired: 'acquired by', lease_released: 'released by', lease_lost: 'lost by', lease_asked: 'asked for, of',
  instance_joined: 'joined', instance_left: 'left', instance_changed: 'changed', target_added: 'added', target_changed: 'changed',
  target_removed: 'removed', target_unowned: 'is unowned', store_recovering: 'the store is recovering: it is new or lost data',
};

export function sayChange(change) {
  const word = words[change.event] || change.event.replaceAll('_', ' ');
  const subject = change.target || (change.instance ? shortName(change.instance) : '');
  const object = change.target && change.instance ? ` ${shortName(change.instance)}` : '';
  const more = [change.token && change.event === 'lease_acquired' ? `token ${change.token}` : '', change.reason, change.actor ? `by ${shortName(change.actor)}` : ''].filter(Boolean).join(', ');
  return { subject, text: ` ${word}${object}${more ? ` (${more})` : ''}` };
}

const isEnd = (change) => change.event === 'lease_lost' || change.event === 'lease_released';

// Groups, oldest first: {kind, instance, reason, changes, targets: Map of target to its next holder or null, left, from, to}
export function groupChanges(changes) {
  const groups = [];
  const latest = new Map(); // the latest group of each kind
  const ended = new Map(); // target → the group in which its last holder lost or released it
  const join = (key, change, about) => {
    let group = latest.get(key);
    if (!group || change.atMs - group.to > gapMs) {
      group = { ...about, key: `${key} ${change.atMs}`, changes: [], targets: new Map(), from: change.atMs, to: change.atMs };
      groups.push(group);
      latest.set(key, group);
    }
    group.changes.push(change);
    group.to = Math.max(group.to, change.atMs);
    return group;
  };
  for (const change of changes) {
    const { event, instance, target, reason } = change;
    // A forced lease has ended once, although its holder releases it when its work has stopped.
    if (event === 'lease_released' && !change.actor && ended.get(target)?.changes.some((other) => other.target === target && other.token === change.token && other.reason === 'forced')) continue;
    if (isEnd(change) && target && instance) {
      const group = join(`end ${event} ${instance} ${reason}`, change, { kind: 'end', lost: event === 'lease_lost', instance, reason });
      group.targets.set(target, null);
      ended.set(target, group);
    } else if (event === 'lease_acquired' && ended.has(target) && change.atMs - ended.get(target).to <= gapMs) {
      const group = ended.get(target);
      ended.delete(target);
      group.changes.push(change);
      group.targets.set(target, instance);
      group.to = Math.max(group.to, change.atMs);
    } else if (event === 'lease_acquired') {
      join(`taken ${instance}`, change, { kind: 'taken', instance, reason: '' }).targets.set(target, instance);
    } else if (event.startsWith('target_') && target && event !== 'target_unowned') {
      join(event, change, { kind: 'edit', instance: '', reason: '' }).targets.set(target, null);
    } else {
      const group = { kind: 'one', key: `${event} ${instance} ${target} ${change.atMs}`, instance, changes: [change], targets: new Map(), from: change.atMs, to: change.atMs };
      groups.push(group);
    }
  }
  return mergeDepartures(groups);
}

// That an instance left says the same as that it lost or released everything at that time.
function mergeDepartures(groups) {
  const gone = new Set();
  for (const left of groups) {
    if (left.kind !== 'one' || left.changes[0].event !== 'instance_left') continue;
    const end = groups.find((group) => group.kind === 'end' && group.instance === left.instance && (group.lost || group.reason === 'shutdown') && Math.abs(group.from - left.from) <= 60000);
    if (!end) continue;
    end.left = true;
    gone.add(left);
  }
  return groups.filter((group) => !gone.has(group));
}

const targetsOf = (count) => `${formatNumber(count)} ${count === 1 ? 'target' : 'targets'}`;

// "12 to host-a 8758, 13 to host-c 11aa"
function takersOf(group) {
  const counts = new Map();
  let waiting = 0;
  let again = 0; // by the same instance
  for (const taker of group.targets.values()) {
    if (!taker) waiting++;
    else if (taker === group.instance) again++;
    else counts.set(taker, (counts.get(taker) || 0) + 1);
  }
  const takers = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 4).map(([taker, count]) => `${formatNumber(count)} to ${shortName(taker)}`);
  if (counts.size > 4) takers.push('the rest to others');
  return { moved: group.targets.size - waiting - again, waiting, again, text: takers.join(', ') };
}

function verbOf(group) {
  if (group.lost) return group.left || group.reason === 'expired' ? 'lost' : `lost its leases (${group.reason || 'unknown reason'})`;
  if (group.reason === 'shutdown') return 'stopped';
  if (group.reason === 'drain') return 'drained';
  return `released (${group.reason || 'no reason given'})`;
}

// {subject, text, bad}: the subject is an instance, unless the line is about one target.
export function sayGroup(group) {
  const first = group.changes[0];
  const count = group.targets.size;
  if (group.kind === 'end') {
    const { moved, waiting, again, text } = takersOf(group);
    const took = group.to - group.from < 1000 ? 'in under 1s' : `in ${formatDuration(group.to - group.from)}`;
    const where = moved ? `${targetsOf(moved)} moved ${took}: ${text}${again ? `; ${formatNumber(again)} acquired again` : ''}` : again ? `${targetsOf(again)}, and acquired again` : targetsOf(count);
    const rest = waiting && moved ? `; ${formatNumber(waiting)} not taken yet` : waiting && group.lost ? ', not taken yet' : '';
    const actor = first.actor ? `, by ${shortName(first.actor)}` : '';
    if (count === 1) {
      const taker = [...group.targets.values()][0];
      return { subject: first.target, text: ` ${taker === group.instance ? `released and acquired again by ${shortName(taker)}` : taker ? `moved from ${shortName(group.instance)} to ${shortName(taker)}` : `${group.lost ? 'lost' : 'released'} by ${shortName(group.instance)}`} (${group.reason || 'no reason given'}${actor})`, bad: group.lost || group.reason === 'forced' };
    }
    return { subject: shortName(group.instance), text: ` ${verbOf(group)}${actor}: ${where}${rest}`, bad: group.lost || group.reason === 'forced' };
  }
  if (group.kind === 'taken' && count > 1) return { subject: shortName(group.instance), text: ` acquired ${targetsOf(count)}`, bad: false };
  if (group.kind === 'edit' && count > 1) return { subject: targetsOf(count), text: ` ${words[first.event]}`, bad: false };
  const { subject, text } = sayChange(first);
  return { subject, text, bad: first.event === 'target_unowned' || first.reason === 'forced' };
}

const opened = new Set(); // keys of the lines whose targets are shown

function drawTargets(group, open) {
  const names = [...group.targets.keys()];
  const list = make('details', { class: 'group-targets', open: opened.has(group.key), ontoggle: (event) => (event.target.open ? opened.add(group.key) : opened.delete(group.key)) },
    make('summary', {}, 'Which'),
    ...names.slice(0, targetsMax).map((id) => make('button', { type: 'button', class: 'link-button', onclick: () => open({ kind: 'target', id }) }, id)),
    names.length > targetsMax ? make('span', { class: 'quiet' }, `and ${formatNumber(names.length - targetsMax)} more`) : null);
  return list;
}

// open({kind, id}) shows a target or an instance.
export function drawChanges(model, open) {
  const groups = groupChanges(model.changes.slice(-3000)).slice(-linesMax).reverse();
  const shape = groups.map((group) => `${group.key} ${group.changes.length} ${group.to}`).join('\n');
  const list = find('changes');
  if (list.shape === shape) return; // what is opened or has the focus stays
  list.shape = shape;
  list.replaceChildren(...groups.map((group) => {
    const { subject, text, bad } = sayGroup(group);
    const about = group.targets.size === 1 ? { kind: 'target', id: [...group.targets.keys()][0] } : group.instance ? { kind: 'instance', id: group.instance } : null;
    return make('li', { class: bad ? 'bad-line' : '' },
      make('time', { datetime: new Date(group.from).toISOString(), title: formatStamp(group.from) }, formatTime(group.from)),
      make('span', {},
        subject && about ? make('button', { type: 'button', class: 'link-button', onclick: () => open(about) }, subject) : subject, text,
        group.targets.size > 1 ? drawTargets(group, open) : null));
  }));
}
