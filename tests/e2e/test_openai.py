"""The server as OpenAI's Python package drives it. Runs where that package can be imported, or with MOE_OPENAI_VENV, the folder of a
virtual environment of the same Python that has it; test_serve.py covers the same without it."""
import asyncio
import json
import os
import sys
import unittest
from pathlib import Path

from serving import PROMPT, Server, with_template
from support import E2eTest

if venv := os.environ.get("MOE_OPENAI_VENV"):
    sys.path[:0] = map(str, Path(venv).glob("lib/python3*/site-packages"))
try:
    import openai
except ImportError as error:
    openai, missing = None, str(error)

QUESTION = [{"role": "user", "content": "What is the sea?"}]
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Of a place", "strict": True, "parameters": {
    "type": "object", "properties": {"place": {"type": "string", "maxLength": 8}, "unit": {"enum": ["C", "F"]}},
    "required": ["place", "unit"], "additionalProperties": False}}}


@unittest.skipIf(openai is None, "openai is not installed; MOE_OPENAI_VENV names a virtual environment with it")
class OpenAiTest(E2eTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--context", "512", artifact=with_template())
        cls.client = openai.OpenAI(**cls.address(cls.server), max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.end()

    @staticmethod
    def address(server):
        host, port = server.address
        return {"base_url": f"http://{host}:{port}/v1", "api_key": "unused", "timeout": 120}

    def chat(self, **fields):
        return self.client.chat.completions.create(model="pocket", **{"messages": QUESTION, "max_tokens": 12, **fields})

    def complete(self, **fields):
        return self.client.completions.create(model="pocket", **{"prompt": PROMPT, "max_tokens": 12, **fields})


class AnswerTest(OpenAiTest):
    def test_models_are_listed(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["pocket"])
        self.assertEqual(self.client.models.retrieve("pocket").object, "model")

    def test_a_chat_answers_and_streams_the_same(self):
        asked = {"messages": [{"role": "user", "content": "What is the sea, and why does the old man look at it?"}],
                 "temperature": 0.7, "seed": 3, "n": 2}
        whole = self.chat(**asked)
        self.assertEqual([choice.index for choice in whole.choices], [0, 1])
        stream = self.chat(**asked, stream=True, stream_options={"include_usage": True})
        texts, usage = ["", ""], None
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
        self.assertEqual(texts, [choice.message.content for choice in whole.choices])
        # The second time the prompt is taken over.
        self.assertEqual((usage.prompt_tokens, usage.completion_tokens), (whole.usage.prompt_tokens, whole.usage.completion_tokens))
        self.assertGreater(usage.prompt_tokens_details.cached_tokens, 0)

    def test_a_text_is_continued_and_streamed_the_same(self):
        whole = self.complete(temperature=0, stop=["never there"])
        self.assertEqual(whole.usage.completion_tokens, 12)
        pieces = [chunk.choices[0].text for chunk in self.complete(temperature=0, stop=["never there"], stream=True)]
        self.assertEqual("".join(pieces), whole.choices[0].text)

    def test_log_probabilities_of_a_chat_and_of_an_echoed_prompt(self):
        content = self.chat(logprobs=True, top_logprobs=3).choices[0].logprobs.content
        self.assertEqual(len(content), 12)
        for token in content:
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertGreaterEqual(token.top_logprobs[0].logprob, token.logprob)
            self.assertEqual(bytes(token.bytes).decode(errors="replace"), token.token)
        scores = self.complete(echo=True, logprobs=2, max_tokens=1).choices[0].logprobs
        self.assertIsNone(scores.token_logprobs[0])
        self.assertEqual("".join(scores.tokens[:-1]), PROMPT)
        self.assertTrue(all(value < 0 for value in scores.token_logprobs[1:]))

    def test_json_of_a_schema(self):
        schema = {"type": "object", "properties": {"colour": {"enum": ["red", "green"]}, "count": {"type": "integer"}},
                  "required": ["colour", "count"], "additionalProperties": False}
        format = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema, "strict": True}}
        value = json.loads(self.chat(response_format=format, max_tokens=100).choices[0].message.content)
        self.assertIn(value["colour"], ("red", "green"))
        self.assertIsInstance(value["count"], int)

    def test_json_of_a_class(self):
        from pydantic import BaseModel

        class Ship(BaseModel):
            isAfloat: bool
            sails: int

        answer = self.client.chat.completions.parse(model="pocket", messages=QUESTION, response_format=Ship, max_tokens=100)
        self.assertIsInstance(answer.choices[0].message.parsed, Ship)

    def test_tools_are_called_and_their_results_answered(self):
        for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
            asked = {"tools": [WEATHER], "tool_choice": choice, "max_tokens": 100, "parallel_tool_calls": False}
            answer = self.chat(**asked)
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
            (call,) = answer.choices[0].message.tool_calls
            self.assertEqual(call.function.name, "weather")
            self.assertIn(json.loads(call.function.arguments)["unit"], ("C", "F"))
            streamed = [part for chunk in self.chat(**asked, stream=True) for part in chunk.choices[0].delta.tool_calls or []]
            self.assertEqual("".join(part.function.arguments for part in streamed), call.function.arguments)
            result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
            after = self.chat(messages=QUESTION + [answer.choices[0].message, result], tools=[WEATHER])
            self.assertEqual(after.usage.completion_tokens, 12)

    def test_several_at_a_time_answer_as_each_alone(self):
        questions = [[{"role": "user", "content": f"Tell of {i} ships."}] for i in range(8)]
        alone = [self.chat(messages=question, seed=i, temperature=1, extra_body={"top_k": 40}).choices[0].message.content
                 for i, question in enumerate(questions)]

        async def together():
            async with openai.AsyncOpenAI(**self.address(self.server)) as client:
                answers = await asyncio.gather(*(client.chat.completions.create(
                    model="pocket", messages=question, max_tokens=12, seed=i, temperature=1, extra_body={"top_k": 40})
                    for i, question in enumerate(questions)))
                return [answer.choices[0].message.content for answer in answers]

        self.assertEqual(asyncio.run(together()), alone)


class ErrorTest(OpenAiTest):
    def test_errors_are_the_exceptions_that_fit(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.completions.create(model="other", prompt="x")
        self.assertEqual((caught.exception.code, caught.exception.param), ("model_not_found", "model"))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(temperature=3)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete(max_tokens=5000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def test_a_wrong_key_and_a_full_queue(self):
        with Server("--sessions", "1", "--queue", "0", "--api-key", "right") as server:
            with openai.OpenAI(**self.address(server), max_retries=0) as client, self.assertRaises(openai.AuthenticationError):
                client.models.list()
            with openai.OpenAI(**{**self.address(server), "api_key": "right"}, max_retries=0) as client:
                fields = {"model": "pocket", "prompt": PROMPT, "max_tokens": 1500, "extra_body": {"ignore_eos": True}}
                with client.completions.create(**fields, stream=True) as stream:
                    next(iter(stream))
                    with self.assertRaises(openai.RateLimitError):
                        client.completions.create(**fields)

    def test_a_stream_that_is_closed_ends_its_sequence(self):
        cancelled, before = (self.server.metric(name) for name in ('moert_sequences_total{end="cancelled"}',
                                                                    "moert_generated_tokens_total"))
        with self.complete(max_tokens=480, stream=True, extra_body={"ignore_eos": True}) as stream:
            next(iter(stream))
        self.server.wait_for('moert_sequences_total{end="cancelled"}', cancelled + 1)
        self.assertLess(self.server.metric("moert_generated_tokens_total") - before, 480)
