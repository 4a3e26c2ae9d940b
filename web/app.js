// The page: reads a namespace, follows its changes, draws. One model at a time; another namespace is another model, and
// what still comes for the old one is dropped.
import { find, formatAge, formatDuration, formatNumber, formatTime, make, setText, shortName, throttle, toneOf, visible, zoneName } from './dom.js';
import { hasToken, nextPage, pathOf, readEvents, request, serverNow, setToken } from './api.js';
import { Model, states, toChange } from './model.js';
import { Grid } from './grid.js';
import { Details } from './details.js';
import { drawCards, drawInstances, makeCards } from './fleet.js';
import { drawChanges, sayChange } from './changes.js';
import * as actions from './actions.js';

const usual = 'poll'; // where a store has none
const rowsMax = 400000; // a browser draws nothing that is higher
const view = { text: '', state: '', holder: '', sort: 'id', descending: false };
let model = new Model('poll');
let session = null; // of the namespace: {stop}
let lostSince = 0;
let events = [];
let namespaces = []; // those of the store that may be read

// ---- what is wrong

function setBanner(text, retry) {
  const banner = find('banner');
  banner.hidden = !text;
  if (text) banner.replaceChildren(make('span', {}, text), ...(retry ? [make('button', { type: 'button', onclick: retry }, 'Try now')] : []));
}

function setLink(state, text) {
  find('link-state').dataset.state = state;
  setText(find('link-text'), text);
  document.body.classList.toggle('stale', state === 'lost');
}

function failed(error) {
  if (error.status === 401) askToken(error.message);
  else if (error.status !== 0) say(error.message, true);
}

// Said to those who look, and to those who listen.
function say(text, wrong = false) {
  const toast = make('div', { class: wrong ? 'toast wrong' : 'toast', role: 'status' }, text);
  document.querySelectorAll('.toast').forEach((older) => older.remove());
  document.body.append(toast);
  setTimeout(() => toast.remove(), 6000);
}

function askToken(why) {
  const dialog = find('token-dialog');
  if (dialog.open) return;
  if (session) session.stop();
  setText(find('token-why'), hasToken() ? `${why}. Enter another one.` : 'It is kept until this tab is closed, and sent to this server alone.');
  setLink('connecting', 'Token required');
  setBanner('');
  dialog.showModal();
}

// ---- reading

async function loadRows(of) {
  const generation = (of.generation = (of.generation || 0) + 1);
  const began = performance.now();
  let path = `${pathOf(of.namespace)}?limit=1000`;
  while (path && of === model) {
    const askedAt = performance.now();
    const { value, headers } = await request('GET', path);
    of.takeRows(value, askedAt, generation);
    path = of.rows.size < rowsMax ? nextPage(headers) : null;
    of.isCut = of.rows.size >= rowsMax;
    if (path) path = path.replace('limit=1000&', 'limit=10000&'); // the first page is short, to be there soon
    redraw();
  }
  if (of === model && !of.isCut) of.dropOthers(generation, began);
  of.complete = true;
  of.rowsTook = performance.now() - began;
  redraw();
}

async function loadInstances(of, withPlan) {
  const { value, headers } = await request('GET', `${pathOf(of.namespace, 'nodes')}?${withPlan ? 'plan=true' : 'shares=false'}`);
  of.role = headers.get('X-Tenure-Role') || 'read';
  const before = new Set(of.instances.keys());
  of.takeInstances(value, withPlan);
  const gone = [...before].some((id) => !of.instances.has(id));
  if (gone) for (const row of of.rows.values()) if (row.holder && before.has(row.holder) && !of.instances.has(row.holder)) lookAt(of, row.id);
  redraw();
}

async function loadHistory(of) {
  const { value } = await request('GET', `${pathOf(of.namespace, 'history')}?limit=1000`);
  of.takeHistory(value);
  redraw();
}

async function loadAll(of) {
  await Promise.all([loadInstances(of, false), loadHistory(of), loadRows(of)]);
  planSoon();
}

// Targets of which something is to be looked up, many at a time.
const waiting = new Set();
function lookAt(of, id) {
  if (of !== model) return;
  waiting.add(id);
  lookSoon();
}
const lookSoon = throttle(async () => {
  const of = model;
  const ids = [...waiting].slice(0, 1000);
  if (waiting.size > 5000) {
    waiting.clear();
    await guarded(() => loadRows(of));
    return;
  }
  ids.forEach((id) => waiting.delete(id));
  await guarded(() => readTargets(of, ids));
  if (waiting.size) lookSoon();
}, 150);

