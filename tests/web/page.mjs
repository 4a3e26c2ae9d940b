// The web page of `tenure serve`, as a person with a browser meets it. Real server, real agents, real Chromium.
import { createServer } from 'node:http';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { agent, check, directory, freePort, openBrowser, pictures, runAll, runToEnd, serve, sleep, stop, test, until } from './fixture.mjs';

const store = `sqlite:${directory}/tenure.db`;
const ids = Array.from({ length: 12 }, (_, i) => `session-${String(i + 1).padStart(2, '0')}`);
let port, server, browser, page, base;
const agents = {};
const complaints = []; // of the browser: errors, refused by the policy
const foreign = []; // requests that went elsewhere

const ask = async (method, path, body, headers = {}) => {
  const answer = await fetch(base + path, { method, body: body && JSON.stringify(body), headers: { 'Content-Type': 'application/json', ...headers } });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, body: text && JSON.parse(text) };
};
const count = async (key) => Number((await page.textContent(`#count-${key}`)).replaceAll(',', ''));
const rowOf = (id) => page.locator('#grid .grid-body .grid-row:not([hidden])', { hasText: id });
const shown = () => page.$$eval('#grid .grid-body .grid-row:not([hidden])', (rows) => rows.sort((a, b) => a.index - b.index).map((row) => row.children[0].textContent));
const isLive = () => until('the page is live', async () => (await page.textContent('#link-text')) === 'Live');
const instanceRow = (name) => page.locator('#fleet-rows tr', { hasText: name });

async function openPage(address = '/#ns=poll', settings = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...settings });
  const opened = await context.newPage();
  opened.setDefaultTimeout(60000);
  opened.on('console', (message) => message.type() === 'error' && !/ERR_|status of/.test(message.text()) && complaints.push(message.text()));
  opened.on('pageerror', (error) => complaints.push(String(error)));
  opened.on('request', (request) => !request.url().startsWith(base) && !request.url().startsWith('data:') && foreign.push(request.url()));
  await opened.goto(base + address);
  return opened;
}

async function before() {
  port = await freePort();
  base = `http://127.0.0.1:${port}`;
  server = await serve(port, store);
  await ask('POST', '/api/v1/poll', { edits: ids.map((id) => ({ action: 'put', target: { id, url: 'https://example.invalid/' } })) });
  for (const name of ['anna', 'berta', 'clara']) agents[name] = agent(store, name, '--ttl', '2s', '--renew', '500ms', '--settle', '200ms');
  browser = await openBrowser();
  page = await openPage();
}

test('it loads, and shows the fleet, its shares and its plan', async () => {
  await isLive();
  await until('all are held as planned', async () => (await count('held')) === ids.length && (await count('moving')) === 0);
  for (const name of Object.keys(agents)) {
    const text = await until('the share', async () => {
      const found = await instanceRow(name).innerText();
      return found.includes('4 / 4') && found;
    });
    check(/\d+s of 2s/.test(text), 'no heartbeat in', text);
  }
  check((await shown()).join() === ids.join(), await shown());
  check((await page.textContent('#server-note')).includes('sqlite'));
});

test('a switch makes it dark, and a new visit finds it so', async () => {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.selectOption('#theme', 'dark');
  check((await ground()) !== light, 'it stayed', light);
  await page.reload();
  check((await page.inputValue('#theme')) === 'dark');
  await page.selectOption('#theme', 'auto');
  await isLive();
});

test('search, filters and sorting show what is wanted', async () => {
  await page.fill('#search', 'SESSION-1');
  await until('three match', async () => (await shown()).join() === 'session-10,session-11,session-12');
  check((await page.textContent('#targets-note')).includes('3 of 12'));
  await page.fill('#search', '');
  await page.selectOption('#state-filter', 'unowned');
  await until('none is unowned', async () => (await shown()).length === 0 && (await page.isVisible('#grid-empty')));
  await page.selectOption('#state-filter', '');
  const holder = await page.$$eval('#holder-filter option', (options) => options.map((option) => option.value).find((value) => value.startsWith('anna')));
  await page.selectOption('#holder-filter', holder);
  await until("anna's four", async () => (await shown()).length === 4);
  await page.selectOption('#holder-filter', '');
  await page.click('.grid-head button:has-text("Target")');
  await until('the order is reversed', async () => (await shown())[0] === 'session-12');
  check((await page.getAttribute('.grid-head .cell-id', 'aria-sort')) === 'descending');
  await page.click('.grid-head button:has-text("Target")');
});

