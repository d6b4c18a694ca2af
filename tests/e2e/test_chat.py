"""Conversations: what compiling takes over of a checkpoint for them, and moert chat with pipes, signals and a terminal."""
import fcntl
import functools
import itertools
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import cgroups
from support import DATA, DONE, INTERRUPTED, POCKET, REFUSED, SCRATCH, E2eTest, artifact, digest, pocket, program, smallest_budget

TEMPLATE = DATA / "chat/plain.jinja"


class ArtifactTest(E2eTest):
    def checkpoint(self, **files):
        """The bundled model with files of other contents; a dot in a file's name is written as two underscores."""
        folder = self.scratch / "checkpoint"
        shutil.copytree(POCKET, folder, ignore=shutil.ignore_patterns("golden"))
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        return folder

    def compiled(self, checkpoint, *flags):
        output = self.scratch / "chat.moe"
        done = self.expect(DONE, "moec", "compile", checkpoint, "--bits", 4, "-o", output, *flags)
        return output, done.err

    def inspected(self, artifact):
        return json.loads(self.expect(DONE, "moec", "inspect", artifact, "--json").out)

    def test_template_tokens_and_sampling_are_in_the_artifact_and_inspect_shows_them(self):
        config = {"eos_token_id": [0, 5], "do_sample": True, "temperature": 0.5, "top_k": 20, "top_p": 0.75}
        checkpoint = self.checkpoint(chat_template__jinja=TEMPLATE.read_text(), generation_config__json=json.dumps(config))
        model, _ = self.compiled(checkpoint)
        found = self.inspected(model)
        self.assertEqual(found["chat"]["templates"], {"default": TEMPLATE.read_text()})
        self.assertEqual(found["chat"]["special_tokens"], {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"})
        self.assertEqual(found["sampling"], {"do_sample": True, "temperature": 0.5, "top_k": 20, "top_p": 0.75})
        self.assertEqual(found["model"]["eos_tokens"], [0, 5])
        self.documented(found["sampling"], "docs/inspect.md")
        page = self.expect(DONE, "moec", "inspect", model).out
        self.assertIn(f"template default  {len(TEMPLATE.read_text())} bytes", page)
        self.assertIn("drawn, temperature 0.5, top-k 20, top-p 0.75", page)
        self.expect(DONE, "moec", "verify", model)

    def test_emit_writes_compile_s_bytes_and_replan_keeps_the_template(self):
        checkpoint, module = self.checkpoint(chat_template__jinja=TEMPLATE.read_text()), self.scratch / "m.mlir"
        model, _ = self.compiled(checkpoint, "--save-module", module)
        emitted, replanned = self.scratch / "emitted.moe", self.scratch / "replanned.moe"
        self.expect(DONE, "moec", "emit", module, "-o", emitted)
        self.assertEqual(digest(emitted), digest(model))
        self.expect(DONE, "moec", "replan", model, "--memory", "50%", "-o", replanned)
        self.assertEqual(self.inspected(replanned)["chat"], self.inspected(model)["chat"])

    def test_what_cannot_be_kept_is_a_warning_and_the_model_compiles(self):
        checkpoint = self.checkpoint(chat_template__jinja="x" * (256 * 1024 + 1), tokenizer_config__json="{ broken")
        model, said = self.compiled(checkpoint)
        self.assertRegex(said, "warning: .*chat_template.jinja.*")
        self.assertRegex(said, "warning: .*tokenizer_config.json: found no JSON object")
        self.assertNotIn("chat", self.inspected(model))


@functools.cache
def model(**generation):
    """The bundled model with a template, and with these sampling defaults."""
    folder = SCRATCH / f"chat-checkpoint-{len(generation)}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(POCKET, folder, ignore=shutil.ignore_patterns("golden"))
    (folder / "chat_template.jinja").write_text(TEMPLATE.read_text())
    if generation:
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 0, **generation}))
    return artifact(folder, "--bits", "4")


def lines(*messages):
    return "".join(message + "\n" for message in messages)


