"""A running server for the end-to-end tests, and requests to it over plain sockets and Python's HTTP client."""
import contextlib
import functools
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import time

from support import DATA, POCKET, SCRATCH, artifact, pocket, program

PROMPT = "The old man looked at the sea and"
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


class Server:
    """moert serve on a free port; `address` is its host and port."""

    def __init__(self, *flags, artifact=None, **options):
        command = [program("moert"), "serve", artifact or pocket(), "--port", "0", "--model-name", "pocket", *flags]
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True, **options)
        self.log = ""
        self.is_stopping = False
        for line in self.process.stderr:
            self.log += line
            if found := re.search(r"serving .* at http://([\d.]+):(\d+)/v1", line):
                self.address = (found[1], int(found[2]))
                return
        raise AssertionError(f"the server did not start:\n{self.log}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def stop(self):
        self.is_stopping = True
        self.process.send_signal(signal.SIGTERM)

    def end(self):
        """Exit status; the rest of stderr is in `log`. A second signal would end the process at once."""
        if self.process.poll() is None and not self.is_stopping:
            self.stop()
        self.log += self.process.communicate(timeout=120)[1] or ""
        return self.process.returncode

    def ask(self, path, body=None, method=None, headers=None):
        """Status and parsed JSON; `body` may be bytes."""
        connection = http.client.HTTPConnection(*self.address, timeout=120)
        with contextlib.closing(connection):
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method or ("GET" if body is None else "POST"), path, data,
                               {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text.startswith(b"{") else text.decode()

    def header(self, path, body, name):
        """A header of the answer to a request that is not refused; None: it has none."""
        connection = http.client.HTTPConnection(*self.address, timeout=120)
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            return response.getheader(name)

    def text(self, prompt=PROMPT, **fields):
        status, reply = self.ask(TEXT, {"model": "pocket", "prompt": prompt, "temperature": 0, **fields})
        assert status == 200, reply
        return reply

    def events(self, path, body):
        """The parsed events of a stream; the last one is "[DONE]"."""
        events = [event.removeprefix("data: ") for event in self.stream(path, body)]
        return [event if event == "[DONE]" else json.loads(event) for event in events]

    def stream(self, path, body):
        """The events of a stream as texts."""
        connection = http.client.HTTPConnection(*self.address, timeout=120)
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            assert response.getheader("Content-Type") == "text/event-stream"
            return [event for event in response.read().decode().split("\n\n") if event]

    def begin_stream(self, tokens, **fields):
        """A connection that has received the first event of a long answer, and its response."""
        connection = http.client.HTTPConnection(*self.address, timeout=120)
        connection.request("POST", TEXT, json.dumps({"model": "pocket", "prompt": PROMPT, "max_tokens": tokens, "stream": True,
                                                     "ignore_eos": True, "temperature": 0, **fields}),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        response.readline()
        return connection, response

    def raw(self, sent, most=65536):
        """What the server answers to these bytes until it closes the connection or a second has passed."""
        with socket.create_connection(self.address, timeout=5) as client:
            client.sendall(sent)
            received = b""
            with contextlib.suppress(socket.timeout, ConnectionResetError):
                while len(received) < most and (piece := client.recv(4096)):
                    received += piece
            return received

    def metric(self, name):
        found = re.search(rf"(?m)^{re.escape(name)} (\S+)$", self.ask("/metrics")[1])
        return float(found[1])

    def wait_until(self, name, holds):
        """Waits until a condition holds for a metric."""
        deadline = time.monotonic() + 60
        while not holds(found := self.metric(name)):
            assert time.monotonic() < deadline, f"{name} is {found}\n{self.log}"
            time.sleep(0.01)

    def wait_for(self, name, value):
        """Waits until a metric has the value."""
        self.wait_until(name, lambda found: found == value)


def chat(**fields):
    return {"model": "pocket", "messages": [{"role": "user", "content": "What is the sea?"}], "max_tokens": 8, **fields}


TEMPLATE = """{% if messages[0].role == 'user' and messages[0].content == '' %}{{ raise_exception('say something') }}{% endif %}
{%- for message in messages %}[{{ message.role }}] {{ message.content }}
{% if message.tool_calls %}{% for call in message.tool_calls %}<tool_call>{{ call.function.arguments.to }}</tool_call>
{% endfor %}{% endif %}{% endfor %}{% for tool in tools or [] %}{{ tool.function.name }}
{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"""


@functools.cache
def with_template():
    """The bundled checkpoint with a chat template and sampling defaults of its own."""
    folder = SCRATCH / "pocket-with-template"
    shutil.copytree(POCKET, folder, dirs_exist_ok=True)
    config = json.loads((POCKET / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": TEMPLATE}))
    stated = {"eos_token_id": 0, "do_sample": True, "temperature": 0.5, "top_k": 1, "repetition_penalty": 1.5}
    (folder / "generation_config.json").write_text(json.dumps(stated))
    return artifact(folder, "--bits", "4")


@functools.cache
def with_states(family):
    """A tiny checkpoint of a family with recurrent states, with a tokenizer of as few tokens as it has."""
    folder = SCRATCH / f"{family}-with-tokenizer"
    shutil.copytree(DATA / "golden" / family, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("golden"))
    tokenizer = json.loads((DATA / "tokenizers/gpt2.json").read_text())
    model = tokenizer["model"]
    model["vocab"] = {text: token for text, token in model["vocab"].items() if token < 300}
    model["merges"] = [merge for merge in model["merges"]
                       if "".join(merge.split(" ") if isinstance(merge, str) else merge) in model["vocab"]]
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "added_tokens": []}))
    return artifact(folder, "--bits", "8")
