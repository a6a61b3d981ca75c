"""The tracer: programs that read in all ways that there are, and what it says of them. What the kernel counts for a process is what it must have seen."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

library = os.environ['TRACER']
traced_command = os.environ['TRACED_COMMAND']
reader = os.environ['READER']
static_reader = os.environ['STATIC_READER']
size = 100_000


class TracerTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='dsanalyze-test-'))
        self.addCleanup(shutil.rmtree, self.folder)
        self.file = self.folder / 'data file'
        line = b'one line of text that is fifty bytes long, with 7\n'
        self.file.write_bytes((line * (size // len(line) + 1))[:size])

    def trace(self, *command, status=0, environment=None, library=library):
        launch = pathlib.Path(tempfile.mkdtemp(prefix='l-', dir=self.folder))
        run = subprocess.run([traced_command, library, launch, *map(str, command)], capture_output=True, text=True, check=False, timeout=60,
                             env=dict(os.environ, **(environment or {})))
        self.assertEqual(run.returncode, status, run.stderr)
        self.errors = run.stderr
        return json.loads(run.stdout)

    def reads(self, trace, path=None, kinds=('read', 'positioned', 'stream')):
        return [access for access in trace['accesses'] if access['path'] == str(path or self.file) and access['kind'] in kinds]

    def kernel(self):
        return int(re.search(r'kernel (\d+)', self.errors).group(1))

    def read_in_way(self, way, program=reader):
        trace = self.trace(program, way, self.file)
        return trace, self.reads(trace)


class Ways(TracerTest):
    def test_each_way_of_reading_is_seen_to_the_byte(self):
        ways = '''read read_chk pread readv preadv openat relative lseek dup fread fread_large fread_small fread_unbuffered fread_chk fdopen freopen fseek
                  ifstream ifstream_lines threads signals around'''
        for way in ways.split():
            with self.subTest(way):
                trace, reads = self.read_in_way(way)
                self.assertEqual(sum(access['bytes'] for access in reads), self.kernel())
                self.assertEqual((trace['lost_accesses'], trace['left_out']), (0, 0))
                self.assertEqual(trace['files'][str(self.file)]['size'], size)
                for access in reads:
                    self.assertLessEqual(access['offset'] + access['bytes'], size)

    def test_a_call_that_fails_fails_as_it_does_alone(self):
        run = subprocess.run([sys.executable, '-c', 'import ctypes, errno; c = ctypes.CDLL(None, use_errno=True); '
                              'print(*((c.openat(5, path, 0), ctypes.get_errno() == errno.EFAULT) for path in (None, ctypes.c_char_p(8))))'],
                             env=dict(os.environ, LD_PRELOAD=library), capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((run.returncode, run.stdout), (0, '(-1, True) (-1, True)\n'), run.stderr)

    def test_offsets_are_where_the_bytes_lie(self):
        for way in ('read', 'fread', 'fread_large', 'ifstream'):
            with self.subTest(way):
                at = 0
                for access in self.read_in_way(way)[1]:
                    self.assertEqual(access['offset'], at)
                    at += access['bytes']
                self.assertEqual(at, size)
        self.assertEqual([(access['offset'], access['bytes']) for access in self.read_in_way('lseek')[1]], [(30000, 1234)])

    def test_a_file_that_is_mapped_is_named(self):
        trace, reads = self.read_in_way('mmap')
        self.assertEqual(reads, [])
        mapped = self.reads(trace, kinds=('mapped',))
        self.assertEqual([access['bytes'] for access in mapped], [(size + 4095) // 4096 * 4096])

    def test_openings_are_counted_and_copies_of_a_descriptor_are_none(self):
        for way, openings in (('dup', 1), ('fdopen', 1), ('freopen', 2), ('threads', 8), ('ifstream', 1), ('signals', 201)):
            with self.subTest(way):
                trace, reads = self.read_in_way(way)
                self.assertEqual(len(self.reads(trace, kinds=('open',))), openings)
                self.assertEqual(len({access['opening'] for access in reads}), openings if way != 'freopen' else 1)


class Network(TracerTest):
    received = '''
import os, socket, threading
def sent(server, count):
    with server.accept()[0] as peer: peer.sendall(b'x' * count)
def took(connection, take):
    total = 0
    while True:
        got = take(connection)
        if not got: return total
        total += got
def connected(family, address, count):
    server = socket.create_server(address, family=family) if family != socket.AF_UNIX else socket.socket(family)
    if family == socket.AF_UNIX: server.bind(address); server.listen()
    threading.Thread(target=sent, args=(server, count), daemon=True).start()
    return socket.create_connection(server.getsockname()[:2]) if family != socket.AF_UNIX else local(address)
def local(address):
    connection = socket.socket(socket.AF_UNIX); connection.connect(address); return connection
buffer = bytearray(7000)
ways = [lambda c: len(c.recv(7000)), lambda c: c.recv_into(buffer), lambda c: c.recvfrom_into(buffer)[0], lambda c: len(c.recvmsg(7000)[0]), lambda c: len(os.read(c.fileno(), 7000))]
total = sum(took(connected(socket.AF_INET, ('127.0.0.1', 0), 100_001), way) for way in ways)
looked = connected(socket.AF_INET, ('127.0.0.1', 0), 50_000)
looked.recv(100, socket.MSG_PEEK)
total += took(looked, ways[0])
took(connected(socket.AF_UNIX, 'socket', 300_000), ways[0])
print(total, file=__import__('sys').stderr)
'''

    def test_what_comes_over_the_network_is_counted_to_the_byte_and_nothing_of_this_machine_alone(self):
        trace = self.trace(sys.executable, '-c', 'import os; os.chdir({!r})'.format(str(self.folder)) + self.received)
        self.assertEqual(int(self.errors.split()[-1]), 5 * 100_001 + 50_000)
        self.assertEqual(trace['network_bytes'], 5 * 100_001 + 50_000)


class Processes(TracerTest):
    def test_children_have_rings_of_their_own(self):
        trace, reads = self.read_in_way('fork')
        self.assertEqual(sum(access['bytes'] for access in reads), 3000 + size)
        pids = [access['pid'] for access in reads]
        self.assertEqual(len(set(pids)), 2)
        parent = pids[0]
        self.assertEqual(sum(access['bytes'] for access in reads if access['pid'] == parent), 2000)
        self.assertEqual(len(self.reads(trace, kinds=('open',))), 2)

    def test_the_child_of_a_vfork_leaves_the_rings_and_the_descriptors_of_its_parent_alone(self):
        trace, reads = self.read_in_way('vfork')
        self.assertEqual([(access['offset'], access['bytes']) for access in reads], [(0, 1000), (1000, 1000)])
        self.assertEqual(len(self.reads(trace, kinds=('open',))), 1)

    def test_a_fork_that_passes_the_c_library_by_is_a_process_of_its_own(self):
        trace, reads = self.read_in_way('raw_fork')
        self.assertEqual([(access['offset'], access['bytes']) for access in reads], [(0, 2000)])

    def test_more_than_the_ring_holds_is_counted_and_keeps_no_program_waiting(self):
        trace = self.trace(reader, 'storm', self.file, environment={'TRACED_PAUSE': '0.7'})
        reads = self.reads(trace)
        self.assertGreater(trace['lost_accesses'], 0)
        self.assertEqual(len(reads) + trace['lost_accesses'], 300_000)
        self.assertEqual(sum(access['bytes'] for access in reads) + trace['lost_bytes'], self.kernel())

    def test_what_cannot_be_traced_is_named_and_runs(self):
        trace, reads = self.read_in_way('sleep', static_reader)
        self.assertEqual(reads, [])
        self.assertEqual([process['command'] for process in trace['untraced']], [pathlib.Path(static_reader).name[:15]])
        trace = self.trace('env', '-i', reader, 'sleep', self.file)
        self.assertIn(pathlib.Path(reader).name[:15], [process['command'] for process in trace['untraced']])

    def test_a_program_with_a_c_plus_plus_library_of_its_own_as_those_of_conda_is_traced(self):
        program = self.folder / 'prefix' / 'bin' / 'reader'
        places = self.folder / 'prefix' / 'lib'
        for folder in (program.parent, places):
            folder.mkdir(parents=True)
        shutil.copy(os.environ['CONDA_READER'], program)
        maps = subprocess.run(['ldd', program], capture_output=True, text=True, check=True).stdout
        for name, path in re.findall(r'(libstdc\+\+\.so\.6|libgcc_s\.so\.1) => (\S+)', maps):
            shutil.copy(path, places / name)
        maps = subprocess.run(['ldd', program], capture_output=True, text=True, check=True).stdout
        self.assertIn(f'libstdc++.so.6 => {program.parent}/../lib/libstdc++.so.6', maps)
        for way in ('ifstream', 'fread', 'threads'):
            with self.subTest(way):
                trace, reads = self.read_in_way(way, program)
                self.assertEqual(sum(access['bytes'] for access in reads), self.kernel())
                self.assertEqual((trace['lost_accesses'], trace['left_out'], trace['untraced']), (0, 0, []))

    @unittest.skipIf(os.geteuid() != 0, 'needs another user')
    def test_a_setuid_program_is_named_and_runs(self):
        program = self.folder / 'setuid'
        shutil.copy(reader, program)
        os.chown(program, 65534, 65534)
        program.chmod(0o6755)
        for place in (self.folder, self.file):
            place.chmod(0o755)
        trace = self.trace(program, 'sleep', self.file)
        self.assertEqual([process['command'] for process in trace['untraced']], ['setuid'])

    def test_a_program_with_the_address_sanitizer_runs_and_is_named(self):
        if 'SANITIZED_READER' not in os.environ:
            self.skipTest('no program with a sanitizer was built')
        trace, reads = self.read_in_way('sleep', os.environ['SANITIZED_READER'])
        self.assertEqual(reads, [])
        self.assertEqual([process['command'] for process in trace['untraced']], [pathlib.Path(os.environ['SANITIZED_READER']).name[:15]])

    def test_a_library_that_the_user_preloads_stays(self):
        run = self.trace('sh', '-c', 'echo "it is $LD_PRELOAD" >&2', environment={'LD_PRELOAD': 'libdl.so.2'})
        self.assertIn(f'it is {library}:libdl.so.2', self.errors)
        self.assertEqual(run['lost_accesses'], 0)

    def test_a_library_whose_name_the_loader_would_cut_is_loaded_all_the_same(self):
        place = self.folder / 'a $place: with spaces'
        place.mkdir()
        shutil.copy(library, place)
        trace = self.trace(reader, 'read', self.file, library=place / pathlib.Path(library).name)
        self.assertEqual(sum(access['bytes'] for access in self.reads(trace)), size)

    def test_without_a_launcher_programs_run_untraced(self):
        for socket in ('', '/nowhere/at/all', str(self.file), '/x' * 100):
            run = subprocess.run([reader, 'around', self.file], env=dict(os.environ, LD_PRELOAD=library, DSANALYZE_TRACE=socket), capture_output=True,
                                 check=False)
            self.assertEqual(run.returncode, 0, socket)

    def test_limits_of_a_program_do_not_end_it(self):
        for limit in ('-f 8', '-n 5', '-v 30000'):
            with self.subTest(limit):
                trace = self.trace('sh', '-c', f'ulimit {limit}; exec "$0" read "$1"', reader, self.file)
                self.assertIn('kernel', self.errors)
                self.assertLessEqual(len(self.reads(trace)), size // 10000)


class Storms(TracerTest):
    def test_processes_that_are_killed_lose_at_most_what_they_were_writing(self):
        script = f'''
import os, signal, subprocess, time
for i in range(24):
    reader = subprocess.Popen([{reader!r}, 'forever', {str(self.file)!r}])
    time.sleep(0.004 * (i % 6))
    reader.send_signal(signal.SIGKILL)
    assert reader.wait() == -signal.SIGKILL
'''
        trace = self.trace(sys.executable, '-c', script)
        self.assertTrue(all(access['bytes'] == 100 for access in self.reads(trace)))
        self.assertGreater(len({access['pid'] for access in self.reads(trace)}), 12)

    def test_a_storm_of_forks_is_seen_process_by_process(self):
        script = f'''
import os
children = []
for i in range(60):
    child = os.fork()
    if child == 0:
        file = os.open({str(self.file)!r}, os.O_RDONLY)
        os.pread(file, 1000 + i, 0)
        os._exit(0)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
'''
        trace = self.trace(sys.executable, '-c', script)
        self.assertEqual(sorted(access['bytes'] for access in self.reads(trace)), [1000 + i for i in range(60)])
        self.assertEqual(trace['lost_accesses'], 0)


class Python(TracerTest):
    """Snippets; `path` is the file."""

    def snippet(self, text):
        count = '''
import os, pathlib, sys
path = sys.argv[1]
def count():
    with open('/proc/self/io') as file:
        text = file.read()
    return int(text.split()[1]), len(text)
before, own = count()
'''
        trace = self.trace(sys.executable, '-c', count + text + '\nprint("kernel", count()[0] - before - own, file=sys.stderr)', self.file)
        return trace, self.reads(trace)

    def check(self, text):
        trace, reads = self.snippet(text)
        self.assertEqual(sum(access['bytes'] for access in reads), self.kernel())
        return trace, reads

    def test_files(self):
        for text in ('open(path, "rb").read()', 'open(path).read()', 'os.pread(os.open(path, os.O_RDONLY), 5000, 10)',
                     'open(path, "rb", buffering=0).readinto(bytearray(3000))', 'list(open(path))', 'open(path, "rb").readinto(bytearray(3000))',
                     'pathlib.Path(path).read_bytes()'):
            with self.subTest(text):
                self.check(text)

    def test_mmap(self):
        trace, _ = self.snippet('import mmap; mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ)[5]')
        self.assertEqual(len(self.reads(trace, kinds=('mapped',))), 1)

    def test_a_subprocess_leaves_descriptors_alone(self):
        _, reads = self.snippet('file = os.open(path, os.O_RDONLY); os.read(file, 100); import subprocess; subprocess.run(["true"]); os.read(file, 100)')
        self.assertEqual([(access['offset'], access['bytes']) for access in reads[-2:]], [(0, 100), (100, 100)])


if __name__ == '__main__':
    unittest.main()
