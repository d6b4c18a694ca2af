"""Clients that connect, stall, send garbage or vanish, beside ones that want an answer: nothing crashes, the budget holds, and memory
stays the same over many requests."""
import contextlib
import json
import random
import re
import socket
import struct
import threading
import time
import unittest
from pathlib import Path

import cgroups
from serving import PROMPT, TEXT, Server
from support import DONE, FULL, E2eTest, pocket, smallest_budget

POST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CLIENTS = 64
# Enough for 64 connections that arrive at a time; the header's time is short so that stalled ones give way.
LIMITS = ("--context", "256", "--sessions", "4", "--queue", "128", "--header-seconds", "1")


def with_body(body):
    return POST + b"Content-Length: %d\r\n\r\n" % len(body) + body


def request(**fields):
    return json.dumps({"model": "pocket", "prompt": PROMPT, "max_tokens": 4, **fields}).encode()


class Client:
    """One connection of a hostile client. Errors of the socket are what the server does to it."""

    def __init__(self, address, seed):
        self.random = random.Random(seed)
        self.address = address

    def act(self):
        kinds = [self.connect, self.stall, self.slow_header, self.garbage, self.huge_body, self.large_body, self.bad_utf8, self.deep,
                 self.truncated, self.vanish, self.pipelined, self.unread]
        with contextlib.suppress(OSError), socket.create_connection(self.address, timeout=10) as self.socket:
            self.random.choice(kinds)()

    def finish(self):
        """Reads what the server answers, until it closes the connection."""
        self.socket.shutdown(socket.SHUT_WR)
        while self.socket.recv(65536):
            pass

    def reset(self):
        """Vanishes without a farewell: the connection is reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def connect(self):
        pass

    def stall(self):
        time.sleep(self.random.random())

    def slow_header(self):
        for byte in b"GET /health HTTP/1.1\r\nHost: x":
            self.socket.sendall(bytes([byte]))
            time.sleep(0.02)

    def garbage(self):
        self.socket.sendall(self.random.randbytes(self.random.randrange(1, 5000)) + b"\r\n\r\n")
        self.finish()

    def huge_body(self):
        self.socket.sendall(POST + b"Content-Length: 999999999\r\n\r\n" + b"x" * 100000)
        self.finish()

    def large_body(self):
        self.socket.sendall(with_body(request(prompt="sea " * 200000)))
        self.finish()

    def bad_utf8(self):
        self.socket.sendall(with_body(request().replace(b"old", b"\xc3\x28\xed\xa0\x80")))
        self.finish()

    def deep(self):
        self.socket.sendall(with_body(b'{"prompt": ' + b"[" * 400000))
        self.finish()

    def truncated(self):
        self.socket.sendall(with_body(request())[:-10])
        self.reset()

    def vanish(self):
        self.socket.sendall(with_body(request(stream=True, max_tokens=200, ignore_eos=True)))
        self.socket.recv(100)
        self.reset()

    def pipelined(self):
        self.socket.sendall(with_body(request()) * 4)
        self.finish()

    def unread(self):
        """Asks for a long answer with scores and does not read it."""
        self.socket.sendall(with_body(request(stream=True, max_tokens=200, logprobs=5, ignore_eos=True)))
        time.sleep(0.2)
        self.reset()


def until_stopped(server, stop, body):
    """Asks again and again; refusals for lack of room are answers too."""
    while not stop.is_set():
        with contextlib.suppress(OSError), socket.create_connection(server.address, timeout=60) as client:
            client.sendall(with_body(body))
            client.settimeout(0.2)
            while not stop.is_set():
                with contextlib.suppress(socket.timeout):
                    if not client.recv(65536):
                        break


def benign(server, stop):
    until_stopped(server, stop, request(stream=True, max_tokens=300, ignore_eos=True))


def penalties(server, stop):
    until_stopped(server, stop, request(n=4, max_tokens=300, ignore_eos=True, presence_penalty=1, top_p=0.5, temperature=1,
                                        logit_bias={str(token): 1 for token in range(2000)}))


def hard_format(server, stop):
    """A schema of many strings with bounds, which begin alike."""
    schema = {"anyOf": [{"type": "string", "minLength": 100, "maxLength": 200 + i} for i in range(60)]}
    body = json.dumps({"model": "pocket", "messages": [{"role": "user", "content": "x"}], "max_tokens": 300, "temperature": 1,
                       "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}).encode()
    while not stop.is_set():
        with contextlib.suppress(OSError), socket.create_connection(server.address, timeout=60) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
            stop.wait(1)


def unread_scores(server, stop):
    """A long answer with scores that nobody reads."""
    with contextlib.suppress(OSError), socket.create_connection(server.address, timeout=60) as client:
        client.sendall(with_body(request(stream=True, max_tokens=400, logprobs=5, ignore_eos=True)))
        stop.wait()


def resident_bytes(process):
    """Memory of its own, without files and what it shares."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) * 1024


