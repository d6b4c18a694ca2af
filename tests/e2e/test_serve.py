"""The server: answers, streams, refusals and bounds, over plain sockets and Python's HTTP client."""
import contextlib
import json
import math
import re
import signal
import socket
import threading

from serving import CHAT, PROMPT, TEXT, Server, chat, with_states, with_template
from support import DONE, E2eTest, plain_text, pocket, run, smallest_budget


class ServeTest(E2eTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--context", "512")

    @classmethod
    def tearDownClass(cls):
        cls.server.end()


class AnswerTest(ServeTest):
    def test_a_greedy_text_is_that_of_a_run(self):
        done = self.expect(DONE, "moert", "run", pocket(), "-p", PROMPT, "-n", 24, "--json")
        reply = self.server.text(max_tokens=24)
        self.assertEqual(reply["choices"][0]["text"], json.loads(done.out)["text"])
        self.assertEqual(reply["choices"][0]["finish_reason"], "length")
        self.assertEqual(reply["usage"]["completion_tokens"], 24)
        self.assertEqual(reply["usage"]["total_tokens"], 24 + reply["usage"]["prompt_tokens"])

    def test_a_seed_gives_the_same_text_again_and_that_of_a_run(self):
        first, second, other = (self.server.text(max_tokens=16, temperature=1, top_p=0.9, seed=seed) for seed in (7, 7, 8))
        self.assertEqual(first["choices"], second["choices"])
        self.assertNotEqual(first["choices"], other["choices"])
        done = self.expect(DONE, "moert", "run", pocket(), "-p", PROMPT, "-n", 16, "--json", "--temp", 1, "--top-p", 0.9,
                           "--seed", 7)
        self.assertEqual(first["choices"][0]["text"], json.loads(done.out)["text"])

    def test_ids_and_texts_give_the_same_answer(self):
        done = run("moert", "tokenize", pocket(), "-f", "-", stdin=PROMPT)
        ids = [int(word) for word in done.out.split()]
        self.assertEqual(self.server.text(ids)["choices"], self.server.text()["choices"])
        both = self.server.text([ids, ids[:3]])
        self.assertEqual(both["choices"][0], self.server.text()["choices"][0])
        self.assertEqual(both["choices"][1]["text"], self.server.text(ids[:3])["choices"][0]["text"])

    def test_several_prompts_and_choices_come_in_order(self):
        reply = self.server.text([PROMPT, "A"], n=2, max_tokens=5, temperature=1, seed=3)
        self.assertEqual([choice["index"] for choice in reply["choices"]], [0, 1, 2, 3])
        alone = [self.server.text(prompt, max_tokens=5, temperature=1, seed=seed)["choices"][0]["text"]
                 for prompt in (PROMPT, "A") for seed in (3, 4)]
        self.assertEqual([choice["text"] for choice in reply["choices"]], alone)

    def test_a_stop_text_ends_an_answer_before_it(self):
        whole = self.server.text(max_tokens=24)["choices"][0]["text"]
        stop = whole[10:14]
        for value in (stop, ["never there", stop]):
            choice = self.server.text(max_tokens=24, stop=value)["choices"][0]
            self.assertEqual((choice["text"], choice["finish_reason"]), (whole[:whole.index(stop)], "stop"))

    def test_a_stream_has_the_pieces_of_the_whole_answer(self):
        body = {"model": "pocket", "prompt": PROMPT, "max_tokens": 12, "temperature": 1, "seed": 5, "n": 2}
        events = self.server.events(TEXT, {**body, "stream_options": {"include_usage": True}})
        self.assertEqual(events[-1], "[DONE]")
        whole = self.server.text(**{**body, "prompt": PROMPT})
        for index in range(2):
            pieces = [c for e in events[:-2] for c in e["choices"] if c["index"] == index]
            self.assertEqual("".join(piece["text"] for piece in pieces), whole["choices"][index]["text"])
            self.assertEqual([piece["finish_reason"] for piece in pieces[-2:]], [None, "length"])
        self.assertEqual(events[-2]["choices"], [])
        self.assertEqual(events[-2]["usage"], whole["usage"])

    def test_a_chat_is_a_prompt_in_chatml(self):
        self.assertIn("written as ChatML, as the model has no chat template", self.server.log)
        status, reply = self.server.ask(CHAT, chat(temperature=0))
        self.assertEqual(status, 200)
        prompt = "<|im_start|>user\nWhat is the sea?<|im_end|>\n<|im_start|>assistant\n"
        text = self.server.text(prompt, max_tokens=8, stop="<|im_end|>")["choices"][0]["text"]
        self.assertEqual(reply["choices"][0]["message"], {"role": "assistant", "content": text, "refusal": None})
        parts = [{"type": "text", "text": "What is "}, {"type": "text", "text": "the sea?"}]
        again = self.server.ask(CHAT, chat(temperature=0, messages=[{"role": "user", "content": parts}]))[1]
        self.assertEqual(again["choices"], reply["choices"])
        events = self.server.events(CHAT, chat(temperature=0))
        deltas = [event["choices"][0]["delta"] for event in events[:-1]]
        self.assertEqual(deltas[0]["role"], "assistant")
        self.assertEqual("".join(delta.get("content", "") for delta in deltas), text)
        self.assertEqual(events[-2]["choices"][0]["finish_reason"], reply["choices"][0]["finish_reason"])

    def test_concurrent_answers_are_those_that_each_gets_alone(self):
        bodies = [{"prompt": PROMPT[:8 + 3 * i], "max_tokens": 10 + i, "temperature": i % 3, "seed": i} for i in range(16)]
        alone = [self.server.text(**body)["choices"] for body in bodies]
        together = [None] * len(bodies)

        def client(index):
            together[index] = self.server.text(**bodies[index])["choices"]

        threads = [threading.Thread(target=client, args=(index,)) for index in range(len(bodies))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)

    def test_the_model_and_its_health_are_listed(self):
        self.assertEqual(self.server.ask("/health"), (200, {"status": "ok"}))
        (model,) = self.server.ask("/v1/models")[1]["data"]
        self.assertEqual((model["id"], model["object"]), ("pocket", "model"))
        self.assertEqual(self.server.ask("/v1/models/pocket"), (200, model))

    def test_metrics_count_sequences_and_tokens(self):
        before = {name: self.server.metric(name) for name in ("moert_generated_tokens_total", "moert_prompt_tokens_total",
                                                              'moert_sequences_total{end="length"}')}
        usage = self.server.text(max_tokens=9)["usage"]
        self.server.wait_for('moert_sequences_total{end="length"}', before['moert_sequences_total{end="length"}'] + 1)
        self.assertEqual(self.server.metric("moert_generated_tokens_total") - before["moert_generated_tokens_total"], 9)
        self.assertLessEqual(self.server.metric("moert_prompt_tokens_total") - before["moert_prompt_tokens_total"],
                             usage["prompt_tokens"])
        self.assertEqual(self.server.metric("moert_sequences_running"), 0)


class FormatTest(ServeTest):
    """On a model that writes nonsense: what it writes has the format all the same."""

    def formatted(self, format, **fields):
        status, reply = self.server.ask(CHAT, chat(response_format=format, max_tokens=200, **fields))
        self.assertEqual(status, 200, reply)
        (choice,) = reply["choices"]
        return choice["message"]["content"], choice["finish_reason"]

    def test_any_object_is_json(self):
        for seed in range(4):
            text, reason = self.formatted({"type": "json_object"}, seed=seed, logit_bias={})
            with self.subTest(text):
                self.assertEqual(text[0], "{")
                if reason == "stop":
                    self.assertIsInstance(json.loads(text), dict)

    def test_values_have_their_schema_and_end_with_it(self):
        schema = {"type": "object", "properties": {
            "colour": {"enum": ["red", "green"]}, "count": {"type": "integer"}, "tags": {"type": "array", "maxItems": 2,
                       "items": {"type": "string", "maxLength": 4}}, "note": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}},
            "required": ["colour", "count", "tags", "note"], "additionalProperties": False}
        format = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema, "strict": True}}
        for fields in ({"temperature": 0}, {"seed": 1}, {"seed": 2, "top_p": 0.9, "presence_penalty": 1}):
            text, reason = self.formatted(format, **fields)
            with self.subTest(text):
                self.assertEqual(reason, "stop")
                value = json.loads(text)
                self.assertEqual(list(value), ["colour", "count", "tags", "note"])
                self.assertIn(value["colour"], ("red", "green"))
                self.assertIsInstance(value["count"], int)
                self.assertLessEqual(len(value["tags"]), 2)
                self.assertTrue(all(len(tag) <= 4 for tag in value["tags"]))
                self.assertIn(value["note"], (None, True, False))
                # The same once more, streamed.
                events = self.server.events(CHAT, chat(response_format=format, max_tokens=200, **fields))
                self.assertEqual("".join(e["choices"][0]["delta"].get("content", "") for e in events[:-1]), text)

    def test_a_schema_of_too_many_ways_is_answered_in_those_that_there_is_room_for(self):
        nested = {"anyOf": [{"type": "array", "minItems": 1 + i, "items": {"$ref": "#"}} for i in range(40)] + [{"type": "null"}]}
        format = {"type": "json_schema", "json_schema": {"name": "x", "schema": nested}}
        status, reply = self.server.ask(CHAT, chat(response_format=format, temperature=0, max_tokens=50))
        self.assertEqual(status, 200)
        choice = reply["choices"][0]
        self.assertRegex(choice["message"]["content"], r"^(null|[\[\]\s,nul]+)$")
        if choice["finish_reason"] == "stop":
            json.loads(choice["message"]["content"])

    def test_a_faulty_format_is_refused(self):
        for format, mention in (
                ({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "text"}}},
                 "Invalid schema for response_format 'x': #/type: \"text\", expected"),
                ({"type": "json_schema", "json_schema": {"schema": {}}}, "response_format.json_schema.name"),
                ({"type": "yaml"}, "'yaml'")):
            status, reply = self.server.ask(CHAT, chat(response_format=format))
            self.assertEqual(status, 400)
            self.assertIn(mention, reply["error"]["message"])


