// Elements and texts. Everything that came from elsewhere is set as text, never as markup: nothing here, or in any other
// script of the page, parses HTML. Used by all of them.

// A name must not read as another one: what changes the direction of a text is shown by its number.
export const visible = (text) => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, (character) => `\\u${character.charCodeAt(0).toString(16)}`);
const shown = (child) => (typeof child === 'string' ? visible(child) : child);

export const find = (id) => document.getElementById(id);

// make('td', {class: 'number', onclick: f, 'aria-label': '…'}, child or text, …)
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : key === 'title' ? visible(value) : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map(shown));
  return element;
}

export function makeSvg(name, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.map(shown));
  return element;
}

// Touches the page only when the text is another: a thousand cells are set each second.
export function setText(element, text) {
  if (element.textContent !== visible(text)) element.textContent = visible(text);
}

const numbers = new Intl.NumberFormat('en');
export const formatNumber = (number) => numbers.format(number);

// 850ms, 12s, 4m 05s, 3h 12m, 5d 4h
export function formatDuration(ms) {
  if (!(ms >= 0)) return '–';
  if (ms < 1000) return `${Math.round(ms)}ms`;
  const seconds = Math.floor(ms / 1000);
  const pad = (number) => String(number).padStart(2, '0');
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${pad(seconds % 60)}s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h ${pad(Math.floor(seconds / 60) % 60)}m`;
  return `${Math.floor(seconds / 86400)}d ${Math.floor(seconds / 3600) % 24}h`;
}

// The same in whole seconds, for what is shown each second.
export const formatAge = (ms) => (ms < 1000 ? '0s' : formatDuration(Math.floor(ms / 1000) * 1000));

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
export function formatTime(ms) {
  const date = new Date(ms);
  const today = new Date().toDateString() === date.toDateString();
  return today ? clock.format(date) : `${day.format(date)} ${clock.format(date)}`;
}

// Times are those of the browser's zone; the page says once which that is: Europe/Berlin, UTC+01:00
export function zoneName() {
  const minutes = -new Date().getTimezoneOffset();
  const pad = (number) => String(Math.floor(number)).padStart(2, '0');
  const offset = minutes ? `UTC${minutes < 0 ? '-' : '+'}${pad(Math.abs(minutes) / 60)}:${pad(Math.abs(minutes) % 60)}` : 'UTC';
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return !name || name === offset || name === 'Etc/Unknown' ? offset : `${name}, ${offset}`;
}

// With date and zone: 17 Nov 2026, 16:03:04 CET
const stamp = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short' });
export const formatStamp = (ms) => stamp.format(new Date(ms));

// An id is name-startNanoseconds-8hex: the middle says little to people.
export function shortName(instance) {
  const parts = /^(.+)-\d{16,20}-([0-9a-f]{8})$/.exec(instance);
  return visible(parts ? `${parts[1]} ${parts[2].slice(0, 4)}` : instance);
}

// The same instance has the same colour everywhere, and after a reload: what it was is remembered. A host that starts again
// prefers the colour that its name had; two that were seen lately share one only when there are more than colours.
const toneCount = 8;
const tonesMax = 200;
const tonesKey = 'tenure-tones';
const tones = new Map(readTones());

function readTones() {
  try {
    return JSON.parse(localStorage.getItem(tonesKey) || '[]').filter(([id, tone]) => typeof id === 'string' && Number.isInteger(tone) && tone >= 0 && tone < toneCount);
  } catch {
    return [];
  }
}

function preferredTone(instance) {
  let hash = 2166136261;
  for (const letter of shortName(instance).replace(/ [0-9a-f]{4}$/, '')) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619);
  return ((hash ^ (hash >>> 15)) >>> 0) % toneCount;
}

export function toneOf(instance) {
  const known = tones.get(instance);
  if (known !== undefined) return known;
  const taken = new Set([...tones.values()].slice(1 - toneCount));
  let tone = preferredTone(instance);
  for (let tries = 0; taken.has(tone) && tries < toneCount; tries++) tone = (tone + 1) % toneCount;
  tones.set(instance, tone);
  localStorage.setItem(tonesKey, JSON.stringify([...tones].slice(-tonesMax)));
  return tone;
}

// Calls `work` once, soon, however often it is asked for; never more often than each `gapMs`, or ten times what it takes.
export function throttle(work, gapMs) {
  let timer = 0;
  let last = -Infinity;
  let took = 0;
  return () => {
    if (timer) return;
    const wait = Math.max(0, last + Math.max(gapMs, 10 * took) - performance.now());
    timer = setTimeout(async () => {
      timer = 0;
      const began = performance.now();
      await work();
      last = performance.now();
      took = last - began;
    }, wait);
  };
}