test('a target that is paused and resumed follows what the fleet does', async () => {
  await rowOf('session-05').click();
  await page.click('.details button:has-text("Pause")');
  check((await page.textContent('#confirm')).includes('releases it'));
  await page.click('#confirm button[type=submit]');
  await until('it is paused', async () => (await rowOf('session-05').innerText()).includes('Paused') && (await count('paused')) === 1);
  await page.click('.details button:has-text("Resume")');
  await page.click('#confirm button[type=submit]');
  await until('it is held again', async () => (await rowOf('session-05').innerText()).includes('Held'));
  await until('the timeline shows the gap', async () => (await page.$$('.timeline .gap')).length > 0);
  check((await page.$$('.holds tbody tr')).length >= 2, 'the table says less than the picture');
  await page.keyboard.press('Escape');
  check(!(await page.isVisible('#details')), 'Escape did not close it');
});

test('a target is moved to another instance, stays there, and is let go', async () => {
  const holderOf = async () => (await rowOf('session-05').locator('.cell-holder').innerText()).split(' ')[0];
  await rowOf('session-05').click();
  const from = await holderOf();
  await page.click('.details button:has-text("Move to")');
  check((await page.textContent('#confirm')).includes('hands it over'));
  const to = (await page.locator('#confirm .choice strong').first().innerText()).split(' ')[0];
  check(to !== from, 'it is offered to stay first:', to);
  await page.click('#confirm button[type=submit]');
  await until('it is held by the other', async () => (await holderOf()) === to);
  await until('the details say so', async () => (await page.textContent('.details')).includes(`to ${to}`));
  await page.click('.details button:has-text("Change pin")');
  await page.click('#confirm .choice:has-text("Let the plan decide")');
  await page.click('#confirm button[type=submit]');
  await until('it is back', async () => (await holderOf()) === from);
  await page.waitForSelector('.details button:has-text("Move to")');
  await page.keyboard.press('Escape');
});

test('a forced release says what it suspends, and moves the target on', async () => {
  await rowOf('session-07').click();
  const token = async () => Number(await page.locator('#grid .grid-row[aria-selected=true] .cell-token').textContent());
  const old = await token();
  await page.click('.details button:has-text("Force release")');
  const text = await page.textContent('#confirm');
  check(text.includes('G3') && text.includes('when the lease expires'), text);
  await page.click('#confirm button:has-text("Cancel")');
  await sleep(300);
  check((await token()) === old, 'cancelled, and done nevertheless');
  await page.click('.details button:has-text("Force release")');
  await page.check('#confirm input[value=force_now]');
  await page.click('#confirm button[type=submit]');
  await until('a higher token', async () => (await token()) > old);
  await page.keyboard.press('Escape');
  const { body } = await ask('GET', '/api/v1/poll/history?limit=200');
  check(body.some((change) => change.target === 'session-07' && change.reason === 'forced' && change.actor === 'web page'), 'the history does not say who forced it');
});

test('with the keyboard alone an instance is drained, and the drain undone', async () => {
  await page.reload();
  await isLive();
  await until('the fleet', async () => (await page.$$('#fleet-rows tr[data-instance]')).length === 3);
  await until('the targets', async () => (await shown()).length === ids.length);
  await page.keyboard.press('Tab');
  check((await page.evaluate(() => document.activeElement.className)) === 'skip', 'the first stop is not the skip link');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  for (let i = 0; i < 40 && (await page.evaluate(() => document.activeElement.id)) !== 'grid'; i++) await page.keyboard.press('Tab');
  const active = () => page.evaluate(() => {
    const row = document.getElementById(document.getElementById('grid').getAttribute('aria-activedescendant'));
    return row && row.children[0].textContent;
  });
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  check((await active()) === 'session-02', 'arrows led to', await active());
  await page.keyboard.press('End');
  check((await active()) === 'session-12', 'End led to', await active());
  await page.keyboard.press('Enter');
  await page.waitForSelector('#details-title:has-text("session-12")');
  check((await page.evaluate(() => document.activeElement.id)) === 'details', 'the focus is not in the details');
  await page.keyboard.press('Escape');
  check((await page.evaluate(() => document.activeElement.id)) === 'grid', 'the focus did not come back');
  const toDrain = async () => {
    const at = () => page.evaluate(() => document.activeElement.getAttribute('aria-label') || '');
    for (let i = 0; i < 40 && !/drain.* clara/i.test(await at()); i++) await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#confirm[open]');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
  };
  await toDrain();
  await until('clara has nothing', async () => {
    const text = await instanceRow('clara').innerText();
    return text.includes('drained') && text.includes('0 / 0');
  });
  await until('the others have it', async () => (await count('held')) === ids.length);
  await toDrain();
  await until('clara has its share again', async () => (await instanceRow('clara').innerText()).includes('4 / 4'));
});

