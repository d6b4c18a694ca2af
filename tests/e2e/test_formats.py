"""Formats of answers: keywords of schemas that no grammar keeps, and grammars in llama.cpp's notation."""
import json

from serving import CHAT, Server, chat
from support import E2eTest


class FormatsTest(E2eTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def test_a_keyword_that_is_not_kept_is_named_and_refused_where_the_schema_is_strict(self):
        schema = {"type": "object", "properties": {"x": {"enum": [1, 2], "if": {}}}}
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        for fields in ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}, {"tools": [tool]},
                       {"tools": [tool], "tool_choice": "required"}):
            with self.subTest(fields):
                named = "function 'f': #/properties/x: if" if "tools" in fields else "#/properties/x: if"
                # Calls that may be made have any arguments.
                is_constrained = "tools" not in fields or "tool_choice" in fields
                self.assertEqual(self.server.header(CHAT, chat(max_tokens=2, **fields), "X-Moert-Unenforced"),
                                 named if is_constrained else None)
                strict = json.loads(json.dumps(fields).replace('"name":', '"strict": true, "name":'))
                status, reply = self.server.ask(CHAT, chat(**strict))
                self.assertEqual(status, 400)
                self.assertIn(named + " is not enforced, and the schema is strict", reply["error"]["message"])
        self.assertIsNone(self.server.header(CHAT, chat(max_tokens=2), "X-Moert-Unenforced"))

    def test_a_text_fits_its_grammar(self):
        grammar = 'root ::= ("yes" | "no") ", " [0-9]{2}\n'
        for seed in range(3):
            status, reply = self.server.ask(CHAT, chat(grammar=grammar, seed=seed, max_tokens=50))
            self.assertEqual(status, 200, reply)
            self.assertRegex(reply["choices"][0]["message"]["content"], r"^(yes|no), \d\d$")
        self.assertRegex(self.server.text(grammar=grammar, max_tokens=50)["choices"][0]["text"], r"^(yes|no), \d\d$")
        status, reply = self.server.ask(CHAT, chat(grammar="root ::= word"))
        self.assertEqual((status, reply["error"]["param"]), (400, "grammar"))
        self.assertIn("line 1, column 10: the rule 'word' is not defined", reply["error"]["message"])
