// The fleet at a glance: counts and instances. Draws what the model knows; called by app.js.
import { find, formatAge, formatDuration, formatNumber, formatStamp, make, setText, shortName, toneOf } from './dom.js';
import { serverNow } from './api.js';
import { roleText } from './model.js';

const cards = [
  ['', 'Targets', 'all', 'all targets'],
  ['held', 'Held', 'held', 'by their planned holders'],
  ['unowned', 'Unowned', 'unowned', 'registered, but not held'],
  ['moving', 'Moving', 'moving', 'being handed over'],
  ['flapping', 'Flapping', 'flapping', 'changed holder 3 times in 5 minutes, unplanned'],
  ['paused', 'Paused', 'paused', 'not to be held by any instance'],
];

export function makeCards(choose) {
  for (const [state, title, key, about] of cards) {
    const number = make('span', { class: 'card-number', id: `count-${key}` }, '–');
    find('cards').append(make('button', { type: 'button', class: 'card', 'data-state': state, 'data-key': key, 'aria-pressed': 'false', title: about, onclick: () => choose(state) },
      make('span', { class: 'card-title' }, title), number, make('span', { class: 'card-about' }, about)));
  }
}

export function drawCards(counts, state) {
  for (const button of find('cards').children) {
    const number = counts[button.dataset.key];
    setText(button.children[1], formatNumber(number));
    button.classList.toggle('zero', number === 0);
    button.setAttribute('aria-pressed', String(state !== '' && button.dataset.state === state));
  }
}

// ---- instances

function newRow(instance, on) {
  const bar = make('span', { class: `share-fill tone-${toneOf(instance.id)}` });
  const plan = make('span', { class: 'share-plan' });
  const name = make('button', { type: 'button', class: 'link-button name', title: instance.id, onclick: () => on.open(instance.id) }, shortName(instance.id));
  const drain = make('button', { type: 'button', class: 'small', onclick: () => on.drain(instance.id) });
  const row = make('tr', { 'data-instance': instance.id },
    make('th', { scope: 'row' }, make('span', { class: `tone-dot tone-${toneOf(instance.id)}`, 'aria-hidden': 'true' }), name, make('span', { class: 'badge', hidden: true }), make('span', { class: 'address', hidden: true })),
    make('td', { class: 'number' }),
    make('td', { class: 'share' }, make('span', { class: 'share-bar', 'aria-hidden': 'true' }, bar, plan), make('span', { class: 'share-text' })),
    make('td', { class: 'number beat' }), make('td', { class: 'number up' }), make('td', { class: 'actions' }, drain));
  Object.assign(row, { bar, plan, drain });
  return row;
}

const shareOf = (instance, planned) => (instance.role ? roleText(instance) : `${formatNumber(instance.held)} / ${formatNumber(planned)}`);

function fillBeat(cell, instance, state) {
  const age = formatAge(instance.beatMs);
  setText(cell, `${age} of ${formatDuration(instance.ttlMs)}${state === 'fresh' ? '' : `, ${state}`}`);
  cell.dataset.beat = state;
  cell.title = `The last heartbeat is ${age} old. After ${formatDuration(instance.ttlMs)} without one the instance counts as gone.`;
}

function fillRow(row, instance, most, model) {
  const [head, weight, share, beat, up] = row.children;
  const { role } = model;
  const planned = instance.planned === undefined ? instance.held : instance.planned;
  setText(weight, instance.role ? '–' : formatNumber(instance.weight));
  setText(share.lastChild, shareOf(instance, planned));
  share.firstChild.hidden = Boolean(instance.role);
  row.bar.style.width = `${(100 * instance.held) / most}%`;
  row.plan.style.left = `${(100 * planned) / most}%`;
  fillBeat(beat, instance, model.beatOf(instance));
  setText(up, formatAge(serverNow() - instance.sinceMs));
  up.title = `since ${formatStamp(instance.sinceMs)}`;
  const address = head.lastChild;
  address.hidden = !instance.address;
  setText(address, instance.address || '');
  const badge = address.previousSibling;
  badge.hidden = !instance.draining;
  setText(badge, instance.held === 0 ? 'drained' : 'draining');
  row.drain.hidden = role !== 'admin' || Boolean(instance.lock); // a lock is kept until its work is over
  setText(row.drain, instance.draining ? 'Undo drain' : 'Drain');
  row.drain.setAttribute('aria-label', `${instance.draining ? 'Undo the drain of' : 'Drain'} ${instance.id}`);
}

export function drawInstances(model, on) {
  const body = find('fleet-rows');
  const instances = [...model.instances.values()].sort((a, b) => (a.id < b.id ? -1 : 1)).slice(0, 500);
  const most = Math.max(1, ...instances.map((instance) => Math.max(instance.held, instance.planned || 0)));
  const known = new Map([...body.children].filter((row) => row.dataset.instance).map((row) => [row.dataset.instance, row]));
  const rows = instances.map((instance) => {
    const row = known.get(instance.id) || newRow(instance, on);
    fillRow(row, instance, most, model);
    return row;
  });
  if (rows.length === 0) rows.push(body.querySelector('.none') || make('tr', { class: 'none' }, make('td', { colspan: '6' })));
  if (instances.length === 0) setText(rows[0].firstChild, model.denied ? 'Not allowed.' : 'No instance has announced itself here. Holders that use only the lease requests of REST do not.');
  // Moved only when they differ, so that the focus stays where it is.
  if (rows.length !== body.children.length || rows.some((row, i) => row !== body.children[i])) body.replaceChildren(...rows);
  const left = model.departures();
  const latest = left.length ? `${shortName(left[0][0])} left ${formatAge(serverNow() - left[0][1])} ago${left.length > 1 ? `, ${formatNumber(left.length - 1)} more within 10 minutes` : ''}` : '';
  setText(find('fleet-note'), [instances.length ? `${formatNumber(model.instances.size)} alive` : '', latest].filter(Boolean).join(' · '));
}