test('it shows by itself that a holder has died, and who took over', async () => {
  const news = await page.evaluateHandle(() => {
    const heard = [];
    new MutationObserver(() => heard.push(document.getElementById('events').textContent)).observe(document.getElementById('events'), { childList: true });
    return heard;
  });
  await until('berta has its share', async () => (await instanceRow('berta').innerText()).includes('4 / 4'));
  await stop(agents.berta, 'SIGKILL');
  // Until its TTL is over it is there, and its heartbeat is seen to be late.
  await until('its heartbeat is late', async () => {
    const beats = await instanceRow('berta').locator('.beat').allInnerTexts();
    return beats.length === 0 || /late|overdue/.test(beats[0]);
  });
  await until('berta is gone', async () => (await instanceRow('berta').count()) === 0);
  await until('the others hold all', async () => (await count('held')) === ids.length && (await instanceRow('anna').innerText()).includes('6 / 6'));
  const line = page.locator('#changes li', { hasText: /berta [0-9a-f]{4} lost: 4 targets moved in (under )?\d+s: \d to (anna|clara)/ });
  await until('one line says so', async () => (await line.count()) === 1);
  await line.locator('summary').click();
  check((await line.locator('.group-targets .link-button').count()) === 4, 'the line does not list its targets');
  check(/2 alive · berta [0-9a-f]{4} left \d+s ago/.test(await page.textContent('#fleet-note')), await page.textContent('#fleet-note'));
  await until('it was said to screen readers', async () => (await news.evaluate((heard) => heard.length)) > 0);
});

test('pictures of it are taken, wide and narrow, light and dark', async () => {
  const { body } = await ask('GET', '/api/v1/poll/history?limit=1000');
  const taken = body.find((change) => change.event === 'lease_lost' && change.reason === 'expired').target;
  await rowOf(taken).click();
  await page.waitForSelector('.timeline .hold');
  await page.evaluate(() => document.querySelectorAll('.toast').forEach((toast) => toast.remove()));
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: width === 390 ? 844 : 900 });
      await page.evaluate(() => {
        scrollTo(0, 0);
        document.getElementById('grid').scrollTop = 0;
      });
      await sleep(250);
      await page.screenshot({ path: join(pictures, `details-${width}-${colorScheme}.png`) });
      if (width === 390) {
        await page.click('.details .close');
        await page.screenshot({ path: join(pictures, `page-${width}-${colorScheme}.png`), fullPage: true });
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        check(overflow <= 0, `the page is ${overflow} pixels too wide for a phone`);
        await rowOf(taken).click();
      }
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.click('.details .close');
  await instanceRow('anna').locator('.link-button').click();
  await until('a lane for each of its targets', async () => (await page.$$('.timeline .lane-name')).length >= 6);
  check((await page.$$('.holds tbody tr')).length >= 6, 'the table says less than the picture');
  await page.screenshot({ path: join(pictures, 'instance-1280-light.png') });
  await page.keyboard.press('Escape');
});