class HostileTest(E2eTest):
    def attack(self, server, clients, actions):
        """Each client acts so many times; one more, which is friendly, gets its answers meanwhile."""
        expected = server.text(max_tokens=4)["choices"]

        def hostile(number):
            for turn in range(actions):
                Client(server.address, number * actions + turn).act()

        threads = [threading.Thread(target=hostile, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        answers = [server.text(max_tokens=4)["choices"] for _ in range(10)]
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [expected] * 10)
        self.assertIsNone(server.process.poll(), server.log)
        for name in ("moert_sequences_running", "moert_sequences_waiting"):
            server.wait_for(name, 0)

    def test_a_budget_holds_among_hostile_clients(self):
        """In a control group of the budget's size, whose limit is never met."""
        if reason := cgroups.unavailable():
            self.skipTest(reason)
        budget = cgroups.whole_pages(smallest_budget("serve", pocket(), "--port", "0", *LIMITS) + (4 << 20))
        with cgroups.Group(budget) as group:
            cgroups.drop_page_cache()
            with Server(*LIMITS, "--memory", f"{budget}B", preexec_fn=group.join) as server:
                self.attack(server, CLIENTS, 24 if FULL else 3)
                self.assertEqual(server.end(), DONE, server.log)
            self.assertEqual((group.times_at_limit(), group.oom_kills()), (0, 0), f"peak {group.peak()} of {budget}")

    def test_a_budget_holds_among_requests_at_their_limits(self):
        """Waiting requests with penalties, hard formats and clients that do not read, in a control group of the budget's size. The gaps
        between the tokens of other streams are compared with those beside as many streams that read."""
        if reason := cgroups.unavailable():
            self.skipTest(reason)
        limits = ("--context", "512", "--sessions", "4", "--queue", "128", "--kv-tokens", "4096")
        budget = cgroups.whole_pages(smallest_budget("serve", pocket(), "--port", "0", *limits) + (4 << 20))
        with cgroups.Group(budget) as group:
            cgroups.drop_page_cache()
            with Server(*limits, "--memory", f"{budget}B", preexec_fn=group.join) as server:
                tokens = 400 if FULL else 150
                before = self.gaps(server, [benign] * 2, tokens)
                after = self.gaps(server, [penalties, hard_format, unread_scores] * (21 if FULL else 6), tokens)
                self.assertEqual(server.ask("/health")[0], 200)
                server.stop()
                self.assertEqual(server.end(), DONE, server.log)
            self.assertEqual((group.times_at_limit(), group.oom_kills()), (0, 0), f"peak {group.peak()} of {budget}")
        p99 = [sorted(gaps)[len(gaps) * 99 // 100] for gaps in (before, after)]
        print(f"p99 between tokens: {p99[0] * 1000:.1f} ms beside streams, {p99[1] * 1000:.1f} ms beside requests at their limits")
        if FULL:
            self.assertLessEqual(p99[1], 2 * p99[0])

    def gaps(self, server, others, tokens):
        """Seconds between the tokens of two streams that run beside other clients."""
        stop = threading.Event()
        streams = [server.begin_stream(tokens) for _ in range(2)]
        threads = [threading.Thread(target=other, args=(server, stop)) for other in others]
        found = []

        def read(response):
            last = time.monotonic()
            while line := response.readline():
                if line.startswith(b"data: {"):
                    now = time.monotonic()
                    found.append(now - last)
                    last = now

        readers = [threading.Thread(target=read, args=(response,)) for _, response in streams]
        for thread in threads + readers:
            thread.start()
        for thread in readers:
            thread.join()
        stop.set()
        for thread in threads:
            thread.join()
        return found

    def flat(self, warm, requests):
        """Memory after the first `warm` requests, after half of the others and after all: a leak grows in both halves. Two connections'
        threads: the allocator keeps some memory for each thread, whose caches take some hundred requests to fill, more on a busy machine."""
        bodies = [request(), request(prompt=[PROMPT, "A"], n=2, temperature=1), request(echo=True, logprobs=3), request(stream=True),
                  request(temperature=3), request(prompt="sea " * 5000), b"[", request(stop="the", seed=1, temperature=1)]
        with Server(*LIMITS, "--connections", "2", "--keep", "0", "--memory", "50%") as server:
            sizes = []
            half = (requests - warm) // 2
            for count in (warm, half, half):
                todo = iter(range(count))
                lock = threading.Lock()

                def client():
                    while True:
                        with lock:
                            number = next(todo, None)
                        if number is None:
                            return
                        server.ask(TEXT, bodies[number % len(bodies)])

                threads = [threading.Thread(target=client) for _ in range(8)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                sizes.append(resident_bytes(server.process))
            self.assertEqual(server.end(), DONE)
        print(f"after {warm} requests {sizes[0]} bytes, after {half} and {half} more {sizes[1]} and {sizes[2]}")
        self.assertLess(min(sizes[1] - sizes[0], sizes[2] - sizes[1]), 128 * 1024)

    def test_memory_is_flat_over_requests(self):
        self.flat(400, 1600)

    @unittest.skipUnless(FULL, "--full takes 10,000 requests")
    def test_memory_is_flat_over_ten_thousand_requests(self):
        self.flat(1000, 10000)
