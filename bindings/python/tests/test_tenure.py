"""The binding against a real store: TENURE_STORE. Called by tests/e2e/python.sh, once for each store."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import uuid

import tenure
from tenure import aio

TENURE = os.environ.get("TENURE", "tenure")


def fresh(name):
    return f"{name}-{uuid.uuid4().hex[:8]}"


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("this did not come true")
        time.sleep(0.02)


def force(target, *options):
    subprocess.run([TENURE, "release", target, "--force", *options], check=True, capture_output=True)


class Leases(unittest.TestCase):
    def test_a_checkpoint_is_found_by_the_next_holder(self):
        job = fresh("job")
        with tenure.Context(name="one", ttl=5) as one, tenure.Context(name="two", ttl=5) as two:
            with one.acquire(job) as lease:
                self.assertIsNone(lease.checkpoint())
                lease.set_checkpoint("page 7 \u20ac")
                self.assertEqual(lease.checkpoint(), "page 7 \u20ac")
                with self.assertRaises(tenure.TenureError):
                    lease.set_checkpoint("x" * 4097)
            self.assertEqual(two.checkpoint(job), "page 7 \u20ac")
            with two.acquire(job, wait=5) as lease:
                self.assertEqual(lease.checkpoint(), "page 7 \u20ac")
                lease.set_checkpoint("")
                self.assertIsNone(two.checkpoint(job))

    def test_a_lease_excludes_others_until_it_is_released(self):
        job = fresh("job")
        with tenure.Context(name="one", ttl=5) as one, tenure.Context(name="two", ttl=5) as two:
            with one.acquire(job) as lease:
                self.assertTrue(lease.valid)
                self.assertGreater(lease.token, 0)
                self.assertEqual(lease.target, job)
                self.assertEqual(one.info(job).holder, one.instance_id)
                self.assertLessEqual(lease.remaining, 5)
                with self.assertRaises(tenure.Held) as caught:
                    two.acquire(job)
                self.assertIn("held by one-", str(caught.exception))
                self.assertTrue(caught.exception.retryable)
                lease.renew()
                first = lease.token
            self.assertFalse(lease.valid)
            with two.acquire(job, wait=5) as next_lease:
                self.assertGreater(next_lease.token, first)
            self.assertIn(job, [info.target for info in two.list()])

    def test_a_lease_is_renewed_until_it_is_released(self):
        job = fresh("job")
        with tenure.Context(ttl=2) as context, tenure.Context() as other:
            with context.acquire(job) as lease:
                token = lease.token
                time.sleep(3)
                self.assertTrue(lease.valid)
                self.assertEqual(other.info(job).token, token)
            self.assertEqual(other.info(job).holder, "")

    def test_a_manual_lease_that_is_not_renewed_turns_invalid_by_itself(self):
        with tenure.Context(ttl=0.3) as context:
            lease = context.acquire(fresh("job"), manual=True)
            until(lambda: not lease.valid, 2)
            self.assertEqual(lease.remaining, 0)

    def test_a_lost_lease_says_so(self):
        job = fresh("job")
        reasons = []
        with tenure.Context(ttl=5) as context:
            lease = context.acquire(job)
            lease.on_lost(reasons.append)
            force(job, "--now")
            until(lambda: reasons, 5)
            self.assertFalse(lease.valid)
            with self.assertRaises(tenure.Lost):
                lease.renew()
            lease.release()
        self.assertEqual(len(reasons), 1)

    def test_a_manual_lease_that_was_lost_says_so_at_its_renewal(self):
        job = fresh("job")
        with tenure.Context(ttl=5) as context:
            lease = context.acquire(job, manual=True)
            force(job, "--now")
            with self.assertRaises(tenure.Lost):
                lease.renew()
            self.assertFalse(lease.valid)

    def test_one_of_many_can_be_acquired(self):
        jobs = [fresh("job"), fresh("job")]
        with tenure.Context(ttl=5) as one, tenure.Context(ttl=5) as two:
            with one.acquire_any(jobs) as first, two.acquire_any(jobs) as second:
                self.assertEqual([first.target, second.target], jobs)
                with self.assertRaises(tenure.Held):
                    tenure.Context(ttl=5).acquire_any(jobs)

    def test_events_are_called_back_or_taken(self):
        job = fresh("job")
        events = []
        with tenure.Context(ttl=5, on_event=events.append) as one, tenure.Context(ttl=5) as two:
            one.acquire(job).release()
            until(lambda: {"lease_acquired", "lease_released"} <= {event.name for event in events}, 5)
            self.assertEqual({event.target for event in events if event.target}, {job})
            names = set()
            with two.acquire(job):
                until(lambda: names.add(getattr(two.next_event(0.1), "name", "")) or "lease_acquired" in names)

    def test_an_event_names_its_lease(self):
        job, other = fresh("job"), fresh("job")
        with tenure.Context(ttl=5) as one:
            lease, second = one.acquire(job), one.acquire(other)
            events = {}
            until(lambda: [events.setdefault(e.target, e) for e in [one.next_event(0.1)] if e] and len(events) == 2)
            self.assertEqual({event.name for event in events.values()}, {"lease_acquired"})
            self.assertIs(events[job].lease, lease)
            self.assertIs(events[other].lease, second)
            self.assertEqual((events[job].token, events[job].target), (lease.token, lease.target))
            lease.release()
            released = []
            until(lambda: [released.append(e) for e in [one.next_event(0.1)] if e and e.name == "lease_released"])
            self.assertIsNone(released[0].lease)
            self.assertEqual(released[0].target, job)

    def test_a_wait_can_be_cancelled(self):
        job = fresh("job")
        with tenure.Context(ttl=5) as one, tenure.Context(ttl=5) as two, one.acquire(job):
            timer = threading.Timer(0.3, two.cancel)
            timer.start()
            with self.assertRaises(tenure.Cancelled):
                two.acquire(job, wait=None)
            timer.join()

    def test_closing_releases_what_is_held(self):
        job = fresh("job")
        context = tenure.Context(ttl=30)
        lease = context.acquire(job)
        context.close()
        self.assertFalse(lease.valid)
        with tenure.Context() as other, other.acquire(job):
            pass

    def test_ctrl_c_ends_every_wait(self):
        job = fresh("job")
        waits = {
            "acquire": "context.acquire(JOB, wait=None)",
            "acquire_any": "context.acquire_any([JOB], wait=60)",
            "next_event": "[context.next_event(wait=None) for _ in range(99)]",
            "member": "[tenure.Member(context, namespace='other').next_event(wait=None) for _ in range(99)]",
            "election": "tenure.Election(context, JOB, namespace='poll').wait()",
        }
        with tenure.Context(ttl=30) as holder, holder.acquire(job):
            for name, wait in waits.items():
                with self.subTest(name):
                    child = subprocess.Popen(
                        [sys.executable, "-c", "import tenure\ncontext = tenure.Context(ttl=30)\n"
                         f"JOB = {job!r}\nprint('waits', flush=True)\ntry:\n    {wait}\n"
                         "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"],
                        stdout=subprocess.PIPE, text=True)
                    self.assertEqual(child.stdout.readline(), "waits\n")
                    time.sleep(0.3)
                    child.send_signal(signal.SIGINT)
                    self.assertEqual(child.communicate(timeout=60)[0], "interrupted\n")

    def test_values_of_a_wrong_type_are_named(self):
        with tenure.Context() as context:
            with self.assertRaisesRegex(TypeError, "a name must be a string, not 5"):
                context.acquire(5)
            with self.assertRaisesRegex(TypeError, "a duration must be a number of seconds, .*'30s'"):
                tenure.Context(ttl="30s")
            with self.assertRaisesRegex(TypeError, "not one string: \\['abc'\\]"):
                tenure.Member(context, "abc")
            with self.assertRaisesRegex(TypeError, "not one string"):
                context.acquire_any("abc")

    def test_mistakes_are_exceptions_and_not_crashes(self):
        with self.assertRaises(tenure.TenureError) as caught:
            tenure.Context("nonsense")
        self.assertEqual(caught.exception.name, "TENURE_E_INVALID")
        context = tenure.Context()
        for target in ("", "a b", "x" * 300, "..", "\u00e4"):
            with self.assertRaises(tenure.TenureError):
                context.acquire(target)
        with self.assertRaises(ValueError):
            context.acquire("a\0b")
        lease = context.acquire(fresh("job"))
        context.close()
        context.close()
        self.assertFalse(lease.valid)
        for use in (lease.renew, lambda: lease.token, lambda: context.acquire("job"), lambda: context.instance_id):
            with self.assertRaises(ValueError):
                use()
        lease.release()


class Asyncio(unittest.TestCase):
    def test_a_lease_is_renewed_by_the_loop_without_a_thread(self):
        job = fresh("job")

        async def run():
            before = os.listdir("/proc/self/task")
            async with aio.Context(name="one", ttl=2) as context, await context.acquire(job) as lease:
                await asyncio.sleep(3)
                self.assertTrue(lease.valid)
                self.assertEqual(context.info(job).token, lease.token)
                # A thread of a test before this one may have been about to vanish when they were counted.
                self.assertLessEqual(set(os.listdir("/proc/self/task")), set(before))
                return lease

        lease = asyncio.run(run())
        self.assertFalse(lease.valid)
        with tenure.Context() as other, other.acquire(job, wait=5):
            pass

    def test_a_wait_ends_when_the_lease_is_released(self):
        job = fresh("job")

        async def run():
            async with aio.Context(name="one", ttl=10) as one, aio.Context(name="two", ttl=10) as two:
                first = await one.acquire(job)
                with self.assertRaises(tenure.Held):
                    await two.acquire(job)
                waiting = asyncio.ensure_future(two.acquire(job, wait=30))
                await asyncio.sleep(0.3)
                self.assertFalse(waiting.done())
                token = first.token
                first.release()
                second = await asyncio.wait_for(waiting, 5)
                self.assertGreater(second.token, token)
                second.release()

        asyncio.run(run())

    def test_many_leases_are_acquired_at_once(self):
        async def run():
            async with aio.Context(ttl=10) as context:
                names = [fresh("job") for _ in range(50)]
                leases = await asyncio.gather(*[context.acquire(name) for name in names])
                self.assertTrue(all(lease.valid for lease in leases))
                self.assertEqual([lease.target for lease in leases], names)

        asyncio.run(run())

    def test_a_cancelled_acquire_leaves_nothing_behind(self):
        job = fresh("job")

        async def run():
            async with aio.Context(ttl=10) as one, aio.Context(ttl=10) as two:
                first = await one.acquire(job)
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(two.acquire(job, wait=None), 0.3)
                first.release()
                await asyncio.sleep(0.5)
                self.assertEqual(one.info(job).holder, "")

        asyncio.run(run())

    def test_a_lost_lease_says_so(self):
        job = fresh("job")

        async def run():
            async with aio.Context(ttl=5) as context:
                lease = await context.acquire(job)
                lost = asyncio.ensure_future(lease.lost())
                await asyncio.sleep(0)
                await asyncio.get_running_loop().run_in_executor(None, force, job, "--now")
                reason = await asyncio.wait_for(lost, 10)
                self.assertFalse(lease.valid)
                return reason

        self.assertTrue(asyncio.run(run()))

    def test_a_target_that_is_held_can_be_acquired_again(self):
        job = fresh("job")

        async def run():
            async with aio.Context(ttl=5) as context:
                first = await context.acquire(job)
                second = await asyncio.wait_for(context.acquire(job), 30)
                self.assertEqual(first.token, second.token)
                self.assertTrue(second.valid)

        asyncio.run(run())

    def test_a_role_is_released_when_its_work_is_over(self):
        role = fresh("role")
        reasons = []

        async def run():
            async with aio.Context(name="one", ttl=2) as one, aio.Context(name="two", ttl=2) as two:
                first = aio.Election(one, role, on_demoted=lambda _token, reason: reasons.append(reason))
                token = await asyncio.wait_for(first.wait(), 30)
                second = aio.Election(two, role)
                async with first.work() as working:
                    self.assertEqual(working, token)
                    first.resign()
                    await asyncio.sleep(3)  # longer than the TTL
                    self.assertEqual(reasons, ["resigned"])
                    self.assertFalse(first.leads)
                    self.assertFalse(second.leads)
                self.assertGreater(await asyncio.wait_for(second.wait(), 30), token)
                with self.assertRaises(tenure.Lost):
                    async with first.work():
                        pass
                closing = None
                async with second.work():
                    closing = asyncio.ensure_future(second.close())
                    await asyncio.sleep(0.1)
                    self.assertTrue(second.leads)
                await closing
                self.assertFalse(second.leads)
                await first.close()

        asyncio.run(run())

    def test_an_election_hands_over(self):
        role = fresh("role")

        async def run():
            async with aio.Context(name="one", ttl=2) as one, aio.Context(name="two", ttl=2) as two:
                first = aio.Election(one, role)
                token = await asyncio.wait_for(first.wait(), 10)
                self.assertTrue(first.leads)
                async with aio.Election(two, role) as second:
                    self.assertFalse(second.leads)
                    await first.close()
                    self.assertGreater(await asyncio.wait_for(second.wait(), 10), token)
                self.assertFalse(second.leads)

        asyncio.run(run())


class Elections(unittest.TestCase):
    def test_one_replica_gets_into_the_block(self):
        role = fresh("report")
        with tenure.LeaderElection(role, at_least=0) as one:
            self.assertTrue(one.is_leader)
            self.assertGreater(one.token, 0)
            with tenure.LeaderElection(role) as two:
                self.assertFalse(two.is_leader)
                self.assertEqual(two.token, 0)
        self.assertFalse(one.is_leader)
        with tenure.LeaderElection(role, wait=5) as three:
            self.assertTrue(three.is_leader)

    def test_a_late_replica_does_not_run_the_job_again(self):
        role = fresh("report")
        runs = []

        @tenure.leader_only(role, ttl=3)
        def job():
            runs.append(1)
            return "done"

        self.assertEqual(job(), "done")
        self.assertIsNone(job())
        until(lambda: job() == "done", 60)
        self.assertEqual(len(runs), 2)

    def test_the_role_is_renewed_while_the_function_runs(self):
        role = fresh("long")

        @tenure.leader_only(role, ttl=4, at_least=0)
        def job():
            time.sleep(5)
            return tenure.LeaderElection(role, ttl=4).__enter__().is_leader

        self.assertIs(job(), False)

    def test_an_exception_leaves_the_block_and_gives_the_role_back(self):
        role = fresh("report")
        with self.assertRaises(KeyError):
            with tenure.LeaderElection(role, at_least=0):
                raise KeyError("mine")
        with tenure.LeaderElection(role, wait=5) as election:
            self.assertTrue(election.is_leader)

    def test_a_leadership_that_was_lost_meanwhile_is_told(self):
        role = fresh("report")
        with self.assertRaises(tenure.Lost):
            with tenure.LeaderElection(role, ttl=10) as election:
                command = [TENURE, "release", role, "--namespace", "leader", "--force", "--now"]
                subprocess.run(command, check=True, capture_output=True)
                until(lambda: not election.is_leader, 60)

    def test_asyncio(self):
        role = fresh("async")

        @tenure.leader_only(role, at_least=0)
        async def job():
            async with tenure.LeaderElection(role) as other:
                await asyncio.sleep(0.05)
                return other.is_leader

        self.assertIs(asyncio.run(job()), False)
        self.assertTrue(asyncio.iscoroutinefunction(job))

    def test_a_continuous_election_hands_over(self):
        role = fresh("cleanup")
        one = tenure.LeaderElection(role, name="one", ttl=2).start()
        self.assertTrue(one.wait(10))
        two = tenure.LeaderElection(role, name="two", ttl=2).start()
        self.assertFalse(two.wait(0.2))
        first = one.token
        one.stop()
        one.stop()
        self.assertFalse(one.is_leader)
        self.assertTrue(two.wait(5))
        self.assertGreater(two.token, first)
        self.assertTrue(two.instance_id.startswith("two-"))
        two.stop()

    def test_work_is_finished_before_the_role_is_handed_over(self):
        role = fresh("cleanup")
        one = tenure.LeaderElection(role, ttl=3).start()
        self.assertTrue(one.wait(10))
        two = tenure.LeaderElection(role, ttl=3).start()
        order = []
        with one.work() as token:
            self.assertEqual(token, one.token)
            one.resign()
            watcher = threading.Thread(target=lambda: two.wait(10) and order.append("two leads"))
            watcher.start()
            time.sleep(0.5)
            order.append("work is done")
        watcher.join()
        self.assertEqual(order, ["work is done", "two leads"])
        with self.assertRaises(tenure.Lost):
            with one.work():
                self.fail("it does not lead")
        one.stop()
        two.stop()

    def test_a_store_out_of_reach_is_an_error_and_nobody_leads(self):
        with self.assertRaises(tenure.Unreachable):
            with tenure.LeaderElection("role", "redis://127.0.0.1:1"):
                self.fail("it got in")


class ElectionsOnAContext(unittest.TestCase):
    def test_terms_are_called_back_and_a_context_can_have_several(self):
        roles = [fresh("role"), fresh("role")]
        calls = []
        with tenure.Context(ttl=3) as context:
            first = tenure.Election(context, roles[0], on_elected=lambda token: calls.append(("elected", token)),
                                    on_demoted=lambda token, reason: calls.append((reason, token)))
            with tenure.Election(context, roles[1]) as second:
                self.assertTrue(first.wait(10))
                self.assertTrue(second.wait(10))
                self.assertEqual(first.context.instance_id, second.context.instance_id)
                token = first.token
                with first.work() as number:
                    self.assertEqual(number, token)
            first.close()
            first.close()
            self.assertFalse(first.leads)
            self.assertFalse(second.leads)
        self.assertEqual(calls, [("elected", token), ("shutdown", token)])
        with self.assertRaises(ValueError):
            first.wait(0)


class Fleet(unittest.TestCase):
    def test_members_on_contexts_share_the_targets(self):
        namespace = fresh("fleet")
        targets = [f"s{i}" for i in range(4)]
        with tenure.Context(name="one", namespace=namespace, ttl=2) as one_context, \
                tenure.Context(name="two", namespace=namespace, ttl=2) as two_context, \
                tenure.Member(one_context, targets, settle=0.2) as one:
            until(lambda: len(one.held()) == 4)
            with tenure.Member(two_context, targets, settle=0.2) as two:
                until(lambda: len(one.held()) == 2 and len(two.held()) == 2)
                mine = one.held()[0]
                self.assertTrue(one.is_held(mine))
                self.assertEqual(one.read(mine).state, tenure.MemberState.HELD)
                self.assertEqual(two.read(mine).planned, one.instance_id)
                one.confirm(mine)
                with self.assertRaises(tenure.Held):
                    two.acquire(mine)
                self.assertEqual(sorted(one.instances()), sorted([one.instance_id, two.instance_id]))
            until(lambda: len(one.held()) == 4)

    def test_two_instances_share_the_targets(self):
        namespace = fresh("fleet")
        targets = [f"s{i}" for i in range(6)]
        options = {"namespace": namespace, "targets": targets, "ttl": 2, "settle": 0.2}
        with tenure.LeaseManager(name="one", **options) as one:
            until(lambda: len(one.owned()) == 6)
            self.assertEqual(one.live_instances(), [one.instance_id])
            with tenure.LeaseManager(name="two", **options) as two:
                until(lambda: len(one.owned()) == 3 and len(two.owned()) == 3)
                self.assertFalse(set(one.owned()) & set(two.owned()))
                mine = one.owned()[0]
                self.assertTrue(one.is_owned(mine))
                self.assertFalse(two.is_owned(mine))
                self.assertEqual(one.preferred_owner(mine), one.instance_id)
                self.assertEqual(one.lease_info(mine).state, tenure.LeaseState.OWNED)
                one.strict_check(mine)
                with one.work(mine) as token:
                    self.assertEqual(token, one.lease_info(mine).token)
                with self.assertRaises(tenure.Lost):
                    with two.work(mine):
                        self.fail("it is not owned")
                names = set()
                until(lambda: names.add(getattr(two.next_event(), "name", "")) or "lease_acquired" in names)
            until(lambda: len(one.owned()) == 6)
        with self.assertRaises(ValueError):
            one.is_owned("s1")

    def test_a_target_can_be_taken_whatever_the_plan_says(self):
        with tenure.LeaseManager(namespace=fresh("fleet"), ttl=2) as manager:
            manager.put_target("s1")
            until(lambda: manager.try_acquire("s1"))
            manager.release("s1")
            manager.set_weight(2)


class Fencing(unittest.TestCase):
    def test_a_stale_token_is_refused(self):
        job = fresh("job")
        with tenure.Context(ttl=5) as context, tenure.Guard(context) as guard:
            with context.acquire(job) as lease:
                old = lease.token
                guard.check(job, old)
            with context.acquire(job, wait=5) as lease:
                guard.check(job, lease.token)
                with self.assertRaises(tenure.Stale):
                    guard.check(job, old)
                with self.assertRaises(ValueError):
                    guard.check(job, -1)


class Ends(unittest.TestCase):
    def run_program(self, text):
        return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30, check=False)

    def test_a_forgotten_election_is_stopped_at_the_end_of_the_program(self):
        role = fresh("forgotten")
        done = self.run_program(f"import tenure\ne = tenure.LeaderElection({role!r}).start()\nprint(e.wait(10))")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("True\n", "", 0))
        with tenure.LeaderElection(role, wait=5) as election:
            self.assertTrue(election.is_leader)

    def test_a_forgotten_lease_is_released_at_the_end_of_the_program(self):
        job = fresh("forgotten")
        done = self.run_program(f"import tenure\nc = tenure.Context()\nl = c.acquire({job!r})\nprint(l.valid)")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("True\n", "", 0))
        with tenure.Context() as context, context.acquire(job):
            pass

    def test_the_child_of_a_fork_holds_nothing(self):
        done = self.run_program(
            "import os, tenure\nc = tenure.Context(ttl=5)\nl = c.acquire('forked')\n"
            "if os.fork() == 0:\n    print('child', l.valid, flush=True)\n    os._exit(0)\nos.wait()\n"
            "print('parent', l.valid)\nl.release()")
        self.assertEqual((done.stdout, done.stderr), ("child False\nparent True\n", ""))


if __name__ == "__main__":
    unittest.main()