test('what ended a lease can be read, wide and narrow', async () => {
  const { body } = await ask('GET', '/api/v1/poll/history?limit=1000');
  const forced = body.find((change) => change.reason === 'forced').target;
  await rowOf(forced).click();
  // In one step: the table is drawn anew while others change the target.
  const look = () => page.evaluate(() => {
    const cell = [...document.querySelectorAll('.holds .ending td')].find((each) => each.textContent.includes('forced'));
    if (!cell) return null;
    cell.scrollIntoView();
    return { text: cell.textContent, cut: cell.scrollWidth - cell.clientWidth + Math.max(0, cell.getBoundingClientRect().right - innerWidth) };
  });
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 900 });
    const found = await until('the ending', look);
    check(/^ended .*: (lost|released) \(forced\), by web page$/.test(found.text), found);
    check(found.cut <= 0, `it is cut by ${found.cut} pixels at ${width}`);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.keyboard.press('Escape');
});

test('a link opens what it names in an open tab, and Back returns', async () => {
  const title = () => page.textContent('#details-title');
  await page.evaluate(() => (location.hash = '#ns=poll&target=session-03'));
  await until('the link is followed', async () => (await page.isVisible('#details')) && (await title()).includes('session-03'));
  await rowOf('session-04').click();
  await until('the next', async () => (await title()).includes('session-04'));
  check(page.url().endsWith('target=session-04'), page.url());
  await page.goBack();
  await until('Back leads to the one before', async () => (await title()).includes('session-03'));
  await page.goForward();
  await until('Forward to the next', async () => (await title()).includes('session-04'));
  await page.keyboard.press('Escape');
  check(page.url().endsWith('#ns=poll'), page.url());
});

test('colours and times are the same after a reload', async () => {
  const look = () => page.$$eval('#fleet-rows tr', (rows) => rows.map((row) => `${row.dataset.instance} ${row.querySelector('.tone-dot').className}`).join());
  const before = await look();
  await page.evaluate(() => history.replaceState(null, '', '#ns=poll'));
  await page.reload();
  await isLive();
  await until('the same colours', async () => (await look()) === before);
  check(/^(.+, )?UTC/.test(await page.textContent('#zone')), await page.textContent('#zone'));
  const stamp = await page.getAttribute('#changes time', 'title');
  check(/^\d+ \w+ \d{4}.*\d\d:\d\d:\d\d /.test(stamp), stamp);
});

test('namespaces are listed; a role has its standbys, a job its runs, a lease its checkpoint', async () => {
  const announce = (holder, role, more = [], kind = {}) => ask('POST', '/api/v1/leader/leases', { holder_id: holder, ops: [{ op: 'announce', ttl_ms: 60000, weight: 0, metadata: JSON.stringify({ role, ...kind, address: '10.0.0.7:8080' }) }, ...more] });
  await announce('lead-1', 'cleanup', [{ op: 'acquire', id: 'cleanup', ttl_ms: 60000 }]);
  await announce('spare-2', 'cleanup');
  await announce('other-3', 'reports');
  await announce('build-7', 'deploy', [{ op: 'acquire', id: 'deploy', ttl_ms: 60000 }], { kind: 'lock' });
  await announce('build-8', 'deploy', [], { kind: 'lock' });
  const { body } = await ask('GET', '/api/v1/leader/cleanup/lease');
  await ask('PUT', '/api/v1/leader/cleanup/checkpoint', { holder_id: 'lead-1', version: body.version, value: 'page 41 <b>' });
  await page.focus('#namespace');
  await until('the new one is listed', async () => (await page.$$eval('#namespace option', (options) => options.map((option) => option.value))).join() === 'leader,poll');
  await page.selectOption('#namespace', 'leader');
  await isLive();
  await until('the leader', async () => (await instanceRow('lead-1').innerText()).includes('leads cleanup'));
  check((await instanceRow('spare-2').innerText()).includes('stands by for cleanup'), await instanceRow('spare-2').innerText());
  check((await instanceRow('spare-2').innerText()).includes('10.0.0.7:8080'), 'the address is missing');
  check((await instanceRow('build-8').innerText()).includes('waits for deploy'), await instanceRow('build-8').innerText());
  check(!(await instanceRow('build-8').innerText()).includes('Drain'), 'a lock can be drained');
  check((await instanceRow('lead-1').innerText()).includes('Drain'), 'a leader cannot be drained');
  await rowOf('deploy').click();
  await until('the lock', async () => /State Held: holds the lock; 1 waits/.test((await page.locator('#details .facts').innerText()).replaceAll('\n', ' ')));
  await rowOf('cleanup').click();
  const facts = async () => (await page.locator('#details .facts').innerText()).replaceAll('\n', ' ');
  await until('its checkpoint', async () => (await facts()).includes('page 41 <b>'));
  check((await facts()).includes('State Held: leads'), await facts());
  check(/Standbys spare-2 /.test(await facts()) && !(await facts()).includes('other-3'), await facts());
  await page.screenshot({ path: join(pictures, 'role-1280-light.png') });
  await ask('POST', '/api/v1/cron/leases', { holder_id: 'host-1', ops: [{ op: 'acquire', id: 'nightly', ttl_ms: 60000 }] });
  const instant = (ago) => (Date.now() - ago).toString(36);
  const log = `1;${instant(3000)}.n.k.x0,${instant(2000)}.a.f.t3z,${instant(1000)}.2.3.o2`;
  const ran = 'cron=1 instant=1 next=1794800000000 ran=1 open=0 started=1794790000000 ms=1500 exit=3 runs=7 skipped=2 by=host-1 log=' + log;
  await ask('PUT', '/api/v1/cron/nightly/checkpoint', { holder_id: 'host-1', version: (await ask('GET', '/api/v1/cron/nightly/lease')).body.version, value: ran });
  await page.evaluate(() => (location.hash = '#ns=cron&target=nightly'));
  await until('its last run', async () => (await facts()).includes('exit code 3 after 1s') && /Runs 7, 2 skipped/.test(await facts()));
  await until('its runs', async () => /Recent runs .*: 2 skipped \(overlap\) .*: timed out after .*: exit code 0 after /.test(await facts()));
  await page.goBack();
  await until('Back leads to the role', async () => (await page.textContent('#details-title')).includes('cleanup'));
  await page.evaluate(() => (location.hash = '#ns=poll'));
  await isLive();
  await until('the fleet again', async () => (await rowOf('session-01').count()) === 1);
});

