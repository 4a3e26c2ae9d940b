// A resident candidate with node-redlock, as its documentation uses it: lock() that looks again every 200 ms and up to
// 100 ms of jitter, its default, and gives up after ten times: then it is asked again. While it leads it extends the
// lock at every third of the TTL.
// Arguments: PORT KEY TTL_MS [FILE]. See bench/elections_pair.h for what it reads and says.
'use strict'
const fs = require('fs')
const readline = require('readline')
const Redis = require('ioredis')
const Redlock = require('redlock')

const BEAT_MS = 4
const MANY = 1000 // locks that are extended at once: ioredis sends what there is together
const [port, key, ttlMs, file] = [Number(process.argv[2]), process.argv[3], Number(process.argv[4]), process.argv[5]]
const redlock = new Redlock([new Redis(port, '127.0.0.1')])
const beats = file && fs.openSync(file, 'a')
let lock
let extending
let beating

async function campaign() {
  while (!lock) {
    lock = await redlock.lock(key, ttlMs).catch((error) => {
      if (error.name !== 'LockError') throw error
    })
  }
  process.stdout.write(`led ${process.hrtime.bigint()}\n`)
  extending = setInterval(async () => {
    if (lock) lock = await lock.extend(ttlMs)
  }, ttlMs / 3)
  if (file) {
    beating = setInterval(() => fs.writeSync(beats, `${process.hrtime.bigint()} ${process.pid}\n`), BEAT_MS)
  }
}

async function stop() {
  const startNs = process.hrtime.bigint()
  clearInterval(extending)
  clearInterval(beating)
  await lock.unlock()
  lock = undefined
  process.stdout.write(`stopping ${startNs}\n`)
}

// Does the step for so long, and says what it took.
async function run(ms, operations, step) {
  const cpu = process.cpuUsage()
  const samples = []
  const start = process.hrtime.bigint()
  let last = start
  while (Number(last - start) < ms * 1e6) {
    await step()
    const now = process.hrtime.bigint()
    samples.push(Number(now - last) / 1e3)
    last = now
  }
  const used = process.cpuUsage(cpu)
  const part = (ms * 1e6) / Number(last - start)
  samples.sort((a, b) => a - b)
  const at = (percent) => samples[Math.floor(((samples.length - 1) * percent) / 100)].toFixed(1)
  const count = Math.round(samples.length * operations * part)
  process.stdout.write(`did ${count} ${Math.round((used.user + used.system) * part)} ${at(50)} ${at(99)}\n`)
}

async function job(name, ms) {
  if (name === 'pairs') {
    await run(ms, 1, async () => (await redlock.lock(`${key}-job`, ttlMs)).unlock())
    return
  }
  const count = name === 'many' ? MANY : 1
  let locks = await Promise.all([...Array(count).keys()].map((i) => redlock.lock(`${key}-${i}`, ttlMs)))
  await run(ms, count, async () => {
    locks = await Promise.all(locks.map((each) => each.extend(ttlMs)))
  })
  await Promise.all(locks.map((each) => each.unlock()))
}

readline
  .createInterface({ input: process.stdin })
  .on('line', (line) => {
    const [word, ms] = line.split(' ')
    if (word === 'campaign') campaign()
    else if (word === 'stop') stop()
    else job(word, Number(ms))
  })
  .on('close', () => process.exit(0))