async function readTargets(of, ids) {
  if (ids.length === 0) return;
  const askedAt = performance.now();
  const { value } = await request('POST', pathOf(of.namespace, 'leases'), { holder_id: 'web page', ops: ids.map((id) => ({ op: 'read', id })) });
  if (of.takeReads(value, askedAt)) redraw();
}

async function guarded(work) {
  try {
    await work();
  } catch (error) {
    failed(error);
  }
}

const planSoon = throttle(() => guarded(() => loadInstances(model, true)), 700);

// ---- following

function takeEvent(of, event) {
  if (event.id) of.lastId = event.id;
  if (event.event === 'resync') {
    guarded(() => loadAll(of));
    return;
  }
  const change = toChange(event.data);
  const look = of.takeChange(change);
  if (look === 'target') lookAt(of, change.target);
  if (look === 'instances') instancesSoon();
  planSoon();
  details.takeChange(change);
  events.push(change);
  redraw();
}
const instancesSoon = throttle(() => guarded(() => loadInstances(model, false)), 300);

const sleep = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => {
    clearTimeout(timer);
    resolve();
  }, { once: true });
});

function showLost(wake) {
  if (!lostSince) lostSince = Date.now();
  setLink('lost', 'Connection lost');
  setBanner(`Connection lost since ${formatTime(lostSince)}. What is shown is from before that; trying again…`, wake);
}

// Until it is stopped: the stream, then, when that is there, everything; so that nothing falls between the two.
async function follow(of) {
  const control = new AbortController();
  session = { stop: () => control.abort() };
  let attempt = 0;
  while (!control.signal.aborted) {
    try {
      await readEvents(of.namespace, '', control.signal, (event) => takeEvent(of, event), () => {
        attempt = 0;
        lostSince = 0;
        setLink('live', 'Live');
        setBanner('');
        guarded(() => loadAll(of));
      });
    } catch (error) {
      if (control.signal.aborted) return;
      if (error.status === 401) {
        askToken(error.message);
        return;
      }
      if (error.status === 403) {
        of.denied = error.message;
        setLink('lost', 'Not allowed');
        setBanner(`${error.message}. Choose another namespace, or another token.`);
        redraw();
        return;
      }
      const nap = new AbortController();
      showLost(() => nap.abort());
      control.signal.addEventListener('abort', () => nap.abort());
      await sleep(Math.min(5000, 300 * 2 ** attempt++), nap.signal);
    }
  }
}

// What the stream does not tell: heartbeats, renewals, leases that expired.
async function tend() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const of = model;
    if (document.hidden || find('link-state').dataset.state !== 'live') continue;
    await guarded(() => readTargets(of, grid.inSight().slice(0, 200).map((row) => row.id)));
    await guarded(() => loadInstances(of, false));
    if (performance.now() - (of.rowsAt || 0) > Math.max(15000, 20 * (of.rowsTook || 0))) {
      of.rowsAt = performance.now();
      await guarded(() => loadRows(of));
      await loadNamespaces();
    }
  }
}

// ---- drawing

const stateCell = (cell, row) => {
  const state = model.stateOf(row);
  const flapping = model.isFlapping(row);
  if (cell.firstChild && cell.state === state && cell.flapping === flapping) return;
  Object.assign(cell, { state, flapping });
  cell.replaceChildren(make('span', { class: `badge state-${state}` }, states[state]), ...(flapping ? [make('span', { class: 'badge state-flapping' }, 'Flapping')] : []));
};
const holderCell = (cell, row) => {
  if (cell.firstChild && cell.holder === row.holder) return;
  cell.holder = row.holder;
  cell.title = visible(row.holder || '');
  cell.replaceChildren(...(row.holder ? [make('span', { class: `tone-dot tone-${toneOf(row.holder)}`, 'aria-hidden': 'true' }), shortName(row.holder)] : ['–']));
};
const idCell = (cell, row) => {
  setText(cell, row.id);
  cell.title = row.id;
};
const endsText = (row) => {
  const left = row.endsAt - performance.now();
  if (!row.holder || !row.endsAt) return '–';
  return left < 1000 ? '<1s' : formatDuration(left); // it was read two seconds ago, and may have been renewed since
};