class PipeTest(E2eTest):
    """Messages from a pipe: answers alone on standard output."""

    def chat(self, *messages, flags=("-n", 8)):
        return self.expect(DONE, "moert", "chat", model(), *flags, stdin=lines(*messages))

    def generated(self, prompt, tokens=8):
        return self.expect(DONE, "moert", "run", model(), "-p", prompt, "-n", tokens).out

    def test_an_answer_continues_the_rendered_conversation(self):
        first = self.generated("<|endoftext|>user: Hello<|endoftext|>assistant:")
        prompt = f"<|endoftext|>user: Hello<|endoftext|>assistant:{first}<|endoftext|>user: And then?<|endoftext|>assistant:"
        self.assertEqual(self.chat("Hello", "And then?").out, lines(first, self.generated(prompt)))

    def test_a_system_message_comes_first_and_can_be_replaced(self):
        prompt = "<|endoftext|>system: {}<|endoftext|>user: Hello<|endoftext|>assistant:"
        brief, long = (self.generated(prompt.format(text)) for text in ("Be brief.", "Be long."))
        done = self.chat("Hello", "/reset", "/system Be long.", "Hello", flags=("-n", 8, "--system", "Be brief."))
        self.assertEqual(done.out, lines(brief, long))

    def test_a_message_has_several_lines_by_backslashes_or_quotes(self):
        one = self.generated("<|endoftext|>user: one\n/two<|endoftext|>assistant:")
        self.assertEqual(self.chat("one\\", "/two").out, lines(one))
        self.assertEqual(self.chat('"""', "one", '/two"""').out, lines(one))
        self.assertEqual(self.chat('"""one', "/two").out, lines(one))  # The input's end ends the message.

    def test_only_the_new_part_of_the_conversation_is_computed(self):
        """/stats names the prompt's tokens: a short message after a long one, and at most one token of the last answer."""
        long = "The old man looked at the sea. " * 20
        said = self.chat(long, "/stats", "Why?", "/stats").err
        counts = [int(count) for count in re.findall(r"prompt +(\d+) tokens", said)]
        new = self.expect(DONE, "moert", "tokenize", model(), "-f", "-", stdin="<|endoftext|>user: Why?<|endoftext|>assistant:").out
        self.assertGreater(counts[0], 100)
        self.assertLessEqual(counts[1], len(new.split()) + 1)

    def test_another_rendered_prefix_is_computed_anew(self):
        prompt = "<|endoftext|>system: Be long.<|endoftext|>user: Hello<|endoftext|>assistant:{}<|endoftext|>user: Why?<|endoftext|>assistant:"
        first = self.generated("<|endoftext|>user: Hello<|endoftext|>assistant:")
        self.assertEqual(self.chat("Hello", "/system Be long.", "Why?").out, lines(first, self.generated(prompt.format(first))))

    def test_a_template_that_drops_reasoning_keeps_what_is_before_it(self):
        """The next prompt is computed from the first answer on, and gets the answer that it gets computed whole."""
        dropping = self.scratch / "dropping.jinja"
        dropping.write_text(TEMPLATE.read_text().replace("}}assistant:{%", "}}assistant:<think>{%"))
        long = "The old man looked at the sea. " * 20
        done = self.chat(long, "/stats", "Why?", "/stats", flags=("-n", 8, "--template", dropping, "--reasoning", "show"))
        counts = [int(count) for count in re.findall(r"prompt +(\d+) tokens", done.err)]
        self.assertGreater(counts[0], 100)
        self.assertLess(counts[1], 40)
        prompt = f"<|endoftext|>user: {long}<|endoftext|>assistant:<|endoftext|>user: Why?<|endoftext|>assistant:<think>"
        self.assertTrue(done.out.endswith(self.generated(prompt).strip() + "\n"), done.out)

    def test_the_budget_can_be_changed_and_the_answers_stay(self):
        plain = self.chat("Hello", "And then?", "Why?", flags=("-n", 24, "--memory", "50%"))
        done = self.chat("Hello", "/memory 10%", "And then?", "/memory", "/memory 1KiB", "/memory much", "/memory follow", "Why?",
                         "/memory 75%", flags=("-n", 24, "--memory", "50%"))
        self.assertEqual(done.out, plain.out)
        sizes = re.findall(r"(?m)^budget +(\S+ \S+), accounted .* plan (\S+)", done.err)
        self.assertEqual(len(sizes), 4, done.err)
        self.assertEqual(sizes[0], sizes[1])
        self.assertNotEqual(sizes[0], sizes[3])
        self.assertRegex(done.err, r"1024 bytes .*smallest budget that works is \d+")
        self.assertRegex(done.err, "size 'much': .*expected a number")
        self.assertIn("follows what the system has room for", done.err)

    def test_save_writes_the_messages(self):
        saved = self.scratch / "saved.json"
        done = self.chat("/system Be brief.", "Hello", f"/save {saved}", f"/save {self.scratch}/missing/file")
        answer = self.generated("<|endoftext|>system: Be brief.<|endoftext|>user: Hello<|endoftext|>assistant:")
        self.assertEqual(json.loads(saved.read_text()), {"messages": [
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}, {"role": "assistant", "content": answer}]})
        self.assertRegex(done.err, "missing/file.*")

    def test_commands_explain_themselves_and_unknown_ones_are_named(self):
        done = self.chat("/help", "/frobnicate", "/reset now", "/save", "/quit", "Hello")
        self.assertEqual(done.out, "")
        for part in ("/system TEXT", "unknown command /frobnicate", "/reset takes no text", "/save takes the name of a file"):
            self.assertIn(part, done.err)

    def test_commands_have_the_names_that_other_programs_give_them(self):
        self.assertIn("/system TEXT", self.chat("/?").err)
        for end in ("/bye", "/exit"):
            self.assertEqual(self.chat(end, "Hello").out, "")

    def test_undo_takes_back_a_message_with_its_answer(self):
        first, prompt = self.generated("<|endoftext|>user: Hello<|endoftext|>assistant:"), "<|endoftext|>user: {}<|endoftext|>assistant:"
        done = self.chat("Hello", "And then?", "/undo", "/undo", "/undo", "Why?")
        self.assertTrue(done.out.endswith("\n" + lines(self.generated(prompt.format("Why?")))), done.out)
        self.assertTrue(done.out.startswith(lines(first)))
        self.assertEqual(done.err.count("the last message and its answer are taken back"), 2)
        self.assertIn("there is no message to take back", done.err)

    def test_regen_answers_the_last_message_again(self):
        first = self.generated("<|endoftext|>user: Hello<|endoftext|>assistant:")
        done = self.chat("/regen", "Hello", "/regen", "/stats")
        self.assertEqual(done.out, lines(first, first))
        self.assertIn("there is no message to answer again", done.err)
        self.assertIn("the most likely tokens are the same again", done.err)
        self.assertRegex(done.err, "tokens, 1 turn\n")
        drawn = self.chat("Hello", "/regen", flags=("-n", 24, "--temp", 1.5, "--seed", 1)).out.splitlines()
        self.assertNotEqual(drawn[0], drawn[-1])

    def test_a_message_as_an_argument_is_answered_alone(self):
        first = lines(self.generated("<|endoftext|>user: Hello<|endoftext|>assistant:"))
        for words in (("-p", "Hello"), ("Hello",)):
            done = self.chat("not read", flags=("-n", 8, *words))
            self.assertEqual((done.out, done.err), (first, "ended after 8 tokens (-n)\n"))
        self.refused("moert", "chat", model(), "-c", 16, "-p", "Hello " * 40, mention="the conversation would have")

    def test_a_run_of_an_instruction_tuned_model_says_that_no_template_is_applied(self):
        for prompt, flags, said in (("Hello", (), True), ("Hello", ("--quiet",), False),
                                    ("<|endoftext|>user: Hello<|endoftext|>assistant:", (), False)):
            done = self.expect(DONE, "moert", "run", model(), "-p", prompt, "-n", 1, *flags)
            self.assertEqual("has a chat template, and moert run applies none; moert chat does" in done.err, said, (prompt, flags))
        self.assertNotIn("template", self.expect(DONE, "moert", "run", pocket("4"), "-p", "Hello", "-n", 1).err)

    def test_the_default_context_shrinks_to_what_the_budget_has_memory_for(self):
        smallest = smallest_budget("chat", model())
        done = self.expect(DONE, "moert", "chat", model(), "--memory", f"{smallest}B", stdin="")
        self.assertRegex(done.err, r"context +512 tokens, for which the budget has memory; a larger --memory has room for more\n")
        for budget, said in ((smallest, True), (2 * smallest, False)):
            done = self.expect(DONE, "moert", "chat", model(), "--memory", f"{budget}B", "-p", "Hello", "-n", 1)
            self.assertEqual("context    512 tokens, for which the budget has memory" in done.err, said, done.err)
        self.refused("moert", "chat", model(), "--memory", f"{smallest - 1}B",
                     mention=r"everything else .*\. Each token of context takes \S+ \S+: a smaller --context lowers that")
        self.refused("moert", "chat", model(), "--memory", f"{smallest}B", "--context", 2048, mention="KV cache for 2048 tokens")

    def test_the_checkpoint_s_sampling_is_shown_and_options_override_it(self):
        sampled = model(do_sample=True, temperature=0.5, top_k=20)
        done = self.expect(DONE, "moert", "chat", sampled, "--seed", 3, stdin="")
        self.assertRegex(done.err, r"sampling +temperature 0.5, top-k 20, seed 3 \(the checkpoint's")
        done = self.expect(DONE, "moert", "chat", sampled, "--temp", 0, "--repetition-penalty", 1.5, stdin="")
        self.assertRegex(done.err, r"sampling +greedy, repetition penalty 1.5")

    def test_a_full_context_ends_the_answer_or_drops_the_oldest_turns(self):
        flags = ("--context", 64, "-n", 40, "--presence-penalty", 100, "--logit-bias", "0=-inf")
        done = self.chat("Hello", "And then?", "And then?", "Why?", flags=(*flags, "--on-full", "stop"))
        self.assertEqual(len(done.out.splitlines()) >= 2, True)
        self.assertRegex(done.err, r"context: \d+ of 64 tokens used; when it is full, the answer ends")
        self.assertRegex(done.err, r"the conversation would have \d+ tokens, the context has 64: /reset begins anew")
        done = self.chat("Hello", "And then?", "And then?", "Why?", flags=flags)
        self.assertRegex(done.err, r"context full: dropped the oldest \d turns?")
        self.assertEqual(done.err.count("when it is full, the oldest turns are dropped"), 1)
        self.assertNotIn("the conversation would have", done.err)

    def test_a_shifted_conversation_is_the_one_without_the_oldest_turns(self):
        """The last answer is that to the turns that are left, computed alone."""
        saved = self.scratch / "saved.json"
        done = self.chat("Hello", "And then?", "And why is that?", f"/save {saved}",
                         flags=("--context", 48, "-n", 12, "--presence-penalty", 100))
        messages = json.loads(saved.read_text())["messages"]
        self.assertLess(len(messages), 6)
        prompt = "".join(f"<|endoftext|>{m['role']}:{' ' * (m['role'] == 'user')}{m['content']}" for m in messages[:-1])
        answer = self.expect(DONE, "moert", "run", model(), "-p", prompt + "<|endoftext|>assistant:", "-n", 12,
                             "--presence-penalty", 100).out
        self.assertTrue(done.out.endswith(answer + "\n"), (done.out, answer))

    def test_reasoning_is_hidden_in_a_pipe_unless_it_is_asked_for(self):
        thinking = self.scratch / "thinking.jinja"
        thinking.write_text(TEMPLATE.read_text().replace("}}assistant:{%", "}}assistant:<think>{%"))
        self.assertNotEqual(thinking.read_text(), TEMPLATE.read_text())
        flags = ("-n", 8, "--template", thinking)
        self.assertEqual(self.chat("Hello", flags=flags).out, "\n")
        said = self.generated("<|endoftext|>user: Hello<|endoftext|>assistant:<think>")
        self.assertEqual(self.chat("Hello", flags=(*flags, "--reasoning", "show")).out, said.strip() + "\n")

    def test_input_that_is_not_utf_8_ends_the_conversation_with_an_error(self):
        for line in (b"caf\xe9\n", b"/system caf\xe9\n"):
            done = self.expect(REFUSED, "moert", "chat", model(), "-n", 8, stdin=b"Hello\n" + line + b"Why?\n")
            self.assertEqual(done.out, lines(self.generated("<|endoftext|>user: Hello<|endoftext|>assistant:")))
            self.assertRegex(done.err, r"standard input: the message: byte 0xe9 at offset \d+ is not UTF-8, expected UTF-8 text")

    def test_a_template_that_refuses_a_message_takes_it_back(self):
        refusing = self.scratch / "refusing.jinja"
        refusing.write_text("{% if messages[-1].content == 'No' %}{{ raise_exception('not this one') }}{% endif %}" + TEMPLATE.read_text())
        done = self.chat("No", "Hello", flags=("-n", 8, "--template", refusing))
        self.assertIn("not this one", done.err)
        self.assertEqual(done.out, lines(self.generated("<|endoftext|>user: Hello<|endoftext|>assistant:")))

    def test_what_cannot_begin_is_refused(self):
        broken, raising = self.scratch / "broken.jinja", self.scratch / "raising.jinja"
        broken.write_text("{% for %}")
        raising.write_text("{{ raise_exception('no conversations') }}")
        for arguments, mention in (
                ([pocket("4")], "has no chat template, expected the one of its checkpoint.*--template FILE"),
                ([model(), "--template", broken], "broken.jinja"),
                ([model(), "--template", raising], "no conversations"),
                ([model(), "--template", self.scratch / "missing"], "missing"),
                ([model(), "--template-name", "tool_use"], "has no chat template 'tool_use', expected --template-name with one of: default"),
                ([model(), "--template-arg", "thinking"], "expected NAME=VALUE"),
                ([model(), "--template-arg", "messages=3"], "the conversation sets messages, expected another variable"),
                ([model(), "--context", 100000], "--context 100000, expected at most 2048"),
                ([model(), "--top-p", 0.5], "without a temperature, expected --temp too"),
                ([model(), "--on-full", "explode"], "'explode', expected shift.stop"),
                ([model(), "--reasoning", "loud"], "'loud', expected show.dim.hide"),
                ([model(), "--memory", "1KiB"], "smallest")):
            with self.subTest(mention):
                self.refused("moert", "chat", *arguments, mention=mention)

    def test_the_budget_holds(self):
        """In a control group of the budget's size, whose limit is never met."""
        reason = cgroups.unavailable()
        if reason:
            self.skipTest(reason)
        command = ("chat", model(), "--context", 512, "-n", 64, "--temp", 1, "--seed", 1)
        budget = cgroups.whole_pages(smallest_budget(*command))
        messages = self.scratch / "messages"
        messages.write_text(lines(*["The old man looked at the sea. " * 8] * 12))
        with cgroups.Group(budget) as group, messages.open() as stdin:
            cgroups.drop_page_cache()
            done = group.run([program("moert"), *map(str, command), "--memory", f"{budget}B"], stdin=stdin)
            self.assertEqual(done.returncode, DONE, done.stderr.decode()[-2000:])
            self.assertEqual((group.times_at_limit(), group.oom_kills()), (0, 0), f"peak {group.peak()} of {budget}")


