"""The script that makes network namespaces: what it makes, that it always removes it, and what it does where it may not."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import networks

SCRIPT = pathlib.Path(networks.__file__)
WHY_NOT = networks.why_not()


def made():
    return [line.split()[0] for line in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout.splitlines()]


def of_owner(process):
    return [name for name in made() if name.startswith(f"dsn-{process}-")]


def script(*words, **options):
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=120, check=False, **options)


@unittest.skipIf(WHY_NOT, f"no network namespaces here: {WHY_NOT}")
class Namespaces(unittest.TestCase):
    def test_each_has_an_address_of_its_own_and_reaches_the_others(self):
        listen = "import socket; s = socket.create_server(('', 5001)); s.settimeout(30); print('ready', flush=True); c, a = s.accept(); print(a[0])"
        with networks.Networks(3) as used:
            self.assertFalse(used.loopback)
            server = used.start(2, [sys.executable, "-c", listen], stdout=subprocess.PIPE, text=True)
            server.stdout.readline()
            dial = f"import socket; socket.create_connection(('{used.addresses()[2]}', 5001), 30)"
            self.assertEqual(used.run(0, [sys.executable, "-c", dial]).returncode, 0)
            self.assertEqual(server.communicate(timeout=60)[0].strip(), used.addresses()[0])
        self.assertEqual(of_owner(os.getpid()), [])

    def test_a_cut_link_is_down_and_mended_again(self):
        dial = "import socket, sys\ntry: socket.create_connection((sys.argv[1], 9), 1)\nexcept ConnectionRefusedError: sys.exit(3)\nexcept OSError: sys.exit(4)"
        with networks.Networks(2) as used:
            reach = [sys.executable, "-c", dial, used.addresses()[1]]
            self.assertEqual(used.run(0, reach).returncode, 3)
            used.cut(1)
            self.assertEqual(used.run(0, reach).returncode, 4)
            used.mend(1)
            self.assertEqual(used.run(0, reach).returncode, 3)

    def test_a_limit_is_set_on_both_ends_of_a_link(self):
        with networks.Networks(2, rate_mbit=50) as used:
            for place, device in ((used.name(1), "eth0"), (used.name("b"), "port1")):
                shown = subprocess.run(["ip", "netns", "exec", place, "tc", "qdisc", "show", "dev", device], capture_output=True, text=True, check=False).stdout
                self.assertIn("tbf", shown)
                self.assertIn("rate 50Mbit", shown)

    def test_commands_get_their_number_and_addresses_and_the_first_failure_is_the_exit_code(self):
        run = script("--count", "2", "--", "sh", "-c", "echo {i} of {n} at {address} of {addresses}; exit $((7 * {i}))")
        self.assertEqual(run.returncode, 7, run.stderr)
        self.assertIn("1 of 2 at 198.18.0.2 of 198.18.0.1,198.18.0.2\n", run.stdout)

    def test_a_command_that_does_not_end_is_killed(self):
        self.assertEqual(script("--count", "1", "--timeout", "0.2", "--", "sleep", "100").returncode, 124)

    def start_until_made(self):
        process = subprocess.Popen([sys.executable, SCRIPT, "--count", "2", "--", "sh", "-c", "echo up; exec sleep 100"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        process.stdout.readline()
        self.assertEqual(len(of_owner(process.pid)), 3)
        return process

    def test_nothing_is_left_when_the_script_is_stopped(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start_until_made()
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=60), 128 + number)
            self.assertEqual(of_owner(process.pid), [])

    def test_what_a_killed_script_left_is_removed_at_the_next_start_and_what_a_live_one_has_is_not(self):
        live = self.start_until_made()
        dead = self.start_until_made()
        dead.kill()
        dead.wait(timeout=60)
        left = of_owner(dead.pid)
        self.assertEqual(len(left), 3)
        commands = subprocess.run(["ip", "netns", "pids", left[0]], capture_output=True, text=True, check=False).stdout.split()
        cleaned = script("--clean")
        self.assertEqual(cleaned.returncode, 0, cleaned.stderr)
        self.assertEqual(of_owner(dead.pid), [])
        self.assertEqual(len(of_owner(live.pid)), 3)
        for process in commands:
            self.assertFalse(alive(process))
        live.terminate()
        live.wait(timeout=60)

    def test_a_number_that_another_process_has_by_now_is_no_owner(self):
        name = f"dsn-{os.getpid()}-1-0"  # this process did not start one tick after the machine
        subprocess.run(["ip", "netns", "add", name], check=True)
        networks.remove_left_overs()
        self.assertNotIn(name, made())


def alive(process):
    """Also after it was killed it may be there for a moment."""
    deadline = time.monotonic() + 30
    while networks.start_of(process) is not None and time.monotonic() < deadline:
        pass
    return networks.start_of(process) is not None


class Anywhere(unittest.TestCase):
    def test_check_says_what_is_so(self):
        run = script("--check")
        self.assertEqual(run.returncode, 1 if WHY_NOT else 0)
        self.assertIn("no network namespaces here" if WHY_NOT else "may be made here", run.stdout)

    def test_without_the_right_the_commands_run_over_loopback_and_a_line_says_so(self):
        run = script("--count", "2", "--", "/bin/echo", "{i}", "{address}", env={**os.environ, "PATH": "/nowhere"})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(sorted(run.stdout.splitlines()), ["0 127.0.0.1", "1 127.0.0.1"])
        self.assertIn("networks: over loopback, without limits and cuts:", run.stderr)

    def test_bad_options_end_with_2(self):
        for words in ("--count 0 -- true", "--count 2", "--count 2 --cut x -- true", "--count 2 --cut 2@1 -- true", "--count 201 -- true"):
            self.assertEqual(script(*words.split()).returncode, 2, words)

    def test_the_start_of_a_process_is_read_whatever_its_name(self):
        self.assertEqual(networks.start_of(os.getpid()), networks.start_of("self"))
        self.assertIsNone(networks.start_of(0))


if __name__ == "__main__":
    unittest.main()