const grid = new Grid(find('grid'), [
  { key: 'id', title: 'Target', class: 'cell-id', fill: idCell },
  { key: 'state', title: 'State', class: 'cell-state', fill: stateCell },
  { key: 'holder', title: 'Holder', class: 'cell-holder', fill: holderCell },
  { key: 'version', title: 'Token', class: 'cell-token number', fill: (cell, row) => setText(cell, row.version ? String(row.version) : '–') },
  { key: 'since', title: 'Held for', class: 'cell-since number', fill: (cell, row) => setText(cell, row.holder && row.acquiredMs ? formatAge(serverNow() - row.acquiredMs) : '–') },
  { key: 'ends', title: 'Lease ends', class: 'cell-ends number', fill: (cell, row) => setText(cell, endsText(row)) },
], {
  open: (row) => openDetails({ kind: 'target', id: row.id }, true),
  sort: (key) => {
    view.descending = view.sort === key && !view.descending;
    view.sort = key;
    drawAll();
  },
});

const details = new Details({
  close: () => closeDetails(),
  pause: (row) => act(() => actions.pause(model.namespace, row)),
  drain: (id) => drain(id),
  move: (row) => act(() => actions.move(model.namespace, row, [...model.instances.values()])),
  force: (row) => act(() => actions.force(model.namespace, row)),
  openInstance: (id) => openDetails({ kind: 'instance', id }, true),
  failed,
});

function showDetails(what, focus) {
  details.opener = details.isOpen() ? details.opener : document.activeElement;
  details.open(model, what, focus);
  details.draw();
}

function hideDetails() {
  details.close();
  if (details.opener && details.opener.isConnected) details.opener.focus();
}

// What somebody opens or closes is a step in the browser's history.
function openDetails(what, focus) {
  showDetails(what, focus);
  keepAddress(true);
}

function closeDetails() {
  hideDetails();
  keepAddress(true);
}

async function act(work) {
  await guarded(async () => {
    const done = await work();
    if (!done) return;
    say(done);
    const id = details.what && details.what.kind === 'target' ? details.what.id : null;
    if (id) lookAt(model, id);
    instancesSoon();
    planSoon();
  });
}

function drain(id) {
  const others = [...model.instances.values()].filter((other) => other.id !== id && !other.draining).length;
  act(() => actions.drain(model.namespace, id, model.instances.get(id), others));
}

const redraw = throttle(() => drawAll(), 120);

function drawHolders() {
  const select = find('holder-filter');
  const names = [...model.holders.keys()].sort().slice(0, 300);
  if (view.holder && !names.includes(view.holder)) names.unshift(view.holder);
  const text = names.join('\n');
  if (select.names === text) return;
  select.names = text;
  select.replaceChildren(make('option', { value: '' }, 'Any holder'), ...names.map((name) => make('option', { value: name, selected: name === view.holder }, shortName(name))));
}

function noteOf(shown) {
  const all = model.rows.size;
  if (model.denied) return 'Not allowed';
  if (!model.complete) return `Loading… ${formatNumber(all)}`;
  const cut = model.isCut ? ` (the first ${formatNumber(all)} are loaded)` : '';
  return shown === all ? `${formatNumber(all)}${cut}` : `${formatNumber(shown)} of ${formatNumber(all)}${cut}`;
}

function drawAll() {
  drawCards(model.count(), view.state);
  drawInstances(model, { open: (id) => openDetails({ kind: 'instance', id }, true), drain });
  drawHolders();
  const rows = model.select(view);
  grid.setRows(rows, view.sort, view.descending);
  setText(find('targets-note'), noteOf(rows.length));
  const empty = find('grid-empty');
  empty.hidden = rows.length > 0 || !(model.complete || model.denied);
  setText(empty, model.denied ? `This token may not read the namespace ${model.namespace}.` : model.rows.size ? 'Nothing matches.' : `No target is registered or leased in the namespace ${model.namespace}.`);
  drawChanges(model, (what) => openDetails(what, true));
  details.draw();
}

// Times go on by themselves, and what has happened is told to screen readers, many at once as a number.
function tick() {
  if (document.hidden) return;
  grid.draw();
  drawInstances(model, { open: (id) => openDetails({ kind: 'instance', id }, true), drain });
  if (lostSince) setText(find('link-text'), `Lost for ${formatAge(Date.now() - lostSince)}`);
  if (events.length === 0) return;
  const lines = events.length > 3 ? [`${events.length} changes`] : events.map((change) => Object.values(sayChange(change)).join(''));
  find('events').replaceChildren(...lines.map((line) => make('p', {}, line)));
  events = [];
}

// ---- the address: #ns=poll&target=scene-01

function readAddress() {
  return new URLSearchParams(location.hash.slice(1));
}

