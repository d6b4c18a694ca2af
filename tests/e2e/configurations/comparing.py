"""Compiles a checkpoint, computes the logits of a prompt, and compares them with the reference's."""
from support import DONE, REFUSED, read_safetensors, run

TOLERANCE = 1e-4  # Relative to the largest logit; float32 itself accounts for a tenth.


def compare(folder, ids, expected, scratch):
    """("equal" or "different", the largest error relative to the largest logit), ("refused" or "failed", the message).

    expected: {position: logits}; other positions are not compared."""
    artifact, list_of_ids, output = scratch / "x.moe", scratch / "ids.txt", scratch / "logits.safetensors"
    list_of_ids.write_text(" ".join(map(str, ids)) + "\n")
    done = run("moec", "compile", folder, "-o", artifact, "--bits", "source", "--resident-bits", "source", "--threads", 1)
    if done.status == DONE:
        done = run("moert", "logits", artifact, "--ids", list_of_ids, "-o", output, "--threads", 1)
        artifact.unlink()
    if done.status != DONE:
        return "refused" if done.status == REFUSED and done.err.strip() else "failed", done.err.strip()
    found = read_safetensors(output)["logits"]
    if found.shape[0] != len(ids) or any(len(row) != found.shape[1] for row in expected.values()):
        return "different", f"shape {found.shape}"
    scale = max(max(map(abs, row)) for row in expected.values())
    errors = []
    for position, row in expected.items():
        start = position * found.shape[1]
        errors += [abs(a - b) / scale for a, b in zip(found.values[start:start + len(row)], row)]
    return "equal" if all(error <= TOLERANCE for error in errors) else "different", max(errors)
