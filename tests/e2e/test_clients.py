"""The server as clients and agents use it: each one's smallest example with a tool and a model of the answer. Each runs where its
package can be imported, or with MOE_CLIENTS_VENV, the folder of a virtual environment of the same Python that has it."""
import importlib.util
import json
import os
import sys
import unittest
from pathlib import Path

from scripted import scripted
from serving import Server
from support import E2eTest
from test_answers import CHATML

if venv := os.environ.get("MOE_CLIENTS_VENV"):
    sys.path[:0] = map(str, Path(venv).glob("lib/python3*/site-packages"))
TEMPLATE = "{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}" + CHATML + "{{ '#' if messages[-1].role == 'tool' }}"
ARGUMENTS = ['{"city": "Os', 'lo", "days": 2}']
ANSWER = "It rains in Oslo."
TOOL = {"name": "get_weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city", "days"],
    "additionalProperties": False}}
QUESTION = "What is the weather?"


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)} not installed; MOE_CLIENTS_VENV names a virtual environment")


def get_weather(city: str, days: int) -> str:
    """Weather of a city."""
    return f"rain in {city} for {days} days"


def weather_model():
    import pydantic
    return pydantic.create_model("Weather", city=(str, ...), days=(int, ...))


class ClientTest(E2eTest):
    """`calls` calls the tool, and answers its result; `forced` has the call that a prompt has begun; `values` answers with JSON."""
    @classmethod
    def setUpClass(cls):
        os.environ["OPENAI_API_KEY"] = "unused"
        os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
        cls.servers = {
            "calls": Server(artifact=scripted("client-calls", TEMPLATE, ["<tool_call>\n", '{"name": "get_weather", "arguments": ',
                                                                         *ARGUMENTS, "}\n</tool_call>"], (), {ord("#"): [ANSWER]})),
            "forced": Server(artifact=scripted("client-forced", TEMPLATE, ['{"name": "Weather", "arguments": ', *ARGUMENTS,
                                                                           "}\n</tool_call>"])),
            "values": Server(artifact=scripted("client-values", TEMPLATE, ARGUMENTS))}

    @classmethod
    def tearDownClass(cls):
        for server in cls.servers.values():
            server.end()

    @classmethod
    def url(cls, name):
        host, port = cls.servers[name].address
        return f"http://{host}:{port}/v1"

    def check_values(self, found):
        self.assertEqual((found.city, found.days), ("Oslo", 2))

    def check_arguments(self, name, arguments):
        self.assertEqual((name, arguments if isinstance(arguments, dict) else json.loads(arguments)),
                         ("get_weather", {"city": "Oslo", "days": 2}))