test('when the server goes it says since when, and when it comes back it catches up', async () => {
  await stop(server);
  await page.waitForSelector('#banner:not([hidden])');
  check(/Connection lost since \d\d:\d\d:\d\d/.test(await page.textContent('#banner')));
  check((await page.getAttribute('#link-state', 'data-state')) === 'lost');
  await page.screenshot({ path: join(pictures, 'lost-1280-light.png') });
  await runToEnd('target', 'add', 'while-away', '--store', store, '--namespace', 'poll');
  await runToEnd('target', 'rm', 'session-12', '--store', store, '--namespace', 'poll');
  server = await serve(port, store);
  await isLive();
  check(!(await page.isVisible('#banner')));
  await until('it knows what happened meanwhile', async () => (await rowOf('while-away').count()) === 1 && (await rowOf('session-12').innerText()).includes('Free'));
});

test('what a target or an instance is called is text, never markup', async () => {
  const evil = '<img src=x onerror="window.hacked=1"><b>bold';
  await ask('POST', '/api/v1/evil', { edits: [{ action: 'put', target: { id: 'spec', url: 'javascript:window.hacked=1', exec: `${evil}\u202e`, spec: { evil } } }] });
  await ask('POST', '/api/v1/evil/leases', { holder_id: evil, ops: [{ op: 'announce', ttl_ms: 60000, weight: 1, metadata: evil }, { op: 'acquire', id: 'spec', ttl_ms: 60000 }, { op: 'acquire', id: 'bold-one', ttl_ms: 60000 }] });
  // The API takes no such target; a store that somebody wrote into by hand may have one.
  const hand = `update record set key = replace(key, 'spec', replace('${evil}', 'bold', 'target')) where key like 'evil _spec';`;
  execFileSync('sqlite3', [join(directory, 'tenure.db'), '.timeout 5000', hand]);
  const other = await openPage('/#ns=evil');
  await other.waitForSelector('#grid .grid-row:has-text("bold-one")');
  await until('the hostile names are there as text', async () => {
    const text = await other.textContent('#grid .grid-body');
    return text.includes('<img src=x onerror="window.hacked=1"><b>target') && text.includes(evil);
  });
  await other.click('#fleet-rows .link-button');
  await other.waitForSelector('#details .facts:has-text("onerror")');
  await other.click('#grid .grid-body .grid-row:has-text("<b>target")');
  await other.waitForSelector('#details .facts:has-text("javascript:")');
  await other.waitForSelector('#details .facts:has-text("<b>bold\\\\u202e")'); // what turns a text around is shown by its number
  await sleep(300);
  check((await other.evaluate(() => [window.hacked, document.querySelectorAll('main img, main b').length].join())) === ',0', 'markup was made');
  await other.context().close();
});

