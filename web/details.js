// What is known of one target or one instance: facts, what an admin may do, who held it when. Called by app.js.
import { find, formatDuration, formatNumber, formatStamp, make, shortName, throttle } from './dom.js';
import { pathOf, request, serverNow } from './api.js';
import { roleText, states, toChange } from './model.js';
import { drawTimeline, gapsOf, holdsOf, holdsTable } from './timeline.js';

const ranges = [['latest', 'Latest changes'], ['900000', '15 minutes'], ['3600000', '1 hour'], ['21600000', '6 hours'], ['86400000', '1 day'], ['0', 'All that is kept']];
const lanesMax = 30;
const latestHolds = 12;
const runsMax = 8;

const pinText = (pin) => pin && [`${pin.away ? 'away from' : 'to'} ${shortName(pin.instance)}`, pin.until && `until ${formatStamp(Date.parse(pin.until))}`, pin.actor && `by ${shortName(pin.actor)}`, pin.reason].filter(Boolean).join(', ');

export class Details {
  // on: {close(), pause(row), drain(id), force(row), openTarget(id), openInstance(id), failed(error)}
  constructor(on) {
    this.on = on;
    this.element = find('details');
    this.range = 'latest';
    this.checkpointSoon = throttle(() => (this.what && this.what.kind === 'target' ? this.loadCheckpoint() : null), 1000);
    // Wherever the focus is: the button that had it may be gone after what it did.
    addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.isOpen() && !document.querySelector('dialog[open]')) on.close();
    });
  }

  isOpen() {
    return !this.element.hidden;
  }

  // what: {kind: 'target' | 'instance', id}
  async open(model, what, focus) {
    Object.assign(this, { model, what, changes: [], known: 0, checkpoint: null });
    this.build();
    this.element.hidden = false;
    document.body.classList.add('with-details');
    if (focus) this.element.focus();
    await this.load();
  }

  close() {
    this.element.hidden = true;
    this.what = null;
    document.body.classList.remove('with-details');
  }

  // The history is read anew when something of it changed; a reader of many targets reads few lines each time.
  async load() {
    const { what, model } = this;
    const query = what.kind === 'target' ? `?limit=10000&target=${encodeURIComponent(what.id)}` : '?limit=10000';
    try {
      const { value } = await request('GET', `${pathOf(model.namespace, 'history')}${query}`);
      if (this.what !== what) return;
      this.changes = value.map(toChange).filter((change) => (what.kind === 'target' ? change.target === what.id : change.target));
      this.draw();
      if (what.kind === 'target') await this.loadCheckpoint();
    } catch (error) {
      this.on.failed(error);
    }
  }

  // What the holder has kept beside the lease. Most targets have none.
  async loadCheckpoint() {
    const { what, model } = this;
    const { value } = await request('GET', pathOf(model.namespace, what.id, 'checkpoint')).catch(() => ({ value: null }));
    if (this.what !== what) return;
    this.checkpoint = value && typeof value.value === 'string' && value.value !== '' ? value : null;
    this.draw();
  }

  takeChange(change) {
    if (!this.what || (this.what.kind === 'target' && change.target !== this.what.id) || !change.target) return;
    this.changes.push(change);
    this.checkpointSoon();
  }

  build() {
    const { what } = this;
    this.factsText = this.buttonsText = null;
    this.facts = make('dl', { class: 'facts' });
    this.buttons = make('div', { class: 'buttons' });
    this.picture = make('div', { class: 'picture' });
    this.table = make('div', { class: 'holds-scroll', tabindex: '0', role: 'region', 'aria-label': 'Holds, newest first' });
    const range = make('select', { id: 'range', onchange: (event) => {
      this.range = event.target.value;
      this.draw();
    } }, ...ranges.map(([ms, text]) => make('option', { value: ms, selected: ms === this.range }, text)));
    this.element.replaceChildren(
      make('div', { class: 'panel-head' },
        make('h2', { id: 'details-title', class: 'name' }, make('span', { class: 'quiet' }, what.kind === 'target' ? 'Target ' : 'Instance '), what.id),
        make('button', { type: 'button', class: 'small', onclick: (event) => copy(what.id, event.target) }, 'Copy'),
        make('button', { type: 'button', class: 'close', 'aria-label': 'Close details', onclick: () => this.on.close() }, '✕')),
      this.facts, this.buttons,
      make('div', { class: 'panel-head' }, make('h3', {}, 'Who held it when'), make('label', { class: 'visually-hidden', for: 'range' }, 'Stretch of time'), range),
      this.picture, this.table);
    if (what.kind === 'instance') this.element.querySelector('h3').textContent = 'What it held when';
  }

  draw() {
    if (!this.what) return;
    if (this.what.kind === 'target') this.drawTarget();
    else this.drawInstance();
  }

  instanceLink(id, isShort) {
    return make('button', { type: 'button', class: 'link-button', title: id, onclick: () => this.on.openInstance(id) }, isShort ? shortName(id) : id);
  }

  setFacts(pairs) {
    const wanted = pairs.filter(([, value]) => value !== undefined && value !== null && value !== '');
    const text = JSON.stringify(wanted.map(([term, value]) => [term, value.textContent ?? value]));
    if (text === this.factsText) return; // what has the focus stays
    this.factsText = text;
    this.facts.replaceChildren(...wanted.flatMap(([term, value]) => [make('dt', {}, term), make('dd', {}, value)]));
  }

  setButtons(buttons) {
    const text = this.what.id + buttons.map(([title]) => title).join();
    if (text === this.buttonsText) return;
    this.buttonsText = text;
    this.buttons.replaceChildren(...buttons.map(([title, run, kind]) => make('button', { type: 'button', class: kind || '', onclick: run }, title)));
  }

  drawTarget() {
    const row = this.model.rows.get(this.what.id);
    const link = row && row.holder ? this.instanceLink(row.holder) : 'none';
    const holder = row && row.holder && this.model.instances.get(row.holder);
    const standbys = row ? this.model.standbysOf(row) : [];
    const planned = this.model.moving.get(this.what.id);
    this.setFacts(!row ? [['State', 'not known here']] : [
      ['State', `${states[this.model.stateOf(row)]}: ${this.model.whyOf(row)}`],
      ['Holder', link],
      ['Address', holder && holder.address],
      ['Standbys', standbys.length ? make('span', { class: 'list' }, ...standbys.map(({ id }) => this.instanceLink(id, true))) : null],
      ['Planned for', planned],
      ['Pinned', pinText(row.pin)],
      ['Token', String(row.version)],
      ['Held since', row.holder && row.acquiredMs ? formatStamp(row.acquiredMs) : null],
      ['TTL', row.holder && row.ttlMs ? formatDuration(row.ttlMs) : null],
      ['URL', row.url], ['Command', row.exec],
      ['Every', row.everyMs ? formatDuration(row.everyMs) : null],
      ['Spec', row.spec === undefined ? null : JSON.stringify(row.spec)],
      ...checkpointFacts(this.checkpoint),
      ['Recent runs', recentRuns(this.changes)],
    ]);
    const admin = this.model.role === 'admin' && row;
    this.setButtons([
      ...(admin && row.registered ? [[row.paused ? 'Resume' : 'Pause', () => this.on.pause(this.model.rows.get(row.id))]] : []),
      ...(admin && row.registered ? [[row.pin ? 'Change pin' : 'Move to', () => this.on.move(this.model.rows.get(row.id))]] : []),
      ...(admin && row.holder ? [['Force release', () => this.on.force(this.model.rows.get(row.id)), 'danger']] : []),
    ]);
    const holds = holdsOf(this.changes);
    const last = holds[holds.length - 1];
    if (row && row.holder && (!last || last.to !== null) && row.acquiredMs) holds.push({ target: row.id, instance: row.holder, token: row.version, from: row.acquiredMs, to: null, end: '' });
    this.drawHolds([{ name: this.what.id, holds, gaps: gapsOf(holds, row && !row.holder && !row.paused) }], holds, false);
  }

  drawInstance() {
    const { what, model } = this;
    const instance = model.instances.get(what.id);
    const holds = holdsOf(this.changes).filter((hold) => hold.instance === what.id);
    const lanes = new Map();
    for (const hold of holds) lanes.set(hold.target, [...(lanes.get(hold.target) || []), hold]);
    const held = model.holders ? model.holders.get(what.id) || 0 : 0;
    this.setFacts(!instance ? [['State', held ? 'gone, or never announced; its leases have not expired yet' : 'gone, or never announced'], ['Holds', formatNumber(held)]] : [
      ['State', instance.role ? roleText(instance) : instance.draining ? 'draining: it hands over, and takes nothing' : 'takes its share'],
      ['Holds', instance.role ? formatNumber(held) : `${formatNumber(held)} of ${formatNumber(instance.planned === undefined ? held : instance.planned)} planned`],
      ['Weight', instance.role ? null : String(instance.weight)], ['Since', formatStamp(instance.sinceMs)], ['TTL', formatDuration(instance.ttlMs)], ['Address', instance.address],
      ['Labels', instance.labels && Object.entries(instance.labels).map(([name, value]) => `${name}=${value}`).join(', ')],
      ['Metadata', instance.metadata],
    ]);
    this.setButtons(model.role === 'admin' && instance && !instance.lock ? [[instance.draining ? 'Undo drain' : 'Drain', () => this.on.drain(what.id), instance.draining ? '' : 'danger']] : []);
    const latest = [...lanes].sort((a, b) => lastOf(b[1]) - lastOf(a[1])).slice(0, lanesMax).sort((a, b) => (a[0] < b[0] ? -1 : 1));
    this.drawHolds(latest.map(([name, of]) => ({ name, holds: of })), holds, true);
  }

  // When the picture begins.
  startOf(holds, now) {
    if (Number(this.range) > 0) return now - Number(this.range);
    const counted = this.range === 'latest' ? holds.slice(-latestHolds) : holds;
    const oldest = Math.min(now - 10000, ...counted.map((hold) => hold.from || hold.to));
    return oldest - (now - oldest) / 20;
  }

  drawHolds(lanes, holds, withTarget) {
    const now = serverNow();
    const from = this.startOf(holds, now);
    const width = Math.max(260, this.picture.clientWidth || 360);
    const label = `${withTarget ? 'What' : 'Targets'} ${withTarget ? shortName(this.what.id) : this.what.id} ${withTarget ? 'held' : 'was held by'}, as a timeline; the table below says the same.`;
    this.picture.replaceChildren(lanes.length ? drawTimeline(lanes, from, now, width, label) : make('p', { class: 'quiet' }, 'No change of holder is kept.'));
    if (!this.table.matches(':focus-within') || this.known !== holds.length) this.table.replaceChildren(holdsTable(holds, withTarget, `Holds of ${this.what.id}, newest first`));
    this.known = holds.length;
  }
}

