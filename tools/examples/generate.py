"""python3 generate.py model.moe "The old man" -- continues a prompt through libmoert.so, found by the loader."""
import ctypes as c
import sys

moert = c.CDLL("libmoert.so.0")
TAKE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int32, c.POINTER(c.c_char), c.c_size_t)


class Budget(c.Structure):
    _fields_ = [("bytes", c.c_uint64), ("expert_fraction", c.c_double)]


def call(name, *arguments):
    error = c.c_char_p()
    if getattr(moert, name)(*arguments, c.byref(error)):
        sys.exit(error.value.decode())


@TAKE
def show(user, token, text, size):
    sys.stdout.buffer.write(text[:size])
    return 0


path, prompt = (argument.encode() for argument in sys.argv[1:3])
model, engine, session = c.c_void_p(), c.c_void_p(), c.c_void_p()
tokens, count = c.POINTER(c.c_int32)(), c.c_size_t()
call("moert_model_open", path, c.byref(model))
call("moert_encode", model, prompt, c.c_size_t(len(prompt)), 1, c.byref(tokens), c.byref(count))
call("moert_engine_load", model, None, c.byref(engine))
call("moert_engine_set_budget", engine, c.byref(Budget(0, 0.25)))
call("moert_session_create", engine, c.byref(session))
call("moert_generate", session, tokens, count, None, show, None, None)
sys.stdout.flush()
