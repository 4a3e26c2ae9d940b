// The fleet at a glance: counts, instances, the latest changes. Draws what the model knows; called by app.js.
import { find, formatAge, formatDuration, formatNumber, formatTime, make, setText, shortName, toneOf } from './dom.js';
import { serverNow } from './api.js';

const cards = [
  ['', 'Targets', 'all', 'all targets'],
  ['held', 'Held', 'held', 'where they are planned'],
  ['unowned', 'Unowned', 'unowned', 'registered, and nobody holds them'],
  ['moving', 'Moving', 'moving', 'held by one that is not to keep them'],
  ['contended', 'Contended', 'contended', 'three changes of hands in five minutes'],
  ['paused', 'Paused', 'paused', 'nobody is to take them'],
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
    make('th', { scope: 'row' }, make('span', { class: `tone-dot tone-${toneOf(instance.id)}`, 'aria-hidden': 'true' }), name, make('span', { class: 'badge', hidden: true })),
    make('td', { class: 'number' }),
    make('td', { class: 'share' }, make('span', { class: 'share-bar', 'aria-hidden': 'true' }, bar, plan), make('span', { class: 'share-text' })),
    make('td', { class: 'number beat' }), make('td', { class: 'number up' }), make('td', { class: 'actions' }, drain));
  Object.assign(row, { bar, plan, drain });
  return row;
}

function fillRow(row, instance, most, role) {
  const [head, weight, share, beat, up] = row.children;
  const planned = instance.planned === undefined ? instance.held : instance.planned;
  setText(weight, formatNumber(instance.weight));
  setText(share.lastChild, `${formatNumber(instance.held)} / ${formatNumber(planned)}`);
  row.bar.style.width = `${(100 * instance.held) / most}%`;
  row.plan.style.left = `${(100 * planned) / most}%`;
  setText(beat, `${formatDuration(instance.beatMs)} ago`);
  beat.classList.toggle('bad', instance.beatMs > instance.ttlMs * 0.7);
  setText(up, formatAge(serverNow() - instance.sinceMs));
  const badge = head.lastChild;
  badge.hidden = !instance.draining;
  setText(badge, instance.held === 0 ? 'drained' : 'draining');
  row.drain.hidden = role !== 'admin';
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
    fillRow(row, instance, most, model.role);
    return row;
  });
  if (rows.length === 0) rows.push(body.querySelector('.none') || make('tr', { class: 'none' }, make('td', { colspan: '6' }, 'No instance has announced itself here. Holders that speak only REST, and candidates for a role, need not.')));
  // Moved only when they differ, so that the focus stays where it is.
  if (rows.length !== body.children.length || rows.some((row, i) => row !== body.children[i])) body.replaceChildren(...rows);
  setText(find('fleet-note'), instances.length ? `${formatNumber(model.instances.size)} alive` : '');
}

// ---- changes

const words = {
  lease_acquired: 'acquired by', lease_released: 'released by', lease_lost: 'lost by', lease_asked: 'asked for, of',
  instance_joined: 'joined', instance_left: 'left', instance_changed: 'changed', target_added: 'added', target_changed: 'changed',
  target_removed: 'removed', target_unowned: 'is unowned', store_recovering: 'the store recovers from a loss of data',
};

export function sayChange(change) {
  const word = words[change.event] || change.event.replaceAll('_', ' ');
  const subject = change.target || (change.instance ? shortName(change.instance) : '');
  const object = change.target && change.instance ? ` ${shortName(change.instance)}` : '';
  const more = [change.token && change.event === 'lease_acquired' ? `token ${change.token}` : '', change.reason, change.actor ? `by ${change.actor}` : ''].filter(Boolean).join(', ');
  return { subject, text: ` ${word}${object}${more ? ` (${more})` : ''}` };
}

export function drawChanges(model, open) {
  const list = model.changes.slice(-60).reverse();
  find('changes').replaceChildren(...list.map((change) => {
    const { subject, text } = sayChange(change);
    const bad = change.event === 'lease_lost' || change.event === 'target_unowned' || change.reason === 'forced';
    return make('li', { class: bad ? 'bad-line' : '' },
      make('time', { datetime: new Date(change.atMs).toISOString() }, formatTime(change.atMs)),
      make('span', {}, subject ? make('button', { type: 'button', class: 'link-button', onclick: () => open(change) }, subject) : null, text));
  }));
}