test('a page of another site can change nothing, and cannot frame it', async () => {
  const html = `<!doctype html><title>x</title><iframe id=f src="${base}/"></iframe>
    <form id=form method=post enctype="text/plain" action="${base}/api/v1/poll" target=_blank><input name='{"edits":[{"action":"remove","target":{"id":"session-01"}}],"x":"' value='"}'></form>`;
  const elsewhere = createServer((request, response) => response.setHeader('Content-Type', 'text/html').end(html));
  await new Promise((resolve) => elsewhere.listen(0, '127.0.0.1', resolve));
  const context = await browser.newContext();
  const evil = await context.newPage();
  await evil.goto(`http://127.0.0.1:${elsewhere.address().port}/`);
  const tries = await evil.evaluate(async (to) => {
    const body = JSON.stringify({ edits: [{ action: 'remove', target: { id: 'session-01' } }] });
    const outcomes = [];
    for (const options of [{ mode: 'no-cors' }, { mode: 'no-cors', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }, { headers: { 'Content-Type': 'application/json' } }])
      outcomes.push(await fetch(`${to}/api/v1/poll`, { method: 'POST', body, ...options }).then((answer) => answer.type, () => 'refused'));
    outcomes.push(await fetch(`${to}/api/v1/poll`).then(() => 'read', () => 'refused'));
    document.getElementById('form').submit();
    return outcomes;
  }, base);
  check(tries[2] === 'refused' && tries[3] === 'refused', tries);
  await sleep(500);
  check((await evil.frames()[1].content()).includes('targets-title') === false, 'it was framed');
  const { body } = await ask('GET', '/api/v1/poll');
  check(body.some((row) => row.id === 'session-01'), 'session-01 was removed from elsewhere');
  for (const origin of ['http://evil.example', 'null', `http://127.0.0.1:${port + 1}`, `https://evil.example:${port}`]) {
    const { status } = await ask('POST', '/api/v1/poll', { edits: [{ action: 'remove', target: { id: 'session-01' } }] }, { Origin: origin });
    check(status === 403, origin, 'was answered with', String(status));
  }
  await context.close();
  elsewhere.close();
});

test('where tokens are wanted it asks for one, keeps it in the tab, and offers what its role may', async () => {
  const hash = (text) => createHash('sha256').update(text).digest('hex');
  writeFileSync(join(directory, 'auth'), `boss admin * * ${hash('let-me')}\nlooker read p* * ${hash('look')}\n`, { mode: 0o600 });
  const guarded = await freePort();
  const child = await serve(guarded, store, '--auth-file', join(directory, 'auth'));
  const context = await browser.newContext();
  const other = await context.newPage();
  await other.goto(`http://127.0.0.1:${guarded}/#ns=poll`);
  const enter = async (text) => {
    await other.waitForSelector('#token-dialog[open]');
    await other.fill('#token', text);
    await other.keyboard.press('Enter');
  };
  await enter('wrong');
  await other.waitForSelector('#token-why:has-text("unknown token")');
  await enter('look');
  await other.waitForSelector('#grid .grid-row:has-text("session-02")');
  await other.waitForSelector('#fleet-rows tr[data-instance]');
  check(!(await other.isVisible('#fleet-rows button:has-text("Drain")')), 'a reader is offered to drain');
  await other.evaluate(() => (location.hash = '#ns=leader'));
  await other.waitForSelector('#grid-empty:has-text("may not read the namespace leader")');
  check((await other.textContent('#targets-note')) === 'Not allowed', await other.textContent('#targets-note'));
  check((await other.$$eval('#namespace option', (options) => options.map((option) => option.value).join())) === 'leader,poll', 'namespaces that may not be read are listed');
  await other.screenshot({ path: join(pictures, 'denied-1280-light.png') });
  await other.evaluate(() => (location.hash = '#ns=poll'));
  await other.waitForSelector('#grid .grid-row:has-text("session-02")');
  await other.click('#sign-out');
  await enter('let-me');
  await other.waitForSelector('#fleet-rows button:has-text("Drain")');
  check((await other.evaluate(() => JSON.stringify(localStorage).includes('let-me'))) === false, 'the token is in localStorage');
  const another = await context.newPage();
  await another.goto(`http://127.0.0.1:${guarded}/#ns=poll`);
  await another.waitForSelector('#token-dialog[open]');
  await context.close();
  await stop(child);
});