@needs("openai", "pydantic")
class OpenAiTest(ClientTest):
    def client(self, name):
        import openai
        client = openai.OpenAI(base_url=self.url(name), api_key="unused", max_retries=0)
        self.addCleanup(client.close)
        return client

    def test_chats_call_tools_and_stream_them(self):
        asked = {"model": "pocket", "messages": [{"role": "user", "content": QUESTION}], "temperature": 0}
        tools = [{"type": "function", "function": {**TOOL, "strict": True}}]
        client = self.client("calls")
        message = client.chat.completions.create(**asked, tools=tools).choices[0].message
        self.check_arguments(message.tool_calls[0].function.name, message.tool_calls[0].function.arguments)
        with client.chat.completions.stream(**asked, tools=tools) as stream:
            types = [event.type for event in stream]
            streamed = stream.get_final_completion().choices[0].message
        self.assertIn("tool_calls.function.arguments.delta", types)
        self.check_arguments(streamed.tool_calls[0].function.name, streamed.tool_calls[0].function.arguments)
        history = [*asked["messages"], message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}]
        reply = client.chat.completions.create(**{**asked, "messages": history}, tools=tools)
        self.assertEqual(reply.choices[0].message.content, ANSWER)
        parsed = self.client("values").chat.completions.parse(**asked, response_format=weather_model())
        self.check_values(parsed.choices[0].message.parsed)

    def test_responses_call_tools_stream_and_parse(self):
        client = self.client("calls")
        asked = {"model": "pocket", "temperature": 0, "tools": [{"type": "function", **TOOL, "strict": True}]}
        reply = client.responses.create(**asked, input=QUESTION, instructions="Be brief.")
        (call,) = reply.output
        self.check_arguments(call.name, call.arguments)
        history = [{"role": "user", "content": QUESTION}, call,
                   {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
        self.assertEqual(client.responses.create(**asked, input=history).output_text, ANSWER)
        with client.responses.stream(**asked, input=QUESTION) as stream:
            types = [event.type for event in stream]
            self.check_arguments("get_weather", stream.get_final_response().output[0].arguments)
        self.assertIn("response.function_call_arguments.delta", types)
        parsed = self.client("values").responses.parse(model="pocket", input=QUESTION, temperature=0, text_format=weather_model())
        self.check_values(parsed.output_parsed)


class OtherClientsTest(ClientTest):
    @needs("litellm")
    def test_litellm(self):
        import litellm
        reply = litellm.completion(model="openai/pocket", api_base=self.url("calls"), api_key="unused", temperature=0,
                                   messages=[{"role": "user", "content": QUESTION}], tools=[{"type": "function", "function": TOOL}])
        call = reply.choices[0].message.tool_calls[0]
        self.check_arguments(call.function.name, call.function.arguments)

    @needs("langchain_openai")
    def test_langchain(self):
        from langchain_openai import ChatOpenAI

        def model(name):
            return ChatOpenAI(model="pocket", base_url=self.url(name), api_key="unused", temperature=0, max_retries=0)
        bound = model("calls").bind_tools([get_weather])
        (call,) = bound.invoke(QUESTION).tool_calls
        self.check_arguments(call["name"], call["args"])
        pieces = list(bound.stream(QUESTION))
        whole = pieces[0]
        for piece in pieces[1:]:
            whole += piece
        self.check_arguments(whole.tool_calls[0]["name"], whole.tool_calls[0]["args"])
        self.check_values(model("values").with_structured_output(weather_model(), method="json_schema").invoke(QUESTION))
        self.check_values(model("forced").with_structured_output(weather_model(), method="function_calling").invoke(QUESTION))

    @needs("instructor", "openai")
    def test_instructor(self):
        import instructor
        import openai
        for name, mode in (("forced", instructor.Mode.TOOLS), ("values", instructor.Mode.JSON_SCHEMA)):
            with self.subTest(name), openai.OpenAI(base_url=self.url(name), api_key="unused") as client:
                patched = instructor.from_openai(client, mode=mode)
                self.check_values(patched.chat.completions.create(
                    model="pocket", response_model=weather_model(), temperature=0, messages=[{"role": "user", "content": QUESTION}]))

    @needs("pydantic_ai")
    def test_pydantic_ai(self):
        from pydantic_ai import Agent, NativeOutput
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        def model(name):
            return OpenAIChatModel("pocket", provider=OpenAIProvider(base_url=self.url(name), api_key="unused"))
        agent = Agent(model("calls"), tools=[get_weather], model_settings={"temperature": 0})
        self.assertEqual(agent.run_sync(QUESTION).output, ANSWER)
        native = Agent(model("values"), output_type=NativeOutput(weather_model()), model_settings={"temperature": 0})
        self.check_values(native.run_sync(QUESTION).output)

    @needs("agents")
    def test_openai_agents(self):
        from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
        import asyncio
        import openai

        async def run(kind):
            async with openai.AsyncOpenAI(base_url=self.url("calls"), api_key="unused") as client:
                agent = Agent("weather", tools=[function_tool(get_weather)], model=kind("pocket", client),
                              model_settings=ModelSettings(temperature=0))
                whole = await Runner.run(agent, QUESTION)
                streamed = Runner.run_streamed(agent, QUESTION)
                async for _ in streamed.stream_events():
                    pass
                return whole.final_output, streamed.final_output
        for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
            with self.subTest(kind.__name__):
                self.assertEqual(asyncio.run(run(kind)), (ANSWER, ANSWER))
