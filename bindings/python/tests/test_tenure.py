"""The binding against a real store: TENURE_STORE. Called by tests/e2e/python.sh, once for each store."""

import asyncio
import os
import subprocess
import sys
import threading
import time
import unittest
import uuid

import tenure

TENURE = os.environ.get("TENURE", "tenure")


def fresh(name):
    return f"{name}-{uuid.uuid4().hex[:8]}"


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("this did not come true")
        time.sleep(0.02)


class Leases(unittest.TestCase):
    def test_a_lease_excludes_others_until_it_is_released(self):
        job = fresh("job")
        with tenure.Client(name="one", ttl=5) as one, tenure.Client(name="two", ttl=5) as two:
            with one.acquire(job) as lease:
                self.assertTrue(lease.valid)
                self.assertGreater(lease.token, 0)
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

    def test_a_lost_lease_says_so(self):
        job = fresh("job")
        with tenure.Client(ttl=5) as client:
            lease = client.acquire(job)
            subprocess.run([TENURE, "release", job, "--force", "--now"], check=True, capture_output=True)
            with self.assertRaises(tenure.Lost):
                lease.renew()
            self.assertFalse(lease.valid)

    def test_a_lease_that_is_not_renewed_turns_invalid_by_itself(self):
        with tenure.Client(ttl=0.3) as client:
            lease = client.acquire(fresh("job"))
            until(lambda: not lease.valid, 2)
            self.assertEqual(lease.remaining, 0)

    def test_mistakes_are_exceptions_and_not_crashes(self):
        with self.assertRaises(tenure.TenureError) as caught:
            tenure.Client("nonsense")
        self.assertEqual(caught.exception.name, "TENURE_E_INVALID")
        client = tenure.Client()
        for target in ("", "a b", "x" * 300, "..", "ä"):
            with self.assertRaises(tenure.TenureError):
                client.acquire(target)
        with self.assertRaises(ValueError):
            client.acquire("a\0b")
        lease = client.acquire(fresh("job"))
        client.close()
        client.close()
        self.assertFalse(lease.valid)
        for use in (lease.renew, lambda: lease.token, lambda: client.acquire("job"), lambda: client.instance_id):
            with self.assertRaises(ValueError):
                use()
        lease.release()


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

        @tenure.leader_only(role, ttl=1)
        def job():
            runs.append(1)
            return "done"

        self.assertEqual(job(), "done")
        self.assertIsNone(job())
        until(lambda: job() == "done", 5)
        self.assertEqual(len(runs), 2)

    def test_the_role_is_renewed_while_the_function_runs(self):
        role = fresh("long")

        @tenure.leader_only(role, ttl=0.6, at_least=0)
        def job():
            time.sleep(1.5)
            return tenure.LeaderElection(role, ttl=0.6).__enter__().is_leader

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
            with tenure.LeaderElection(role, ttl=1) as election:
                command = [TENURE, "release", role, "--namespace", "leader", "--force", "--now"]
                subprocess.run(command, check=True, capture_output=True)
                until(lambda: not election.is_leader, 5)

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


class Fleet(unittest.TestCase):
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
        with tenure.Client(ttl=5) as client, tenure.Guard() as guard:
            with client.acquire(job) as lease:
                old = lease.token
                guard.check(job, old)
            with client.acquire(job, wait=5) as lease:
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

    def test_the_child_of_a_fork_holds_nothing(self):
        done = self.run_program(
            "import os, tenure\nc = tenure.Client(ttl=5)\nl = c.acquire('forked')\n"
            "if os.fork() == 0:\n    print('child', l.valid, flush=True)\n    os._exit(0)\nos.wait()\n"
            "print('parent', l.valid)\nl.release()")
        self.assertEqual((done.stdout, done.stderr), ("child False\nparent True\n", ""))


if __name__ == "__main__":
    unittest.main()
