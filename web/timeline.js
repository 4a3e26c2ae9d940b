// Who held what, when: from changes of hands to stretches, and stretches to a picture and to a table that says the same.
// Pure but for the elements that it makes. Used by details.js.
import { formatDuration, formatStamp, formatTime, make, makeSvg, shortName, toneOf } from './dom.js';
import { serverNow } from './api.js';

// Who held what, oldest first: {target, instance, token, from, to, end}. `from` null: before what is kept; `to`
// null: it lasts.
export function holdsOf(changes) {
  const holds = [];
  const open = new Map(); // by target
  const close = (change, end) => {
    const hold = open.get(change.target);
    open.delete(change.target);
    if (!hold) return;
    hold.to = change.atMs;
    hold.end = end;
  };
  for (const change of changes) {
    if (change.event === 'lease_acquired') {
      const before = open.get(change.target);
      if (before && before.token === change.token) continue;
      close(change, 'taken over');
      endEarlier(holds, change);
      const hold = { target: change.target, instance: change.instance, token: change.token, from: change.atMs, to: null, end: '' };
      holds.push(hold);
      open.set(change.target, hold);
    } else if (change.event === 'lease_released' || change.event === 'lease_lost') {
      const word = `${change.event === 'lease_lost' ? 'lost' : 'released'}${change.reason ? ` (${change.reason})` : ''}${change.actor ? `, by ${shortName(change.actor)}` : ''}`;
      if (open.has(change.target)) close(change, word);
      else holds.push({ target: change.target, instance: change.instance, token: change.token, from: change.heldMs ? change.atMs - change.heldMs : null, to: change.atMs, end: word });
    }
  }
  return holds;
}

// That a lease expired is noted when the next holder comes; how long it was free says when it really was.
function endEarlier(holds, change) {
  if (!change.freeMs) return;
  for (let i = holds.length - 1; i >= 0; i--) {
    if (holds[i].target !== change.target) continue;
    if (holds[i].to !== null && holds[i].to > change.atMs - change.freeMs && (holds[i].from || 0) < change.atMs - change.freeMs) holds[i].to = change.atMs - change.freeMs;
    return;
  }
}

const isBad = (hold) => hold.end.startsWith('lost') || hold.end === 'taken over';

function ticksOf(from, to, count) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400].map((s) => s * 1000);
  const step = steps.find((ms) => (to - from) / ms <= count) || 86400000;
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at < to; at += step) ticks.push(at);
  return ticks;
}

// lanes: [{name, holds, gaps}]; a lane is a line of bars.
export function drawTimeline(lanes, from, to, width, label) {
  const nameWidth = lanes.length > 1 ? Math.min(110, width / 3) : 0;
  const laneHeight = lanes.length > 1 ? 20 : 34;
  const height = lanes.length * laneHeight + 20;
  const scale = (ms) => nameWidth + ((ms - from) / (to - from)) * (width - nameWidth);
  const svg = makeSvg('svg', { class: 'timeline', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label });
  for (const at of ticksOf(from, to, Math.max(2, (width - nameWidth) / 80))) {
    const x = scale(at);
    svg.append(makeSvg('line', { class: 'tick', x1: x, x2: x, y1: 0, y2: height - 18 }));
    if (x < width - 26 && x > nameWidth + 20) svg.append(makeSvg('text', { class: 'axis', x, y: height - 5, 'text-anchor': 'middle' }, formatTime(at).slice(-8, to - from > 600000 ? -3 : undefined)));
  }
  lanes.forEach((lane, i) => drawLane(svg, lane, i * laneHeight, laneHeight, { from, to, scale, nameWidth }));
  return svg;
}

function drawLane(svg, lane, top, height, { from, to, scale, nameWidth }) {
  if (nameWidth) svg.append(makeSvg('text', { class: 'lane-name', x: 0, y: top + height / 2 + 4 }, lane.name.length > 16 ? `${lane.name.slice(0, 15)}…` : lane.name));
  for (const gap of lane.gaps || []) {
    const x = scale(Math.max(from, gap.from));
    const end = scale(Math.min(to, gap.to));
    if (end <= x || gap.to < from) continue;
    svg.append(makeSvg('rect', { class: 'gap', x, y: top + 4, width: Math.max(1.5, end - x), height: height - 8 }, makeSvg('title', {}, `unowned for ${formatDuration(gap.to - gap.from)}`)));
  }
  for (const hold of lane.holds) {
    if (hold.to !== null && hold.to < from) continue;
    const x = scale(Math.max(from, hold.from === null ? from : hold.from));
    const end = scale(Math.min(to, hold.to === null ? to : hold.to));
    const title = `${hold.instance}, token ${hold.token}: ${hold.from === null ? 'before' : formatTime(hold.from)} to ${hold.to === null ? 'now' : `${formatTime(hold.to)}, ${hold.end}`}`;
    svg.append(makeSvg('rect', { class: `hold tone-${toneOf(hold.instance)}`, x, y: top + 3, width: Math.max(2, end - x - 1), height: height - 6, rx: 3 }, makeSvg('title', {}, title)));
    const name = shortName(hold.instance);
    if (!nameWidth && end - x > name.length * 7 + 12) svg.append(makeSvg('text', { class: 'hold-name', x: x + 7, y: top + height / 2 + 4 }, name));
    if (hold.to !== null && isBad(hold)) svg.append(makeSvg('line', { class: 'broken', x1: end, x2: end, y1: top, y2: top + height }));
  }
}

// Between one hold and the next of the same target; what is free now, until now.
export function gapsOf(holds, isFree) {
  const gaps = [];
  for (let i = 1; i < holds.length; i++) if (holds[i - 1].to !== null && holds[i].from - holds[i - 1].to > 0) gaps.push({ from: holds[i - 1].to, to: holds[i].from });
  const last = holds[holds.length - 1];
  if (isFree && last && last.to !== null) gaps.push({ from: last.to, to: serverNow() });
  return gaps;
}

// The same in words.
export function holdsTable(holds, withTarget, caption) {
  const head = ['From', 'For', withTarget ? 'Target' : 'Holder', 'Token'];
  const rows = holds.slice(-100).reverse().flatMap((hold) => [make('tr', {},
    make('td', { title: hold.from === null ? '' : formatStamp(hold.from) }, hold.from === null ? 'earlier' : formatTime(hold.from)),
    make('td', { class: 'number' }, hold.from === null ? '–' : formatDuration((hold.to === null ? serverNow() : hold.to) - hold.from)),
    make('td', { title: withTarget ? hold.target : hold.instance, class: 'name' }, withTarget ? hold.target : shortName(hold.instance)),
    make('td', { class: 'number' }, String(hold.token))),
  // Why it ended has a line of its own: it is what people look for, and it is long.
  make('tr', { class: 'ending' }, make('td', { colspan: '4', class: isBad(hold) ? 'bad' : '' }, hold.to === null ? 'holds it now' : `ended ${formatTime(hold.to)}: ${hold.end}`))]);
  return make('table', { class: 'holds' },
    make('caption', { class: 'visually-hidden' }, caption),
    make('thead', {}, make('tr', {}, ...head.map((title, i) => make('th', { scope: 'col', class: i === 1 || i === 3 ? 'number' : '' }, title)))),
    make('tbody', {}, ...rows));
}
