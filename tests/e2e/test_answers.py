"""Reasoning, calls of tools and the fields that clients send with them, on scripted checkpoints: their answers are fixed texts."""
import json
import string

from scripted import scripted
from serving import CHAT, TEXT, Server, chat
from support import DONE, E2eTest

CHATML = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{% for k, v in c.function.arguments.items() %}\
, {{ k }}: {{ v }}{% endfor %}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}]
CHANNELS = "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}<|start|>assistant"
CHANNEL_TOKENS = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>")
CITY = string.ascii_letters + string.digits
FUNCTION = "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n2\n"


def ask(server, **fields):
    status, reply = server.ask(CHAT, chat(**{"max_tokens": 40, "temperature": 0, **fields}))
    assert status == 200, reply
    return reply


def calls_of(deltas):
    """The calls that deltas add up to: each begins with its id and name, and others of its index continue the arguments."""
    calls = []
    for delta in deltas:
        for piece in delta.get("tool_calls", []):
            if "id" in piece:
                assert piece["index"] == len(calls), piece
                calls.append({"id": piece["id"], "function": {"name": piece["function"]["name"], "arguments": ""}})
            calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    return calls


class ReaderTest(E2eTest):
    def answer(self, server, **fields):
        """The message and the end, whole; a stream has the same and no empty deltas."""
        reply = ask(server, **fields)
        (choice,) = reply["choices"]
        message = choice["message"]
        events = server.events(CHAT, chat(**{"max_tokens": 40, "temperature": 0, **fields}))
        deltas = [event["choices"][0]["delta"] for event in events[:-1]]
        for name in ("content", "reasoning_content"):
            self.assertEqual("".join(delta.get(name) or "" for delta in deltas), message.get(name) or "")
        called = calls_of(deltas)
        self.assertEqual([call["function"] for call in called], [c["function"] for c in message.get("tool_calls", [])])
        if called:
            self.assertFalse([delta for delta in deltas if delta.get("content") == ""])
        self.assertEqual(events[-2]["choices"][0]["finish_reason"], choice["finish_reason"])
        return message, choice["finish_reason"], reply["usage"]

    def test_calls_of_published_forms_become_tool_calls(self):
        def with_tools(sign):
            return "{% if tools %}{{ tools | tojson }} <tool_call>" + sign + "{% endif %}" + CHATML
        cases = (("function", with_tools("<function=name>"), [FUNCTION, "</parameter>\n</function>\n", "</tool_call>"], ()),
                 ("arg-key", with_tools("<arg_key>"),
                  ["\n<tool_call>", "get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>"
                   "<arg_value>2</arg_value>\n", "</tool_call>"], ()),
                 ("mistral", with_tools("[TOOL_CALLS]"), ["[TOOL_CALLS]", "get_weather", "[ARGS]",
                                                                 '{"city": "Oslo", "days": 2}'], ("[TOOL_CALLS]", "[ARGS]")),
                 ("channels", CHANNELS + "{{ tools }}", ["<|channel|>", "commentary to=functions.get_weather ", "<|constrain|>", "json",
                                                         "<|message|>", '{"city": "Oslo", "days": 2}', "<|call|>"], CHANNEL_TOKENS),
                 ("generic", CHATML, ["<tool_call>\n", '{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}',
                                      "\n</tool_call>"], ()))
        for name, template, pieces, special in cases:
            with self.subTest(name), Server(artifact=scripted(f"call-{name}", template, pieces, special)) as server:
                message, reason, _ = self.answer(server, tools=TOOLS)
                self.assertEqual((reason, message["content"]), ("tool_calls", None))
                (call,) = message["tool_calls"]
                self.assertEqual((call["type"], call["function"]["name"]), ("function", "get_weather"))
                self.assertEqual(json.loads(call["function"]["arguments"]), {"city": "Oslo", "days": 2})
                self.assertEqual(len(call["id"]) == 9, name == "mistral")
                history = [{"role": "user", "content": "Weather?"}, message,
                           {"role": "tool", "tool_call_id": call["id"], "content": "rain"}]
                ask(server, messages=history, tools=TOOLS)
                self.assertNotIn("tool_calls", ask(server)["choices"][0]["message"])

    def test_arguments_are_streamed_while_they_are_generated(self):
        template = "{% if tools %}{{ tools | tojson }} <tool_call>{% endif %}" + CHATML
        call = ['{"name": "get_weather", "arguments": ', '{"city": "', *CITY.encode(), '", "da', 'ys": 2}', "}\n</tool_call>"]
        pieces = ["I look.\n\n", "<tool_call>\n", *call, "\n<tool_call>\n{", '"name": "now", ', '"arguments": {}', "}</tool_call>"]
        with Server(artifact=scripted("pieces", template, pieces)) as server:
            def stream(**fields):
                events = server.events(CHAT, chat(tools=TOOLS, **{"max_tokens": 90, "temperature": 0, **fields}))
                deltas = [event["choices"][0]["delta"] for event in events[:-1]]
                return calls_of(deltas), "".join(delta.get("content", "") for delta in deltas), events[-2]["choices"][0]["finish_reason"]
            calls, content, reason = stream()
            self.assertEqual([call["function"]["name"] for call in calls], ["get_weather", "now"])
            self.assertEqual(json.loads(calls[0]["function"]["arguments"]), {"city": CITY, "days": 2})
            self.assertEqual((content, reason), ("I look.", "tool_calls"))
            message, *_ = self.answer(server, tools=TOOLS, max_tokens=90)
            self.assertEqual(len(message["tool_calls"]), 2)
            message, *_ = self.answer(server, tools=TOOLS, max_tokens=90, parallel_tool_calls=False)
            self.assertEqual(len(message["tool_calls"]), 1)
            # A call that is cut off has the beginning of its arguments.
            message, reason, _ = self.answer(server, tools=TOOLS, max_tokens=7)
            self.assertEqual((message["tool_calls"][0]["function"]["arguments"], message["content"], reason),
                             ('{"city": "abc', "I look.", "length"))

    def test_a_call_that_has_to_be_made_has_the_templates_form(self):
        """The scripted model writes the call that the prompt has begun."""
        def tools(sign):
            return "{% if tools %}" + sign + "{% endif %}" + CHATML
        cases = (("function", tools("<tool_call><function="), "<tool_call>\n", ["<function=get_weather>\n", "<parameter=city>\n", "Oslo",
                                                                             "\n</parameter>\n", "</function>\n", "</tool_call>"], ()),
                 ("mistral", tools("[TOOL_CALLS][ARGS]"), "[TOOL_CALLS]", ["get_weather", "[ARGS]", '{"city": "Oslo"}'],
                  ("[TOOL_CALLS]", "[ARGS]")),
                 ("arg-key", tools("<tool_call><arg_key>"), "<tool_call>", ["get_weather\n", "<arg_key>city</arg_key>\n", "<arg_value>",
                                                                          "Oslo</arg_value>\n</tool_call>"], ()),
                 ("thinking", tools("<tool_call>") + "<think>\n", "<tool_call>\n", ['{"name": "get_weather", "arguments": ',
                                                                                   '{"city": "Oslo"}', "}\n</tool_call>"], ()),
                 ("generic", CHATML, "<tool_call>\n", ['{"name": "get_weather", "arguments": ', '{"city": "Oslo"}', "}\n</tool_call>"], ()))
        for name, template, begin, pieces, special in cases:
            artifact = scripted(f"forced-{name}", template, pieces, (*special, begin))
            with self.subTest(name), Server(artifact=artifact) as server:
                named = {"type": "function", "function": {"name": "get_weather"}}
                for choice in ("required", named):
                    message, reason, _ = self.answer(server, tools=TOOLS, tool_choice=choice)
                    self.assertEqual((reason, message["content"], "reasoning_content" in message), ("tool_calls", None, False))
                    (call,) = message["tool_calls"]
                    self.assertEqual(json.loads(call["function"]["arguments"]), {"city": "Oslo"})

    def test_reasoning_is_no_content(self):
        thoughts = ["The user greets me.", "\n</think>\n\n", "Hello."]
        cases = (("model", CHATML, ["<think>\n", *thoughts], ()), ("prompt", CHATML + "<think>\n", thoughts, ()),
                 ("channels", CHANNELS, ["<|channel|>", "analysis", "<|message|>", "The user greets me.", "<|end|>", "<|start|>",
                                         "assistant<|channel|>final<|message|>", "Hello.", "<|return|>"], CHANNEL_TOKENS),
                 ("gemma", CHATML + "{{ '' if true else '<|turn>' }}",
                  ["<|channel>", "thought\n", "The user greets me.", "<channel|>", "Hello."], ("<|channel>", "<channel|>")))
        for name, template, pieces, special in cases:
            model = scripted(f"reasoning-{name}", template, pieces, special)
            with self.subTest(name), Server(artifact=model) as server:
                message, reason, usage = self.answer(server)
                self.assertEqual((message["content"], message["reasoning_content"], reason),
                                 ("Hello.", "The user greets me.", "stop"))
                reasoned = usage["completion_tokens_details"]["reasoning_tokens"]
                self.assertTrue(0 < reasoned < usage["completion_tokens"], usage)
                cut = ask(server, max_tokens=len(pieces) - 2)["choices"][0]
                self.assertEqual((cut["message"]["content"], cut["finish_reason"]), ("", "length"))
            if name == "gemma":
                done = self.expect(DONE, "moert", "chat", model, "--reasoning", "hide", stdin="Hi\n")
                self.assertEqual(done.out, "Hello.\n")

    def test_an_answer_ends_with_the_token_of_any_file(self):
        artifact = scripted("end-token", CHATML, ["Hello.", "<|stop|>", " And more."], ("<|stop|>",), eos_token="<|stop|>")
        with Server(artifact=artifact) as server:
            message, reason, _ = self.answer(server)
            self.assertEqual((message["content"], reason), ("Hello.", "stop"))

    def test_parts_of_characters_have_their_own_bytes(self):
        pieces = list("😀é".encode())
        with Server(artifact=scripted("emoji", CHATML, pieces)) as server:
            choice = ask(server, logprobs=True, top_logprobs=1)["choices"][0]
            self.assertEqual(choice["message"]["content"], "😀é")
            self.assertEqual([entry["bytes"] for entry in choice["logprobs"]["content"]], [[byte] for byte in pieces])
            scores = server.ask(TEXT, {"model": "pocket", "prompt": "x\n", "max_tokens": 3, "temperature": 0, "logprobs": 5})[1]
            scores = scores["choices"][0]["logprobs"]
            self.assertEqual(scores["tokens"], ["bytes:\\xf0", "bytes:\\x9f", "bytes:\\x98"])
            for token, value, top in zip(scores["tokens"], scores["token_logprobs"], scores["top_logprobs"]):
                self.assertEqual((len(top), top[token]), (5, value))


