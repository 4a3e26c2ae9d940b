// What the cases of page.mjs stand on: a server and agents of their own, a browser, and the account in TAP. Nothing here
// knows what the page should look like.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const work = process.env.WEB_WORK;
export const pictures = join(work, 'screenshots');
const program = process.env.TENURE;
const { chromium } = createRequire(join(work, 'package.json'))('playwright-core');
export const directory = mkdtempSync(join(tmpdir(), 'tenure-web-'));
const children = new Set();
mkdirSync(pictures, { recursive: true });

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function check(holds, ...about) {
  if (!holds) throw new Error(about.map((each) => (typeof each === 'string' ? each : JSON.stringify(each))).join(' '));
}

// Until it is true; at most so long, which is generous because other tests run beside these.
export async function until(about, condition, ms = 60000) {
  const end = Date.now() + ms;
  let last;
  for (;;) {
    try {
      if ((last = await condition())) return last;
    } catch (error) {
      last = error.message;
    }
    check(Date.now() < end, `not within ${ms} ms:`, about, 'last:', String(last));
    await sleep(50);
  }
}

// Below the ports that the kernel gives to connections, or one of those could take it while the server restarts.
export async function freePort() {
  for (;;) {
    const port = 10000 + Math.floor(Math.random() * 22000);
    const free = await new Promise((resolve) => {
      const server = createServer().once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
    });
    if (free) return port;
  }
}

export function run(...words) {
  const child = spawn(program, words, { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, XDG_STATE_HOME: directory } });
  child.errors = '';
  child.stderr.on('data', (text) => (child.errors = (child.errors + text).slice(-4000)));
  child.ended = new Promise((resolve) => child.on('exit', resolve));
  children.add(child);
  child.ended.then(() => children.delete(child));
  return child;
}

export async function runToEnd(...words) {
  const child = run(...words);
  const code = await child.ended;
  check(code === 0, words.join(' '), 'ended with', String(code), child.errors);
}

export async function serve(port, store, ...more) {
  const child = run('serve', '--listen', `127.0.0.1:${port}`, '--store', store, ...more);
  await until(`a server on ${port}`, async () => (await fetch(`http://127.0.0.1:${port}/healthz`)).ok);
  return child;
}

export const agent = (store, name, ...more) => run('agent', '--store', store, '--name', name, '--targets', 'store', '--poll', 'exec:true', '--every', '5s', '--publish', `file:${directory}/${name}.out`, ...more);

export async function stop(child, signal = 'SIGTERM') {
  child.kill(signal);
  await child.ended;
}

export async function openBrowser() {
  const place = (process.env.PATH || '').split(':').concat('/usr/bin').map((each) => join(each, 'chromium')).find(existsSync);
  return chromium.launch({ executablePath: place, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run'] });
}

const cases = [];
export const test = (name, body) => cases.push({ name, body });

export async function runAll(before, after) {
  const only = process.argv[2];
  const chosen = cases.filter(({ name }) => !only || name.includes(only));
  console.log(`1..${chosen.length}`);
  let failed = 0;
  try {
    await before();
    for (const [i, { name, body }] of chosen.entries()) {
      const began = Date.now();
      let wrong = null;
      try {
        await body();
      } catch (error) {
        wrong = error;
        failed++;
      }
      console.log(`${wrong ? 'not ok' : 'ok'} ${i + 1} - ${name}\n# ${Date.now() - began} ms`);
      if (wrong) console.log(String(wrong.stack).replace(/^/gm, '# '));
    }
  } catch (error) {
    failed++;
    console.log(`Bail out! ${String(error.message).replaceAll('\n', ' ')}`);
  }
  await after().catch(() => {});
  for (const child of children) child.kill('SIGTERM');
  await Promise.race([Promise.all([...children].map((child) => child.ended)), sleep(5000)]);
  for (const child of children) child.kill('SIGKILL');
  rmSync(directory, { recursive: true, force: true });
  process.exit(failed ? 1 : 0);
}