class TemplateTest(E2eTest):
    def test_a_conversation_is_written_by_the_checkpoints_template(self):
        call = {"id": "1", "type": "function", "function": {"name": "sail", "arguments": json.dumps({"to": "Rhodes"})}}
        tool = {"type": "function", "function": {"name": "sail", "parameters": {"type": "object", "properties": {}}}}
        user = {"role": "user", "content": "Where to?"}
        faulty = {"name": "f", "parameters": {"type": "text"}}
        with Server(artifact=with_template()) as server:
            for messages, tools, prompt in (
                    ([user], {}, "[user] Where to?\n[assistant] "),
                    ([{"role": "developer", "content": "Be brief."}, user], {}, "[system] Be brief.\n[user] Where to?\n[assistant] "),
                    ([user, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "1", "content": "ok"}],
                     {"tools": [tool]},
                     "[user] Where to?\n[assistant] \n<tool_call>Rhodes</tool_call>\n[tool] ok\nsail\n[assistant] "),
                    ([user], {"tools": [{"type": "function", "function": faulty}]}, "[user] Where to?\nf\n[assistant] "),
                    ([user], {"tools": [tool], "tool_choice": "none"}, "[user] Where to?\n[assistant] ")):
                status, reply = server.ask(CHAT, chat(messages=messages, temperature=0, **tools))
                self.assertEqual(status, 200, reply)
                text = server.text(prompt, max_tokens=8)
                self.assertEqual(reply["choices"][0]["message"]["content"], text["choices"][0]["text"])
                self.assertEqual(reply["usage"]["prompt_tokens"], text["usage"]["prompt_tokens"])
            for fields, mention in (({"messages": [{"role": "user", "content": ""}]}, "say something"),
                                    ({"tools": [{"type": "function"}]}, r"tools\[0\]"),
                                    ({"tools": [tool], "tool_choice": "sometimes"}, "'sometimes'"),
                                    ({"tool_choice": "required"}, "only allowed when 'tools' are specified"),
                                    ({"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "fly"}}},
                                     "'fly' not found in 'tools'"),
                                    ({"tools": [{"type": "function", "function": {**faulty, "strict": True}}]},
                                     "function 'f': #/type: .*expected object"),
                                    ({"tools": [{"type": "function", "function": faulty}], "tool_choice": "required"},
                                     "function 'f': #/type: .*expected object")):
                status, reply = server.ask(CHAT, chat(**fields))
                self.assertEqual(status, 400)
                self.assertRegex(reply["error"]["message"], mention)

    def test_a_required_tool_is_called_with_arguments_of_its_schema(self):
        def tool(name, **properties):
            parameters = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
            return {"type": "function", "function": {"name": name, "parameters": parameters}}

        tools = [tool("sail", to={"enum": ["Rhodes", "Crete"]}, knots={"type": "integer"}), tool("wait"),
                 {"type": "function", "function": {"name": "rest"}}]
        named = {"type": "function", "function": {"name": "sail"}}
        with Server(artifact=with_template()) as server:
            for choice, names in (("required", ("sail", "wait", "rest")), (named, ("sail",))):
                for seed in range(3):
                    body = chat(tools=tools, tool_choice=choice, seed=seed, temperature=1, top_k=0, max_tokens=200,
                                parallel_tool_calls=False)
                    status, reply = server.ask(CHAT, body)
                    self.assertEqual(status, 200, reply)
                    (answer,) = reply["choices"]
                    self.assertEqual((answer["finish_reason"], answer["message"]["content"]), ("tool_calls", None))
                    (call,) = answer["message"]["tool_calls"]
                    self.assertIn(call["function"]["name"], names)
                    arguments = json.loads(call["function"]["arguments"])
                    if call["function"]["name"] == "sail":
                        self.assertIn(arguments["to"], ("Rhodes", "Crete"))
                        self.assertIsInstance(arguments["knots"], int)
                    else:
                        self.assertEqual(arguments, {})
                    events = server.events(CHAT, body)
                    deltas = [event["choices"][0]["delta"] for event in events[:-1]]
                    self.assertFalse([delta for delta in deltas if delta.get("content") == ""])
                    pieces = [d["function"] for delta in deltas for d in delta.get("tool_calls", [])]
                    self.assertEqual(pieces[0]["name"], call["function"]["name"])
                    self.assertEqual("".join(piece["arguments"] for piece in pieces), call["function"]["arguments"])
                    self.assertEqual(events[-2]["choices"][0]["finish_reason"], "tool_calls")
            # An answer that has no room for the call.
            reply = server.ask(CHAT, chat(tools=tools, tool_choice=named, max_tokens=2))[1]
            self.assertEqual(reply["choices"][0]["finish_reason"], "length")
            self.assertTrue(reply["choices"][0]["message"]["content"].startswith("<tool_call>"))

    def test_sampling_defaults_are_the_checkpoints(self):
        with Server(artifact=with_template()) as server, Server() as greedy:
            stated = {"temperature": 0.5, "top_k": 1, "repetition_penalty": 1.5}
            self.assertEqual(server.text(temperature=None, seed=1)["choices"], server.text(**stated, seed=1)["choices"])
            self.assertNotEqual(server.text(temperature=None)["choices"],
                                server.text(temperature=None, repetition_penalty=1)["choices"])
            # The bundled checkpoint states that it does not sample.
            self.assertEqual(greedy.text(temperature=None, seed=1)["choices"], greedy.text(seed=2)["choices"])


class ScoreTest(ServeTest):
    def test_scores_of_a_prompt_are_those_of_an_evaluation(self):
        text = plain_text("validation").read_text()[:3000]
        path = self.scratch / "text.txt"
        path.write_text(text)
        done = self.expect(DONE, "moert", "eval", pocket(), "--text", path, "--window", 64, "--json")
        ids = [int(word) for word in run("moert", "tokenize", pocket(), "-f", path).out.split()]
        windows = [ids[begin:begin + 64] for begin in range(0, len(ids) - 63, 64)]
        self.assertGreater(len(windows), 4)
        nats = []
        for window in windows:
            scores = self.server.text(window, echo=True, logprobs=1, max_tokens=1)["choices"][0]["logprobs"]
            self.assertEqual(scores["token_logprobs"][0], None)
            nats += scores["token_logprobs"][1:64]
            # What lm-eval's local-completions reads: the best token beside each.
            for token, value, best in list(zip(scores["tokens"], scores["token_logprobs"], scores["top_logprobs"]))[1:]:
                self.assertLessEqual(value, max(best.values()))
                if value == max(best.values()):
                    self.assertIn(token, best)
        # Sums in another order: 300 terms of about 5, each within 2**-51.
        self.assertAlmostEqual(math.exp(-sum(nats) / len(nats)) / json.loads(done.out)["value"], 1, delta=1e-11)


class PrefixTest(E2eTest):
    def test_a_system_prompt_is_computed_once(self):
        system = {"role": "system", "content": "You are an old sailor who answers every question with a story of the sea."}

        def answer(server, question):
            messages = [system, {"role": "user", "content": question}]
            return server.ask(CHAT, chat(messages=messages, temperature=0, max_tokens=20))[1]

        with Server("--sessions", "2", "--kv-tokens", "4096") as server, Server("--keep", "0") as forgetful:
            first, second = answer(server, "Who are you?"), answer(server, "What is a ship?")
            cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
            self.assertEqual(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            self.assertGreater(cached, 20)
            self.assertEqual(server.metric("moert_cached_tokens_total"), cached)
            self.assertEqual(server.metric("moert_prompt_tokens_total"), first["usage"]["prompt_tokens"] +
                             second["usage"]["prompt_tokens"] - cached)
            alone = answer(forgetful, "What is a ship?")
            self.assertEqual(second["choices"], alone["choices"])
            answer(forgetful, "Who are you?")
            self.assertEqual(forgetful.metric("moert_cached_tokens_total"), 0)

    def test_a_system_prompt_is_computed_once_with_recurrent_states_too(self):
        system = {"role": "system", "content": "You are an old sailor who answers every question with a story of the sea."}

        def answer(server, question):
            messages = [system, {"role": "user", "content": question}]
            return server.ask(CHAT, chat(messages=messages, temperature=0, max_tokens=8, ignore_eos=True))[1]

        for family in ("lfm2_moe", "qwen3_5_moe"):
            with self.subTest(family), Server("--context", "512", artifact=with_states(family)) as server:
                with Server("--context", "512", "--keep", "0", artifact=with_states(family)) as forgetful:
                    replies = [answer(server, question) for question in ("Who are you?", "What is a ship?", "What is a ship?")]
                    alone = [answer(forgetful, question) for question in ("Who are you?", "What is a ship?")]
                cached = [reply["usage"]["prompt_tokens_details"]["cached_tokens"] for reply in replies]
                self.assertEqual(cached[0], 0)
                self.assertGreater(cached[1], 60)  # The tokenizer's are a letter or two.
                self.assertEqual([reply["choices"] for reply in replies[:2]], [reply["choices"] for reply in alone])
                self.assertEqual(replies[2]["choices"], replies[1]["choices"])

    def test_choices_of_one_prompt_share_it(self):
        with Server() as server:
            usage = server.text(PROMPT * 4, n=3, max_tokens=2, temperature=1)["usage"]
            self.assertEqual(server.metric("moert_prompt_tokens_total"), usage["prompt_tokens"] + 2)


class SamplingTest(ServeTest):
    def test_biases_and_penalties_change_the_answer(self):
        plain = self.server.text(max_tokens=12, logprobs=0)["choices"][0]
        done = run("moert", "tokenize", pocket(), "-f", "-", stdin=PROMPT + plain["text"])
        first = int(done.out.split()[-12])
        for fields in ({"logit_bias": {str(first): -100}}, {"presence_penalty": 2, "frequency_penalty": 2},
                       {"repetition_penalty": 5}):
            other = self.server.text(max_tokens=12, **fields)["choices"][0]["text"]
            self.assertNotEqual(other, plain["text"], fields)


class RefusalTest(ServeTest):
    def error(self, path, body, status, param, code, mention=None, **options):
        found, reply = self.server.ask(path, body, **options)
        self.assertEqual(found, status, reply)
        error = reply["error"]
        self.assertEqual(sorted(error), ["code", "message", "param", "type"])
        self.assertEqual((error["param"], error["code"]), (param, code), error)
        if mention:
            self.assertRegex(error["message"], mention)

    def test_fields_that_cannot_work_are_named(self):
        text = {"model": "pocket", "prompt": "x"}
        for fields, param, code in (
                ({"temperature": 3}, "temperature", "decimal_above_max_value"),
                ({"temperature": -1}, "temperature", "decimal_below_min_value"),
                ({"temperature": "hot"}, "temperature", "invalid_type"),
                ({"max_tokens": -1}, "max_tokens", "integer_below_min_value"),
                ({"max_tokens": 1.5}, "max_tokens", "invalid_type"),
                ({"n": 1000}, "n", "integer_above_max_value"),
                ({"stop": ["a"] * 5}, "stop", "array_above_max_length"),
                ({"stop": [""]}, "stop", "invalid_type"),
                ({"logprobs": 6}, "logprobs", "integer_above_max_value"),
                ({"prompt": None}, "prompt", "missing_required_parameter"),
                ({"prompt": {}}, "prompt", "invalid_type"),
                ({"prompt": [5000]}, "prompt", "invalid_value"),
                ({"prompt": [[1], "a", 2]}, "prompt", "invalid_type"),
                ({"stream_options": {}}, "stream_options", "invalid_value"),
                ({"suffix": "x"}, "suffix", "unsupported_value"),
                ({"logit_bias": {"x": 1}}, "logit_bias", "invalid_value"),
                ({"logit_bias": {"5": 101}}, "logit_bias.5", "decimal_above_max_value"),
                ({"presence_penalty": 3}, "presence_penalty", "decimal_above_max_value"),
                ({"max_tokens": 512}, "prompt", "context_length_exceeded"),
                ({"tokens": 3}, "tokens", "unknown_parameter")):
            with self.subTest(fields):
                self.error(TEXT, {**text, **fields}, 400, param, code)
        for fields, param, code in (
                ({"messages": []}, "messages", "empty_array"),
                ({"messages": [3]}, "messages[0]", "invalid_type"),
                ({"messages": [{"role": "user"}]}, "messages[0].content", "missing_required_parameter"),
                ({"messages": [{"role": "king", "content": ""}]}, "messages[0].role", "invalid_value"),
                ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type",
                 "unsupported_value"),
                ({"top_logprobs": 2}, "top_logprobs", "invalid_value")):
            with self.subTest(fields):
                self.error(CHAT, chat(**fields), 400, param, code)

    def test_models_and_addresses_that_are_not_there(self):
        self.error(TEXT, {"model": "other", "prompt": "x"}, 404, "model", "model_not_found")
        self.error(TEXT, {"prompt": "x"}, 400, "model", "missing_required_parameter")
        self.error("/v1/models/other", None, 404, "model", "model_not_found")
        self.error("/v2/completions", {}, 404, None, "unknown_url")
        self.error(TEXT, None, 405, None, "method_not_supported")
        self.error("/v1/models", {}, 405, None, "method_not_supported")

    def test_bodies_that_are_not_what_they_should_be(self):
        for body, mention in ((b"", "not valid JSON"), (b"{\"model\":\n x", "not valid JSON at line 2, column 2, byte 12 of 12"), (b"[1]", "expected an object"),
                              (b"{\"model\": \"\xff\"}", "not valid UTF-8"), (b"[" * 5000, "nested"),
                              (b"{\"model\": \"\\ud800\"}", "not valid JSON"),
                              (b"{\"prompt\": [" + b"1," * 250000 + b"1]}", "values")):
            with self.subTest(body[:20]):
                self.error(TEXT, body, 400, None, None, mention)
        self.error(TEXT, b"x" * (2 << 20), 413, None, "request_too_large", "1048576 bytes")
        self.error(TEXT, b"{}", 415, None, None, "text/plain", headers={"Content-Type": "text/plain"})
        self.error(TEXT, b"{}", 415, None, None, "gzip", headers={"Content-Encoding": "gzip"})

    def test_the_default_context_shrinks_to_what_the_budget_has_memory_for(self):
        smallest = smallest_budget("serve", pocket(), "--port", 0, "--sessions", 1)
        with Server("--sessions", 1, "--memory", f"{smallest}B") as server:
            self.assertIn("context 512 tokens, for which the budget has memory, 512 tokens together", server.log)
        self.refused("moert", "serve", pocket(), "--sessions", 1, "--port", 0, "--memory", f"{smallest - 1}B",
                     mention=r"\. Each token of context takes .*: a smaller --context, --kv-tokens or --sessions lowers that")

    def test_a_port_that_is_taken_and_flags_that_cannot_work_are_refused(self):
        self.refused("moert", "serve", pocket(), "--port", self.server.address[1], mention="cannot listen at 127.0.0.1, port")
        # Before it loads: the memory table comes with loading.
        done = self.refused("moert", "serve", pocket(), "--port", self.server.address[1], "--memory-table")
        self.assertNotIn("total", done.err)
        self.refused("moert", "serve", pocket(), "--host", "no.such.host.invalid", mention="cannot listen at no.such.host.invalid, port 8080: ")
        self.refused("moert", "serve", pocket(), "--port", "http", mention="--port")
        self.refused("moert", "serve", pocket(), "--memory", "1KiB", mention="smallest budget that works")
        self.refused("moert", "serve", self.scratch / "none.moe", mention="none.moe")
        self.refused("moert", "serve", pocket(), "--context", 128, "--kv-tokens", 64, mention="64 tokens together")
        self.refused("moert", "serve", pocket(), "--api-key", "", mention="API key")


class HostileTest(E2eTest):
    def test_hostile_http_is_bounded_and_the_server_goes_on(self):
        post = b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
        with Server("--header-seconds", "1", "--connections", "4") as server:
            for sent, expected in (
                    (b"GARBAGE\r\n\r\n", b"400"), (b"\x00\xff\r\n\r\n", b"400"),
                    (b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 20000, b"431"),
                    (b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"431"),
                    (b"GET /v1/models/" + b"a" * 8000 + b" HTTP/1.1\r\n\r\n", b"404"),
                    (b"GET /health HTTP/1.1\r\nHost:", b"408"),  # And nothing more.
                    (post + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}", b"400"),
                    (post + b"Content-Length: 99999999999999999999\r\n\r\n", b"413"),
                    (post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
                    *((post + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % size + b" " * size + b"\r\n0\r\n\r\n", b"413")
                      for size in ((1 << 20) + 1, 2 << 20)),
                    (post + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", b"400"),
                    (b"GET /health HTTP/1.1\r\nConnection: close\r\nRange: bytes=" + b"0-1," * 2000 + b"0-1\r\n\r\n", b"200")):
                with self.subTest(sent[:60]):
                    self.assertRegex(server.raw(sent), b"^HTTP/1.1 " + expected)
            # As many silent connections as there are threads: they are closed, and others are served.
            silent = [socket.create_connection(server.address) for _ in range(4)]
            for client in silent:
                client.sendall(b"GET")
            self.assertEqual(server.ask("/health")[0], 200)
            for client in silent:
                client.close()
            self.assertEqual(server.text(max_tokens=3)["usage"]["completion_tokens"], 3)
            self.assertEqual(server.end(), DONE)

    def test_requests_of_one_connection_are_answered_in_order(self):
        with Server() as server:
            request = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
            received = server.raw(request + request + b"GET /none HTTP/1.1\r\n\r\n")
            self.assertEqual([line.split()[1] for line in re.findall(rb"HTTP/1.1 \d+", received)], [b"200", b"200", b"404"])


class LifeTest(E2eTest):
    def test_a_client_that_vanishes_ends_its_sequence(self):
        with Server("--sessions", "1") as server:
            connection, response = server.begin_stream(2000)
            response.close()
            connection.close()
            server.wait_for('moert_sequences_total{end="cancelled"}', 1)
            self.assertLess(server.metric("moert_generated_tokens_total"), 2000)
            # The same where nothing is streamed: several choices in turn, which take longer than it takes to notice.
            with socket.create_connection(server.address) as client:
                body = json.dumps({"model": "pocket", "prompt": PROMPT, "max_tokens": 2000, "n": 16, "ignore_eos": True}).encode()
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                               % len(body) + body)
                server.wait_for("moert_sequences_running", 1)
            server.wait_until('moert_sequences_total{end="cancelled"}', lambda cancelled: cancelled > 1)

    def test_a_client_that_sends_no_more_still_gets_its_answer(self):
        with Server("--sessions", "1") as server:
            for fields in ({"max_tokens": 8}, {"max_tokens": 8, "stream": True}, {"max_tokens": 500, "ignore_eos": True}):
                with self.subTest(fields), socket.create_connection(server.address, timeout=120) as client:
                    body = json.dumps({"model": "pocket", "prompt": PROMPT, "temperature": 0, **fields}).encode()
                    client.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
                                   b"Content-Length: %d\r\n\r\n" % len(body) + body)
                    client.shutdown(socket.SHUT_WR)
                    received = b""
                    while piece := client.recv(65536):
                        received += piece
                    self.assertRegex(received, rb"(?m)^HTTP/1.1 200 ")
                    self.assertIn(b'"finish_reason":"length"', received)
            self.assertEqual(server.metric('moert_sequences_total{end="cancelled"}'), 0)

    def test_health_is_answered_whatever_the_others_do(self):
        """Idle connections, headers and bodies that do not come, and calls that take every thread."""
        post = b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
        with Server("--connections", "4", "--context", "256") as server, contextlib.ExitStack() as stack:
            def connect(sent):
                client = stack.enter_context(socket.create_connection(server.address, timeout=20))
                client.sendall(sent)

            for sent in (b"", b"GET /hea", post, post + b"Content-Length: 9\r\n\r\n{"):
                for _ in range(64):
                    with contextlib.suppress(OSError):
                        connect(sent)
                self.assertEqual(server.ask("/health")[0], 200)

    def test_a_request_of_as_many_choices_as_there_may_be_leaves_the_server_well(self):
        with Server("--context", "256") as server:
            body = {"model": "pocket", "prompt": PROMPT, "n": 72, "max_tokens": 12, "ignore_eos": True, "temperature": 1}
            large = []
            thread = threading.Thread(target=lambda: large.append(server.ask(TEXT, body)))
            thread.start()
            server.wait_until("moert_sequences_running", lambda running: running > 0)
            self.assertEqual(server.ask("/health")[0], 200)
            status, reply = server.ask(TEXT, {"model": "pocket", "prompt": PROMPT, "max_tokens": 1})
            self.assertIn(status, (200, 429))
            thread.join()
            status, reply = large[0]
            self.assertEqual(status, 200, reply)
            self.assertEqual(sorted(choice["index"] for choice in reply["choices"]), list(range(72)))

    def test_a_stream_that_is_given_up_ends_within_a_token(self):
        """The client leaves while the server is stopped, so that all tokens from before are counted."""
        with Server("--sessions", "1", "--threads", "1") as server:
            body = json.dumps({"model": "pocket", "prompt": PROMPT, "max_tokens": 2000, "stream": True, "ignore_eos": True,
                               "logprobs": 0}).encode()
            received = b""
            with socket.create_connection(server.address) as client, contextlib.suppress(TimeoutError):
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                               % len(body) + body)
                while b"data: " not in received:
                    received += client.recv(65536)
                server.process.send_signal(signal.SIGSTOP)
                client.settimeout(1)
                while piece := client.recv(65536):
                    received += piece
            server.process.send_signal(signal.SIGCONT)
            server.wait_for('moert_sequences_total{end="cancelled"}', 1)
            tokens = sum(len(json.loads(event)["choices"][0]["logprobs"]["tokens"])
                         for event in re.findall(rb"(?m)^data: (\{.*\})$", received))
            self.assertGreater(tokens, 0)
            # The token under way, the one that finds the client gone, and the one that is computed until the scheduler learns of it;
            # and as many again, since the machine may let the connection's thread wait.
            self.assertLessEqual(server.metric("moert_generated_tokens_total") - tokens, 6)

    def test_more_than_the_queue_holds_is_refused_with_a_reason(self):
        with Server("--sessions", "1", "--queue", "1") as server:
            streams = [server.begin_stream(2000)]
            waiting = socket.create_connection(server.address)
            body = json.dumps({"model": "pocket", "prompt": PROMPT}).encode()
            waiting.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                            % len(body) + body)
            server.wait_for("moert_sequences_waiting", 1)
            status, reply = server.ask(TEXT, {"model": "pocket", "prompt": PROMPT})
            self.assertEqual((status, reply["error"]["code"]), (429, "rate_limit_exceeded"))
            self.assertRegex(reply["error"]["message"], "2 sequences are running or waiting .* at most 2 together")
            waiting.close()
            streams[0][0].close()

    def test_an_api_key_is_required_where_one_is_set(self):
        key = self.scratch / "key"
        key.write_text("s3cret\n")
        with Server("--api-key-file", key) as server:
            self.assertEqual(server.ask("/health")[0], 200)
            self.assertEqual(server.ask("/metrics")[0], 200)  # From this machine.
            for headers, code in (({}, None), ({"Authorization": "Bearer wrong"}, "invalid_api_key"),
                                  ({"Authorization": "s3cret"}, "invalid_api_key")):
                status, reply = server.ask("/v1/models", headers=headers)
                self.assertEqual((status, reply["error"]["code"]), (401, code))
            self.assertEqual(server.ask("/v1/models", headers={"Authorization": "Bearer s3cret"})[0], 200)

    def test_a_server_that_stops_finishes_its_answers(self):
        with Server() as server:
            _, response = server.begin_stream(60)
            server.stop()
            self.assertIn(b"data: [DONE]", response.read())
            self.assertEqual(server.end(), DONE)
        self.assertIn("stopping", server.log)

    def test_answers_that_outlast_the_grace_end_with_an_error(self):
        with Server("--grace", "0") as server:
            _, response = server.begin_stream(2000)
            server.stop()
            rest = response.read().decode()
            self.assertRegex(rest, "The server is stopping")
            self.assertNotIn("[DONE]", rest)
            self.assertEqual(server.end(), DONE)

    def test_a_budget_holds_under_load(self):
        with Server("--memory", "144MiB") as server:
            threads = [threading.Thread(target=server.text, kwargs={"n": 4, "max_tokens": 60, "temperature": 1, "top_p": 0.9})
                       for _ in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with open(f"/proc/{server.process.pid}/status") as status:
                peak = int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1])
            self.assertLessEqual(peak, 144 * 1024)
