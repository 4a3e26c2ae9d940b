// The server's API: requests with the token of whoever looks, and the event stream. It knows paths and headers, not what
// the answers mean. The token lives in this tab alone.

const tokenKey = 'tenure-token';
let token = sessionStorage.getItem(tokenKey) || '';
let clockOffsetMs = 0;

export const hasToken = () => token !== '';
export function setToken(text) {
  token = text;
  if (text) sessionStorage.setItem(tokenKey, text);
  else sessionStorage.removeItem(tokenKey);
}

// The server's time of day: leases are shown by it, whatever the browser's clock says.
export const serverNow = () => Date.now() + clockOffsetMs;

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

function headersFor(body) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  return headers;
}

function noteClock(response) {
  const offset = Date.parse(response.headers.get('Date') || '') - Date.now();
  if (Math.abs(offset) > 2000) clockOffsetMs = offset;
}

async function failure(response) {
  let about = {};
  try {
    about = (await response.json()).error || {};
  } catch {
    // what came was not the API's
  }
  return new ApiError(response.status, about.code || 'failed', about.message || `the server answered ${response.status}`);
}

// Resolves to {value, headers}; a status that is not a success, or no answer, is an ApiError.
export async function request(method, path, body) {
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: headersFor(body),
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: 'omit',
      signal: AbortSignal.timeout(30000),
    });
  } catch {
    throw new ApiError(0, 'unreachable', 'the server does not answer');
  }
  noteClock(response);
  if (!response.ok) throw await failure(response);
  const text = await response.text();
  return { value: text ? JSON.parse(text) : null, headers: response.headers };
}

export const pathOf = (namespace, ...rest) => ['/api/v1', namespace, ...rest].map((part, i) => (i ? encodeURIComponent(part) : part)).join('/');

// The link rel="next" of a page; null: it was the last.
export function nextPage(headers) {
  const link = /<([^>]+)>;\s*rel="next"/.exec(headers.get('Link') || '');
  return link && link[1].startsWith('/api/') ? link[1] : null;
}

const silenceMs = 40000; // the stream has a sign of life each 15 s

// EventSource cannot send a token, so the stream is read here. `on` is called with {id, event, data}; the promise ends
// with an error when the stream does.
export async function readEvents(namespace, lastId, signal, on, opened) {
  const guard = new AbortController();
  const stop = () => guard.abort();
  signal.addEventListener('abort', stop);
  let timer = setTimeout(stop, 10000);
  try {
    const headers = headersFor();
    if (lastId) headers['Last-Event-ID'] = lastId;
    const response = await fetch(pathOf(namespace, 'events'), { headers, credentials: 'omit', signal: guard.signal, cache: 'no-store' });
    if (!response.ok) throw await failure(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    let isOpen = false;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new ApiError(0, 'closed', 'the server ended the stream');
      clearTimeout(timer);
      timer = setTimeout(stop, silenceMs);
      if (!isOpen) {
        isOpen = true;
        opened();
      }
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop();
      for (const block of blocks) {
        const event = parseEvent(block);
        if (event) on(event);
      }
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
    guard.abort();
  }
}

function parseEvent(block) {
  const event = { id: '', event: '', data: null };
  for (const line of block.split('\n')) {
    if (line.startsWith('id: ')) event.id = line.slice(4);
    else if (line.startsWith('event: ')) event.event = line.slice(7);
    else if (line.startsWith('data: ')) event.data = JSON.parse(line.slice(6));
  }
  return event.event && event.data ? event : null;
}