async function copy(text, button) {
  const done = await navigator.clipboard.writeText(text).then(() => 'Copied', () => 'Not allowed');
  button.textContent = done;
  setTimeout(() => (button.textContent = 'Copy'), 1500);
}

// A job of `tenure cron` keeps its runs in its checkpoint, as key=value words; anything else is shown as it is.
function checkpointFacts(checkpoint) {
  if (!checkpoint) return [];
  const text = checkpoint.value;
  if (!text.startsWith('cron=1 ')) return [['Checkpoint', text], ['Written under', `token ${checkpoint.version}`]];
  const run = Object.fromEntries(text.split(' ').map((word) => word.split(/=(.*)/s).slice(0, 2)));
  const at = (ms) => (Number(ms) > 0 ? formatStamp(Number(ms)) : null);
  const ended = `exit code ${run.exit} after ${formatDuration(Number(run.ms))}`;
  return [
    ['Last run', at(run.started)],
    ['Result', !at(run.started) ? null : run.open === '1' ? 'running, or its host died during the run' : ended],
    ['Run by', run.by ? shortName(run.by) : null],
    ['Next run', at(run.next)],
    ['Runs', `${formatNumber(Number(run.runs))}, ${formatNumber(Number(run.skipped))} skipped`],
  ];
}

const endings = { exited: (run) => `exit code ${run.exitCode}`, signal: (run) => `signal ${run.exitCode - 128}`, timed_out: () => 'timed out', not_started: () => 'could not start' };
const runTexts = {
  cron_started: () => 'running',
  cron_ended: (run) => `${(endings[run.reason] || (() => run.reason))(run)} after ${formatDuration(run.durationMs)}`,
  cron_lost: () => 'lost: its host died during the run',
  cron_missed: (run) => `${formatNumber(run.count)} skipped (${run.reason})`,
};

// The last runs of a job, the newest first; of another target null.
function recentRuns(changes) {
  const runs = changes.filter((change) => runTexts[change.event]).slice(-runsMax).reverse();
  if (runs.length === 0) return null;
  return make('div', {}, ...runs.map((run) => make('div', {}, `${formatStamp(Date.parse(run.instant))}: ${runTexts[run.event](run)}`)));
}

const lastOf = (holds) => holds[holds.length - 1].to || Infinity;