class RequestTest(E2eTest):
    @classmethod
    def setUpClass(cls):
        template = ("{% if reasoning_effort is defined %}Effort {{ reasoning_effort }}. {% endif %}"
                    "{% if enable_thinking is defined and not enable_thinking %}No thoughts. {% endif %}"
                    "{% if arguments_text is defined %}{% set x = arguments_text | from_json %}{% endif %}" + CHATML +
                    "{{ '' if not tools else '<tool_call><arg_key>' }}")
        cls.server = Server("--cors-origin", "http://localhost:5173", "--api-key", "k",
                            artifact=scripted("requests", template, ["Hello."]))

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def ask(self, **fields):
        headers = {"Authorization": "Bearer k", "Content-Type": "Application/JSON; charset=utf-8"}
        return self.server.ask(CHAT, chat(**{"temperature": 0, **fields}), headers=headers)

    def prompt_tokens(self, **fields):
        status, reply = self.ask(**fields)
        self.assertEqual(status, 200, reply)
        return reply["usage"]["prompt_tokens"]

    def test_variables_reach_the_template(self):
        plain = self.prompt_tokens()
        self.assertEqual(self.prompt_tokens(reasoning_effort=None, prediction=None), plain)
        self.assertEqual(self.prompt_tokens(reasoning_effort="low"), plain + len("Effort low. "))
        for off in ({"chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False}):
            self.assertEqual(self.prompt_tokens(**off), plain + len("No thoughts. "))
        status, reply = self.ask(chat_template_kwargs={"arguments_text": "{}"})
        self.assertEqual(status, 400)
        self.assertIn("the filter 'from_json' is not supported", reply["error"]["message"])

    def test_a_template_of_a_file_and_its_variables(self):
        path = self.scratch / "own.jinja"
        path.write_text("{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}{{ mood }}")
        artifact = scripted("own-template", CHATML, ["Hello."])
        with Server("--template", path, "--template-arg", "mood=glad", artifact=artifact) as server:
            def prompt_tokens(**fields):
                return ask(server, messages=[{"role": "user", "content": "Hi"}], **fields)["usage"]["prompt_tokens"]
            # Contents are lists of parts, since the template shows no others.
            self.assertEqual(prompt_tokens(), len("Higlad"))
            self.assertEqual(prompt_tokens(chat_template_kwargs={"mood": "so so"}), len("Hiso so"))
        path.write_text("{% if %}")
        self.refused("moert", "serve", artifact, "--template", path, mention="own.jinja")
        self.refused("moert", "serve", artifact, "--template-arg", "mood", mention="expected NAME=VALUE")

    def test_messages_of_an_answer_can_be_sent_back(self):
        user = {"role": "user", "content": "Hi"}
        plain = self.prompt_tokens(messages=[user, {"role": "assistant", "content": "Hello."}, user])
        for more in ({"annotations": None, "audio": None, "function_call": None, "tool_calls": None, "refusal": None},
                     {"tool_calls": []}, {"reasoning": "x"}, {"reasoning_content": "x"}, {"annotations": []}):
            answer = {"role": "assistant", "content": "Hello.", **more}
            self.assertEqual(self.prompt_tokens(messages=[user, answer, user]), plain)
        self.assertEqual(self.ask(messages=[{**user, "annotations": []}])[1]["error"]["param"], "messages[0].annotations")

    def test_calls_without_arguments_can_be_sent_back(self):
        def with_arguments(text):
            call = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": text}}
            return {"messages": [{"role": "user", "content": "Time?"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                                 {"role": "tool", "tool_call_id": "c1", "content": "12:00"}], "tools": TOOLS}
        plain = self.prompt_tokens(**with_arguments("{}"))
        for text in ("", " ", "null", None, {}):
            self.assertEqual(self.prompt_tokens(**with_arguments(text)), plain)
        for text in ('{"a', "3"):
            status, reply = self.ask(**with_arguments(text))
            self.assertEqual((status, reply["error"]["param"]), (400, "messages[1].tool_calls[0].function.arguments"))

    def test_pages_of_the_origin_may_ask(self):
        preflight = (b"OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: http://localhost:5173\r\n"
                     b"Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n")
        header = self.server.raw(preflight)
        self.assertTrue(header.startswith(b"HTTP/1.1 204"), header)
        for name in (b"Allow-Origin: http://localhost:5173", b"Allow-Methods: GET, POST", b"Allow-Headers: *, Authorization"):
            self.assertIn(b"Access-Control-" + name, header)
        for request in (b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n"):
            self.assertIn(b"Access-Control-Allow-Origin: http://localhost:5173", self.server.raw(request))
        with Server() as server:
            self.assertTrue(server.raw(preflight).startswith(b"HTTP/1.1 405"))


RESPONSES = "/v1/responses"


class ResponsesTest(E2eTest):
    @classmethod
    def setUpClass(cls):
        template = ("{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}" + CHATML +
                    "{{ '#' if messages[-1].role == 'tool' }}")
        call = ["<think>Hm.", "</think>", "I look.", "<tool_call>\n", '{"name": "get_weather", "arguments": ', '{"city": "Os',
                'lo"}', "}\n</tool_call>"]
        cls.server = Server(artifact=scripted("responses", template, call, (), {ord("#"): ["It ", "rains."]}))

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    TOOL = {"type": "function", **TOOLS[0]["function"], "strict": True}

    def ask(self, status=200, **fields):
        found, reply = self.server.ask(RESPONSES, {"model": "pocket", "input": "Weather?", "temperature": 0, **fields})
        self.assertEqual(found, status, reply)
        return reply

    def test_a_response_has_reasoning_text_and_calls_whole_and_in_events(self):
        fields = {"tools": [self.TOOL], "instructions": "Be brief.", "max_output_tokens": 50}
        reply = self.ask(**fields)
        self.assertEqual((reply["object"], reply["status"], reply["tools"]), ("response", "completed", [self.TOOL]))
        reasoning, message, call = reply["output"]
        self.assertEqual((reasoning["type"], reasoning["content"][0]["text"]), ("reasoning", "Hm."))
        self.assertEqual((message["role"], message["content"][0]["text"]), ("assistant", "I look."))
        self.assertEqual((call["type"], call["name"], call["arguments"]), ("function_call", "get_weather", '{"city": "Oslo"}'))
        usage = reply["usage"]
        self.assertEqual(usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"])
        self.assertGreater(usage["output_tokens_details"]["reasoning_tokens"], 0)
        events = [event.split("data: ", 1) for event in self.server.stream(
            RESPONSES, {"model": "pocket", "input": "Weather?", "temperature": 0, **fields})]
        parsed = [json.loads(data) for _, data in events]
        self.assertEqual([event["sequence_number"] for event in parsed], list(range(len(parsed))))
        self.assertEqual([head for head, _ in events], [f"event: {event['type']}\n" for event in parsed])
        def types_of(item):
            del item["id"], item["status"]
            item.pop("call_id", None)
            return item
        self.assertEqual([types_of(item) for item in parsed[-1]["response"]["output"]], [types_of(item) for item in reply["output"]])
        pieces = [event["delta"] for event in parsed if event["type"] == "response.function_call_arguments.delta"]
        self.assertEqual("".join(pieces), '{"city": "Oslo"}')
        self.assertEqual(parsed[-1]["type"], "response.completed")
        cut = self.ask(tools=[self.TOOL], max_output_tokens=3)
        self.assertEqual((cut["status"], cut["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))

    def test_items_of_a_response_can_be_sent_back_with_results(self):
        first = self.ask(tools=[self.TOOL])
        result = {"type": "function_call_output", "call_id": first["output"][2]["call_id"], "output": "rain"}
        items = [{"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}, *first["output"], result]
        reply = self.ask(input=items, tools=[self.TOOL])
        (message,) = reply["output"]
        self.assertEqual(message["content"][0]["text"], "It rains.")

    def test_what_cannot_be_kept_is_refused_by_name(self):
        for fields, param in (({"previous_response_id": "resp_1"}, "previous_response_id"), ({"conversation": "c"}, "conversation"),
                              ({"input": 3}, "input"), ({"input": None}, "input"), ({"background": True}, "background"),
                              ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"), ({"n": 2}, "n"),
                              ({"tools": [{"type": "web_search"}]}, "tools[0]"), ({"text": 3}, "text")):
            with self.subTest(fields):
                self.assertEqual(self.ask(400, **fields)["error"]["param"], param)