test('a hundred thousand targets scroll smoothly, with few rows in the page', async () => {
  const many = 100000;
  for (let first = 0; first < many; first += 10000) {
    const edits = Array.from({ length: 10000 }, (_, i) => ({ action: 'put', target: { id: `t-${String(first + i).padStart(6, '0')}` } }));
    const { status } = await ask('POST', '/api/v1/many', { edits });
    check(status === 200, 'registering was answered with', String(status));
  }
  for (let first = 0; first < 5000; first += 1000) await ask('POST', '/api/v1/many/leases', { holder_id: `worker-${first}`, ops: Array.from({ length: 1000 }, (_, i) => ({ op: 'acquire', id: `t-${String(first + i).padStart(6, '0')}`, ttl_ms: 300000 })) });
  const other = await openPage('/#ns=many');
  await until('all are loaded', async () => (await other.textContent('#count-all')) === '100,000' && (await other.textContent('#targets-note')) === '100,000', 300000);
  check((await other.textContent('#count-unowned')) === '95,000', await other.textContent('#count-unowned'));
  const frames = await other.evaluate(async () => {
    const grid = document.getElementById('grid');
    const times = [];
    let most = 0;
    for (let i = 0; i < 60; i++) {
      const began = performance.now();
      grid.scrollTop = (grid.scrollHeight / 60) * i;
      await new Promise(requestAnimationFrame);
      most = Math.max(most, document.querySelectorAll('#grid .grid-row').length);
      times.push(performance.now() - began);
    }
    times.sort((a, b) => a - b);
    return { median: times[30], most };
  });
  console.log(`# a frame while scrolling takes ${Math.round(frames.median)} ms; ${frames.most} rows are elements`);
  check(frames.median < 2000 && frames.most < 100, frames);
  const began = Date.now();
  await other.fill('#search', 't-0777');
  await until('a hundred match', async () => (await other.textContent('#targets-note')) === '100 of 100,000');
  console.log(`# a search takes ${Date.now() - began} ms`);
  await other.focus('#grid');
  await other.keyboard.press('End');
  check((await other.textContent('#grid .grid-row[aria-selected=true]')).includes('t-077799'));
  await other.context().close();
});

test('everything that can be reached has a name, and nothing was fetched from elsewhere or refused by the policy', async () => {
  const nameless = await page.evaluate(() => {
    const nameOf = (element) => element.getAttribute('aria-label') || (element.getAttribute('aria-labelledby') || '').split(' ').map((id) => document.getElementById(id)?.textContent || '').join('') || (element.labels && [...element.labels].map((label) => label.textContent).join('')) || element.textContent.trim() || element.title;
    const wrong = [...document.querySelectorAll('a, button, input, select, [tabindex="0"], dialog, section, table, [role=grid]')].filter((element) => !element.closest('[hidden]') && !element.closest('dialog:not([open])') && !nameOf(element).trim()).map((element) => element.outerHTML.slice(0, 120));
    const doubled = [...document.querySelectorAll('[id]')].map((element) => element.id).filter((id, i, all) => all.indexOf(id) !== i);
    const images = [...document.images].filter((image) => !image.hasAttribute('alt')).length;
    return { wrong, doubled, images, language: document.documentElement.lang, headings: document.querySelectorAll('h1').length };
  });
  check(nameless.wrong.length === 0 && nameless.doubled.length === 0 && nameless.images === 0 && nameless.language === 'en' && nameless.headings === 1, nameless);
  check(foreign.length === 0, 'it asked elsewhere:', foreign);
  check(complaints.length === 0, 'the browser complained:', complaints);
});

runAll(before, async () => {
  if (browser) await browser.close();
});