class SignalTest(E2eTest):
    """Ctrl-C without a terminal, and requests to end."""

    def started(self):
        process = subprocess.Popen([program("moert"), "chat", str(model()), "--temp", "1", "--seed", "1", "--logit-bias", "0=-inf"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        process.stdin.write(b"Hello\n")
        process.stdin.flush()
        self.assertTrue(process.stdout.read(1))  # In the middle of an answer without an end.
        return process

    def test_ctrl_c_ends_the_answer_and_not_the_conversation(self):
        process = self.started()
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(b"/stats\n", timeout=60)
        self.assertEqual(process.returncode, DONE, error.decode())
        self.assertRegex(error.decode(), r"(?m)^stopped$")
        self.assertRegex(error.decode(), r"context +\d+ of 2048 tokens, 1 turn")
        self.assertTrue(out.endswith(b"\n"))

    def test_a_request_to_end_ends_the_answer_and_the_program(self):
        process = self.started()
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, INTERRUPTED, error.decode())


class TerminalTest(E2eTest):
    """A conversation at a terminal of its own."""

    def open(self, *flags, columns=80, environment=None, begins=r".*/help lists\s+the\s+commands.*\n.*> "):
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
            os.environ.update({"TERM": "xterm", **(environment or {})})
            os.execv(program("moert"), ["moert", "chat", str(model()), *map(str, flags)])
        self.seen = ""
        self.addCleanup(os.close, self.terminal)
        self.addCleanup(self.end)
        self.started = self.wait_for(begins)

    def end(self):
        if self.child:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)

    def wait_for(self, pattern, seconds=60):
        """Reads until the pattern has been seen after what earlier calls matched."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen, re.DOTALL)):
            ready = select.select([self.terminal], [], [], max(0, deadline - time.monotonic()))[0]
            self.assertTrue(ready, f"no {pattern} in {self.seen!r}")
            try:
                block = os.read(self.terminal, 65536)
            except OSError:  # The program has ended.
                block = b""
            self.assertTrue(block, f"the end, and no {pattern} in {self.seen!r}")
            self.seen += block.decode(errors="replace")
        self.seen = self.seen[found.end():]
        return found[0]

    def type(self, text):
        os.write(self.terminal, text.encode())

    def ended(self, seconds=60):
        deadline = time.monotonic() + seconds
        while (ended := os.waitpid(self.child, os.WNOHANG))[0] == 0:
            self.assertLess(time.monotonic(), deadline, f"it goes on after {self.seen!r}")
            time.sleep(0.01)
        self.child = None
        return os.waitstatus_to_exitcode(ended[1])

    def test_ctrl_c_ends_the_answer_then_the_line_and_never_the_program(self):
        self.open("--temp", 1, "--seed", 1, "--logit-bias", "0=-inf")
        self.type("Hello\n")
        self.wait_for(r"Hello\r\n.{20}")
        self.type("\x03")
        self.wait_for(r"stopped.*> ")
        self.type("half a line")
        self.wait_for("half a line")
        self.type("\x03")
        self.wait_for(r"/quit or Ctrl-D ends the conversation.*> ")
        self.type("/quit\n")
        self.assertEqual(self.ended(), DONE)

    def test_ctrl_d_ends_the_conversation(self):
        self.open()
        self.type("\x04")
        self.assertEqual(self.ended(), DONE)

    def test_arrow_keys_edit_the_line_and_bring_back_earlier_ones(self):
        self.open("-n", 4)
        self.type("/frob\x1b[D\x1b[D\x1b[DX\n")  # Three to the left: after the f.
        self.wait_for(r"unknown command /fXrob.*> ")
        self.type("\x1b[A\n")
        self.wait_for(r"unknown command /fXrob.*> ")
        self.type("/quit\n")
        self.assertEqual(self.ended(), DONE)

    def test_a_message_of_several_lines_has_another_prompt(self):
        self.open("-n", 4)
        self.type('"""é\n')
        self.wait_for(r"\. ")
        self.type('b"""\n')
        self.wait_for(r"> ")
        saved = self.scratch / "saved.json"
        self.type(f"/save {saved}\n")
        self.wait_for(r"saved .*> ")
        self.assertEqual(json.loads(saved.read_text())["messages"][0]["content"], "é\nb")
        self.type("/quit\n")
        self.assertEqual(self.ended(), DONE)

    def screen(self, columns, text):
        """The lines that a terminal of so many columns shows, and whether it had to break one itself."""
        shown, is_broken = [""], False
        for part in re.findall(r"\x1b\[[?\d;]*[a-zA-Z]|\r|\n|\x08|.", text, re.DOTALL):
            if part == "\n":
                shown.append("")
            elif len(part) == 1 and part >= " ":
                if len(shown[-1]) == columns:
                    is_broken = True
                    shown.append("")
                shown[-1] += part
        return [line.rstrip() for line in shown], is_broken

    def test_words_of_an_answer_are_wrapped_at_the_terminal_s_width(self):
        flags = ("-n", 120, "--logit-bias", "0=-inf")
        for columns, drawn in itertools.product((40, 80, 120), ((), ("--temp", 1, "--seed", 1))):
            with self.subTest(columns, drawn=drawn):  # Not drawn, the answer is a single long word.
                plain = self.expect(DONE, "moert", "chat", model(), *flags, *drawn, "-p", "Hello").out
                self.open(*flags, *drawn, columns=columns)
                self.type("Hello\n")
                text = self.wait_for(r"Hello\r\n.*ended after 120 tokens").split("Hello\r\n", 1)[1]
                shown, is_broken = self.screen(columns, text.split("ended after")[0])
                self.assertFalse(is_broken, shown)
                self.assertLessEqual(max(map(len, shown)), columns)
                self.assertEqual("".join("".join(shown).split()), "".join(plain.split()))
                whole = {word for word in plain.split() if len(word) <= columns}
                self.assertEqual(whole - set(" ".join(shown).split()), set())
                self.type("/quit\n")
                self.assertEqual(self.ended(), DONE)

    def saved(self):
        """The messages of the conversation."""
        path = self.scratch / f"saved-{time.monotonic_ns()}.json"
        self.type(f"/save {path}\n")
        self.wait_for(r"saved\s.*> ")
        return json.loads(path.read_text())["messages"]

    def test_pasted_lines_are_one_message_that_is_sent_by_enter(self):
        for columns in (40, 80, 120):
            with self.subTest(columns):
                self.open("-n", 4, columns=columns)
                self.assertIn("\x1b[?2004h", self.started)
                self.type("\x1b[200~/reset\rdéjà\r\r  vu and a line that is longer than forty columns\r\x1b[201~")
                self.wait_for("columns")
                self.type(" indeed\n")
                self.wait_for(r"indeed.*ended after 4 tokens.*> ")
                self.assertEqual([m["content"] for m in self.saved() if m["role"] == "user"],
                                 ["/reset\ndéjà\n\n  vu and a line that is longer than forty columns indeed"])
                self.type("/quit\n")
                self.assertIn("\x1b[?2004l", self.wait_for("quit.*2004l"))
                self.assertEqual(self.ended(), DONE)

    def test_keys_typed_during_an_answer_are_in_the_next_line_and_not_in_the_answer(self):
        flags = ("-n", 400, "--logit-bias", "0=-inf", "--temp", 1, "--seed", 1)
        plain = self.expect(DONE, "moert", "chat", model(), *flags, "-p", "Hello").out
        for columns in (40, 80, 120):
            with self.subTest(columns):
                self.open(*flags, columns=columns)
                self.type("Hello\n")
                begin = self.wait_for(r"Hello\r\n.{20}")
                for key in "/frobZZ":
                    self.type(key)
                    time.sleep(0.01)
                text = begin.split("Hello\r\n", 1)[1] + self.wait_for(".*ended after 400 tokens")
                shown, _ = self.screen(columns, text.split("ended after")[0])
                self.assertEqual("".join("".join(shown).split()), "".join(plain.split()))
                self.wait_for("> .*/frobZZ")
                self.type("\n")
                self.wait_for(r"unknown command /frobZZ.*> ")
                self.type("/quit\n")
                self.assertEqual(self.ended(), DONE)

    def test_messages_are_kept_for_the_arrow_keys_of_the_next_conversation(self):
        state = self.scratch / "state"
        for flags, kept in (((), True), (("--no-history",), False)):
            with self.subTest(flags):
                shutil.rmtree(state, ignore_errors=True)
                self.open("-n", 4, *flags, environment={"XDG_STATE_HOME": str(state)})
                self.type("/frobnicate\n")
                self.wait_for(r"unknown command /frobnicate.*> ")
                self.type("\x04")
                self.assertEqual(self.ended(), DONE)
                file = state / "moert/chat-history"
                self.assertEqual(file.exists(), kept)
                if kept:
                    self.assertEqual(file.stat().st_mode & 0o777, 0o600)
                    self.open("-n", 4, environment={"XDG_STATE_HOME": str(state)})
                    self.type("\x1b[A\n")
                    self.wait_for(r"unknown command /frobnicate.*> ")
                    self.type("/quit\n")
                    self.assertEqual(self.ended(), DONE)

    def test_an_answer_in_the_background_of_a_terminal_is_not_stopped(self):
        """The shell's next command has the terminal while the answer is written."""
        child, terminal = pty.fork()
        if child == 0:
            os.execvp("bash", ["bash", "-ic", 'set -m; "$0" chat "$1" -n 4 -p Hello & wait $!; echo "exit status $?"',
                               program("moert"), str(model())])
        self.addCleanup(os.close, terminal)
        self.child, self.terminal, self.seen = child, terminal, ""
        self.addCleanup(self.end)
        self.wait_for("exit status 0")
        self.ended()

    def test_a_message_as_an_argument_is_answered_at_a_terminal_without_asking(self):
        self.open("-n", 4, "Hello", begins="ended after 4 tokens")
        self.assertEqual(self.ended(), DONE)

    def test_notices_are_wrapped_at_the_terminal_s_width(self):
        self.open("-n", 4, columns=40)
        self.type("/help\n")
        page = self.wait_for(r"/help\r\n.*Ctrl-C.*any lines\.")
        lines = re.sub(r"\x1b\[[?\d]*[a-z]", "", page).split("\r\n")[1:]
        self.assertLessEqual(max(map(len, lines)), 40, lines)
        self.assertIn("/save FILE     write the messages as", lines)
        self.assertIn("               JSON", lines)
        self.type("/quit\n")
        self.assertEqual(self.ended(), DONE)

    def test_the_memory_account_and_the_numbers_fit_a_narrow_terminal(self):
        for columns in (40, 120):
            self.open("-n", 4, "--memory-table", columns=columns)
            before = self.started
            self.type("Hello\n")
            self.wait_for("Hello.*> ")
            self.type("/stats\n")
            page = before + self.wait_for(r"prompt .*1 turn")
            lines = re.sub(r"\x1b\[[?\d]*[a-zA-Z]", "", page).split("\r\n")
            self.assertLessEqual(max(map(len, lines)), columns, lines)
            self.assertTrue(any(re.fullmatch(r"  total +[\d.]+ MiB" if columns == 40 else r"  total +\d+ B +[\d.]+ MiB", line)
                                for line in lines), lines)
            self.type("/quit\n")
            self.assertEqual(self.ended(), DONE)

    def test_reasoning_is_dimmed_and_control_characters_are_shown_as_text(self):
        thinking = self.scratch / "thinking.jinja"
        thinking.write_text(TEMPLATE.read_text().replace("}}assistant:{%", "}}assistant:<think>{%"))
        self.open("-n", 4, "--template", thinking)
        self.type("Hello\n")
        self.wait_for(r"\x1b\[2m[^\x1b]+\x1b\[0m")
        self.type("/quit\n")
        self.assertEqual(self.ended(), DONE)
        self.open("-n", 4, "--template", thinking, environment={"NO_COLOR": "1"})
        self.type("Hello\n")
        self.assertNotIn("\x1b[2m", self.wait_for(r"Hello\r\n.*ended after 4 tokens.*> "))
        self.type("/quit\n")
        self.assertEqual(self.ended(), DONE)