function keepAddress(isStep) {
  const address = new URLSearchParams({ ns: model.namespace });
  if (details.what) address.set(details.what.kind, details.what.id);
  if (location.hash === `#${address}`) return;
  if (isStep) history.pushState(null, '', `#${address}`);
  else history.replaceState(null, '', `#${address}`);
}

const wantedDetails = (address) => ['target', 'instance'].filter((kind) => address.get(kind)).map((kind) => ({ kind, id: address.get(kind) }))[0] || null;

// The address has changed: a link that was pasted, Back or Forward.
function followAddress() {
  const address = readAddress();
  const namespace = address.get('ns') || model.namespace;
  if (namespace !== model.namespace) {
    start(namespace);
    return;
  }
  const what = wantedDetails(address);
  const shown = details.what;
  if (what && shown && what.kind === shown.kind && what.id === shown.id) return;
  if (what) showDetails(what, false);
  else if (shown) hideDetails();
}

// ---- namespaces

function drawNamespaces() {
  const names = [...new Set([...namespaces, model.namespace])].sort();
  const select = find('namespace');
  if (select.names !== names.join()) {
    select.names = names.join();
    select.replaceChildren(...names.map((name) => make('option', { value: name }, name)));
  }
  select.value = model.namespace;
}

async function loadNamespaces() {
  namespaces = (await request('GET', '/api/v1').catch(() => ({ value: namespaces }))).value;
  drawNamespaces();
}

// The one in the address, the last one, or the first that the store has.
async function firstNamespace() {
  const given = readAddress().get('ns') || localStorage.getItem('tenure-namespace');
  const loading = loadNamespaces();
  if (given) return given;
  await loading;
  return namespaces.includes(usual) ? usual : namespaces[0] || usual;
}

function start(namespace) {
  if (session) session.stop();
  const address = readAddress();
  model = new Model(namespace);
  waiting.clear();
  lostSince = 0;
  details.close();
  Object.assign(view, { text: '', state: '', holder: '' });
  find('search').value = '';
  find('state-filter').value = '';
  drawNamespaces();
  document.title = `${namespace} · Tenure`;
  find('sign-out').hidden = !hasToken();
  localStorage.setItem('tenure-namespace', namespace);
  setLink('connecting', 'Connecting');
  setBanner('');
  drawAll();
  const what = address.get('ns') === namespace ? wantedDetails(address) : null;
  if (what) showDetails(what, false);
  keepAddress(address.has('ns') && address.get('ns') !== namespace);
  follow(model);
}

// ---- the page's own controls

function choose(part) {
  Object.assign(view, part);
  find('state-filter').value = view.state;
  grid.element.scrollTop = 0;
  drawAll();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem('tenure-theme', theme);
  find('theme').value = theme;
}

function listen() {
  find('state-filter').append(make('option', { value: '' }, 'Any state'), ...Object.entries({ ...states, flapping: 'Flapping' }).map(([value, title]) => make('option', { value }, title)));
  makeCards((state) => choose({ state: view.state === state ? '' : state }));
  find('search').addEventListener('input', (event) => choose({ text: event.target.value.trim() }));
  find('state-filter').addEventListener('change', (event) => choose({ state: event.target.value }));
  find('holder-filter').addEventListener('change', (event) => choose({ holder: event.target.value }));
  find('theme').addEventListener('change', (event) => setTheme(event.target.value));
  find('namespace').addEventListener('change', (event) => start(event.target.value));
  find('namespace').addEventListener('focus', loadNamespaces);
  find('token-form').addEventListener('submit', (event) => {
    event.preventDefault();
    setToken(find('token').value.trim());
    find('token').value = '';
    find('token-dialog').close();
    loadNamespaces();
    start(model.namespace);
  });
  find('token-dialog').addEventListener('cancel', (event) => event.preventDefault());
  find('sign-out').addEventListener('click', () => {
    setToken('');
    start(model.namespace);
  });
  addEventListener('popstate', followAddress);
  addEventListener('hashchange', followAddress);
  addEventListener('keydown', (event) => {
    if (event.key !== '/' || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName) || document.querySelector('dialog[open]')) return;
    event.preventDefault();
    find('search').focus();
  });
}

setTheme(localStorage.getItem('tenure-theme') || 'auto');
listen();
setText(find('zone'), zoneName());
start(await firstNamespace());
tend();
setInterval(tick, 1000);
request('GET', '/readyz').then(({ value }) => setText(find('server-note'), `Tenure ${value.version} on ${value.store}`)).catch(() => {});
