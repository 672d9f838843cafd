"""A readable notation of rows: `he is [un]KIND and [never] LAUGHS`, `the/O cat/B-x`, `context: wrong | [right]`.

Cues are in brackets, words and characters in scope in capitals.
"""

import json


def notation(row):
    """Return the words of a row with its cue and scope; its columns must agree with each other."""
    tokens, cues, scopes = row["tokens"], row["cue_text"], row["scope_text"] or [""] * len(row["tokens"])
    assert row["cue"] == [int(bool(text)) for text in cues]
    assert row["scope"] in ([], [int(bool(text)) for text in scopes])
    words = []
    for word, cue, scope in zip(tokens, cues, scopes, strict=True):
        shown, start = word.replace(scope, scope.upper(), 1) if scope else word, word.index(cue)
        end = start + len(cue)
        words.append(f"{shown[:start]}[{shown[start:end]}]{shown[end:]}" if cue else shown)
    return " ".join(words)


def columns(marked, **others):
    """Return the columns of a row in this notation, and others. Brackets and capitals mark whole words."""
    words = marked.split()
    tokens = [word.strip("[]").lower() for word in words]
    cue, scope = [int(word[0] == "[") for word in words], [int(word.strip("[]").isupper()) for word in words]
    return {"tokens": tokens, "cue": cue, "scope": scope, **others}


def write(folder, content):
    """Write the name and the text of a file, or rows as JSON lines, and return the path."""
    name, content = content if isinstance(content, tuple) else ("a.jsonl", content)
    if isinstance(content, list):
        content = "".join(json.dumps(row) + "\n" for row in content)
    (folder / name).write_bytes(content.encode())
    return folder / name


def shown(rows):
    """Return the rows of any task but negation: `the/O cat/B-x; a/O`, or `context: wrong | [right]` and so on."""
    kind = rows.features.get("label")
    return "; ".join(_show(row, getattr(kind, "feature", kind)) for row in rows)


def _show(row, kind):
    label = row.get("label")
    if "tokens" in row:
        return " ".join(map("/".join, zip(*(row[name] for name in ("tokens", "labels") if row[name]), strict=True)))
    if "choices" in row:
        choices = (f"[{one}]" if i == label else one for i, one in enumerate(row["choices"]))
        return f"{row['context']}: {' | '.join(choices)}"
    if "answers" in row:
        answers = map("{}@{}".format, row["answers"]["text"], row["answers"]["answer_start"])
        return " ".join([f"{row['id']}:", row["context"], row.get("question", "-"), *answers])
    label = kind.int2str(label) if label is not None and hasattr(kind, "int2str") else label
    return f"{' + '.join(row[name] for name in ('text', 'text_pair') if name in row)} = {label}"
