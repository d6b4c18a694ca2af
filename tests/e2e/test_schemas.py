"""Random texts of the grammars of schemas, as pydantic makes and validates them. Runs where pydantic can be imported, or with
MOE_PYDANTIC_VENV, the folder of a virtual environment of the same Python that has it."""
import datetime
import decimal
import enum
import json
import os
import subprocess
import sys
import typing
import unittest
import uuid
from pathlib import Path

from support import BUILD, E2eTest

if venv := os.environ.get("MOE_PYDANTIC_VENV"):
    sys.path[:0] = map(str, Path(venv).glob("lib/python3*/site-packages"))
try:
    import email_validator  # Which pydantic's EmailStr needs.
    import pydantic
    from pydantic import BaseModel, ConfigDict, Field
    from typing_extensions import TypedDict
except ImportError as error:
    pydantic, missing = None, str(error)

SAMPLES = 40


def samples(schemas, count=SAMPLES, seed=1):
    """For each schema: {"error": ...}, or {"unenforced": [...], "texts": [...]}."""
    lines = "".join(json.dumps(schema) + "\n" for schema in schemas)
    done = subprocess.run([BUILD / "tests/sample_schema", str(count), str(seed)], input=lines, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise AssertionError(done.stderr)
    return [json.loads(line) for line in done.stdout.rstrip("\n").split("\n")]


def models():
    """Name: a type, and for some the keywords that are not enforced."""
    A, L, O, U = typing.Annotated, typing.Literal, typing.Optional, typing.Union

    class Colour(enum.Enum):
        RED, GREEN = "red", "green"

    class Level(enum.IntEnum):
        LOW, HIGH = 1, 5

    class Point(BaseModel):
        x: float
        y: float = 0

    class Named(BaseModel):
        """A thing with a name."""
        name: str = Field(min_length=1, max_length=40, description="Its name", examples=["a"])

    class Shape(Named):
        corners: list[Point] = Field(min_length=3, max_length=6)
        colour: Colour = Colour.RED

    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")
        a: int
        b: O[str] = None

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int
        __pydantic_extra__: dict[str, int] = Field(init=False)

    class Aliased(BaseModel):
        klass: str = Field(alias="class")
        other: int = Field(alias="an other", default=3)

    class Tree(BaseModel):
        value: int
        children: list["Tree"] = []

    class Linked(BaseModel):
        next: O["Linked"] = None

    class Ping(BaseModel):
        pong: O["Pong"] = None

    class Pong(BaseModel):
        ping: O[Ping] = None

    Ping.model_rebuild(_types_namespace={"Pong": Pong})

    class Cat(BaseModel):
        kind: L["cat"]
        lives: int = Field(ge=1, le=9)

    class Dog(BaseModel):
        kind: L["dog"] = "dog"
        name: str

    class Pet(BaseModel):
        pet: U[Cat, Dog] = Field(discriminator="kind")

    class Loose(BaseModel):
        pet: U[Cat, Dog]

    class Person(BaseModel):
        name: str
        age: A[int, Field(ge=0, lt=150)]
        email: O[pydantic.EmailStr] = None
        born: datetime.date
        tags: set[L["a", "b", "c"]] = set()
        scores: dict[str, int] = {}
        address: O[Point] = None

    class Typed(TypedDict, total=False):
        a: int
        b: str

    T = typing.TypeVar("T")

    class Box(BaseModel, typing.Generic[T]):
        content: T

    return {
        "str": str, "int": int, "float": float, "bool": bool, "none": None, "any": typing.Any, "bytes": bytes,
        "optional": O[int], "literal": L["a", 1, True, None], "enum": Colour, "int enum": Level, "union": U[int, str, None],
        "constr": A[str, Field(min_length=2, max_length=5)], "pattern": A[str, Field(pattern=r"^[A-Z]{2}\d{3}(-x)?$")],
        "unanchored": A[str, Field(pattern=r"[A-Z]\d")], "pattern and length": A[str, Field(pattern="^[a-z_]+$", max_length=8)],
        "conint": pydantic.conint(ge=-3, lt=200), "positive": pydantic.PositiveInt, "non positive": pydantic.NonPositiveInt,
        "multiple": pydantic.conint(multiple_of=15, ge=0, le=1000), "confloat": pydantic.confloat(gt=0, le=1),
        "negative float": pydantic.NegativeFloat, "half": pydantic.confloat(multiple_of=0.5), "finite": pydantic.FiniteFloat,
        "date": datetime.date, "datetime": datetime.datetime, "aware": pydantic.AwareDatetime, "time": datetime.time,
        "timedelta": datetime.timedelta, "uuid": uuid.UUID, "version 5": pydantic.UUID5,
        "email": pydantic.EmailStr, "url": pydantic.AnyUrl, "ip": pydantic.IPvAnyAddress, "ipv4": "ipaddress.IPv4Address",
        "ipv6": "ipaddress.IPv6Address", "path": Path, "secret": pydantic.SecretStr, "base64": pydantic.Base64Bytes,
        "list": list[int], "bounded list": A[list[str], Field(min_length=1, max_length=3)], "list of lists": list[list[bool]],
        "set": (set[int], ["#: uniqueItems"]), "set of few": A[set[Colour], Field(min_length=1)], "frozenset": frozenset[L[1, 2, 3]],
        "tuple": tuple[int, str], "tuple of many": tuple[int, ...], "named": A[tuple[str, int, O[bool]], "x"],
        "dict": dict[str, int], "dict of keys": dict[L["x", "y"], float], "dict of patterns": dict[A[str, Field(pattern="^k[0-9]$")], int],
        "bounded dict": A[dict[str, bool], Field(min_length=1, max_length=2)], "typed dict": Typed,
        "point": Point, "inherited": Shape, "closed": Closed, "open": Open, "aliased": Aliased, "tree": Tree, "linked": Linked,
        "mutual": Ping, "tagged": Pet, "untagged": Loose, "person": Person, "generic": Box[list[Point]], "models": list[U[Cat, Point]],
        "optional model": O[Person], "nested optional": Box[O[Closed]], "defaults": A[int, Field(default=3, gt=2)],
    }


@unittest.skipIf(pydantic is None, "pydantic or email_validator is not installed; MOE_PYDANTIC_VENV names a virtual environment with it")
class PydanticTest(E2eTest):
    def test_texts_of_the_grammars_of_models_are_valid(self):
        import ipaddress
        named = {"ipaddress.IPv4Address": ipaddress.IPv4Address, "ipaddress.IPv6Address": ipaddress.IPv6Address}
        kinds = {name: kind if isinstance(kind, tuple) else (kind, []) for name, kind in models().items()}
        adapters = {name: pydantic.TypeAdapter(named.get(kind, kind) if isinstance(kind, str) else kind) for name, (kind, _) in kinds.items()}
        self.assertGreaterEqual(len(adapters), 60)
        for (name, adapter), sampled in zip(adapters.items(), samples(adapter.json_schema(by_alias=True) for adapter in adapters.values())):
            with self.subTest(name):
                self.assertNotIn("error", sampled)
                self.assertEqual(sampled["unenforced"], kinds[name][1])
                texts = [text for text in sampled["texts"] if text]
                self.assertGreater(len(texts), SAMPLES / 2)
                for text in texts:
                    adapter.validate_json(text)

    def test_a_decimal_is_a_number_or_any_string(self):
        schema = pydantic.TypeAdapter(decimal.Decimal).json_schema()
        sampled = samples([schema])[0]
        self.assertNotIn("error", sampled)
        self.assertEqual(sampled["unenforced"], [])
