// What an admin may do, and what the page says before it is done. Each asks, sends one request, and says what came of it.
import { find, make, shortName, formatDuration } from './dom.js';
import { pathOf, request } from './api.js';

const actor = 'web page'; // who did it, for the history

// Resolves to the chosen value, or null. choices: [{value, title, about}]
function ask({ title, lines, choices = [], button, danger }) {
  const dialog = find('confirm');
  return new Promise((resolve) => {
    const radios = choices.map((choice, i) => make('label', { class: 'choice' },
      make('input', { type: 'radio', name: 'choice', value: choice.value, checked: i === 0 }),
      make('span', {}, make('strong', {}, choice.title), make('span', { class: 'quiet' }, choice.about))));
    const form = make('form', {},
      make('h2', { id: 'confirm-title' }, title),
      ...lines.map((line) => make('p', {}, line)), ...radios,
      make('div', { class: 'buttons' },
        make('button', { type: 'button', autofocus: true, onclick: () => dialog.close() }, 'Cancel'),
        make('button', { type: 'submit', class: danger ? 'danger' : 'primary' }, button)));
    let answer = null;
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      answer = choices.length ? new FormData(form).get('choice') : 'yes';
      dialog.close();
    });
    dialog.addEventListener('close', () => resolve(answer), { once: true });
    dialog.replaceChildren(form);
    dialog.showModal();
  });
}

export async function pause(namespace, row) {
  const yes = await ask(row.paused ? {
    title: `Resume ${row.id}?`, button: 'Resume',
    lines: ['The plan includes it again; its planned holder takes it at once.'],
  } : {
    title: `Pause ${row.id}?`, button: 'Pause',
    lines: [row.holder ? `Its holder, ${shortName(row.holder)}, finishes its poll in flight and releases it.` : 'It is not held now.',
      'While it is paused no instance takes it, and its work does not happen.'],
  });
  if (!yes) return null;
  await request('POST', pathOf(namespace), { edits: [{ action: row.paused ? 'resume' : 'pause', target: { id: row.id } }] });
  return `${row.id} is ${row.paused ? 'resumed' : 'paused'}`;
}

async function apply(namespace, op) {
  const { value } = await request('POST', pathOf(namespace, 'leases'), { holder_id: actor, ops: [op] });
  return value[0];
}

export async function drain(namespace, id, instance, others) {
  const undo = instance && instance.draining;
  const yes = await ask(undo ? {
    title: `Let ${shortName(id)} work again?`, button: 'Undo drain',
    lines: [instance.role ? `${id} is a candidate for ${instance.role} again.` : `${id} takes its share again; the others hand that over to it one by one.`],
  } : {
    title: `Drain ${shortName(id)}?`, button: 'Drain', danger: true,
    lines: [instance && instance.role ? `${id} ends its work, releases ${instance.role} if it leads it, and is no candidate until the drain is undone.`
      : `${id} hands over all that it holds (${instance ? instance.held : 0} targets), each when its poll in flight has ended, and takes nothing until the drain is undone.`,
      others > 0 ? `${others} other ${others === 1 ? 'instance takes' : 'instances take'} over.` : 'No other instance can take over: what it holds will be unowned.'],
  });
  if (!yes) return null;
  const done = await apply(namespace, { op: 'ask', holder_id: id, ask: undo ? 3 : 2 });
  return done.outcome === 'ok' ? `${shortName(id)} was asked to ${undo ? 'work again' : 'hand over what it holds'}` : `${shortName(id)} is no longer alive`;
}

const pinMs = 3600000;

// A pin to an instance, for an hour; or the plan decides again.
export async function move(namespace, row, instances) {
  const takers = instances.filter(({ id, weight, draining, role }) => weight > 0 && !draining && !role && !(row.pin && !row.pin.away && row.pin.instance === id));
  const choices = takers.filter(({ id }) => id !== row.holder).concat(takers.filter(({ id }) => id === row.holder)).map(({ id, held }) => ({
    value: id, title: shortName(id), about: id === row.holder ? 'It holds the target now, and keeps it.' : `It holds ${held} now.` }));
  if (row.pin) choices.unshift({ value: 'unpin', title: 'Let the plan decide', about: 'The pin is taken back.' });
  if (!choices.length) return `no instance can take ${row.id}`;
  const choice = await ask({
    title: `Move ${row.id}?`, button: row.pin ? 'Change pin' : 'Move',
    lines: [row.holder ? `Its holder, ${shortName(row.holder)}, finishes its poll in flight and hands it over.` : 'It is not held now.',
      'The target stays with the chosen instance for an hour, while that is alive and does not drain; then the plan decides again.'],
    choices,
  });
  if (!choice) return null;
  const path = pathOf(namespace, row.id, 'pin');
  if (choice === 'unpin') await request('DELETE', path, { actor });
  else await request('PUT', path, { instance: choice, for_ms: pinMs, actor, reason: 'moved on the web page' });
  return choice === 'unpin' ? `${row.id} is no longer pinned` : `${row.id} is pinned to ${shortName(choice)} for an hour`;
}

export async function force(namespace, row) {
  const left = Math.max(0, row.endsAt - performance.now());
  const choice = await ask({
    title: `Take ${row.id} away from ${shortName(row.holder)}?`, button: 'Force release', danger: true,
    lines: [`${row.holder} holds it under token ${row.version}. This is for a holder that cannot be reached; a living one is better drained.`],
    choices: [
      { value: 'force', title: 'When its lease expires', about: `The holder can no longer renew it. It is free when the lease expires${left ? `, in ${formatDuration(left)} at most` : ''}; until then no other instance can hold it.` },
      { value: 'force_now', title: 'Now', about: `It is free at once. The guarantee that a holder stops before the next one starts (G3) is suspended for this target: ${shortName(row.holder)} may go on until its lease would have expired, and only a receiver that compares tokens refuses what it sends.` },
    ],
  });
  if (!choice) return null;
  const done = await apply(namespace, { op: choice, id: row.id, holder_id: row.holder });
  if (done.outcome !== 'ok') return `${row.id} is no longer held by ${shortName(row.holder)}; nothing was changed`;
  return choice === 'force' ? `${shortName(row.holder)} can no longer renew ${row.id}; it is free ${left ? `in ${formatDuration(left)}` : 'when its lease expires'}` : `${row.id} is free now`;
}
