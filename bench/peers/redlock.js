// A resident candidate with node-redlock, as its documentation uses it: lock() that looks again every 200 ms and up to
// 100 ms of jitter, its default, and gives up after ten times: then it is asked again. While it leads it extends the
// lock at every third of the TTL.
// Arguments: PORT KEY TTL_MS. See bench/elections_pair.h for what it reads and says.
'use strict'
const readline = require('readline')
const Redis = require('ioredis')
const Redlock = require('redlock')

const [port, key, ttlMs] = [Number(process.argv[2]), process.argv[3], Number(process.argv[4])]
const redlock = new Redlock([new Redis(port, '127.0.0.1')])
let lock
let extending

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
}

async function stop() {
  const startNs = process.hrtime.bigint()
  clearInterval(extending)
  await lock.unlock()
  lock = undefined
  process.stdout.write(`stopping ${startNs}\n`)
}

readline
  .createInterface({ input: process.stdin })
  .on('line', (line) => (line === 'campaign' ? campaign() : stop()))
  .on('close', () => process.exit(0))
