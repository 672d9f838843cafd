"""A readable notation of rows of negation: `he is [un]KIND and [never] LAUGHS`.

Cues are in brackets, words and characters in scope in capitals.
"""


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


def described(rows):
    """Return a line for each row: its id, the kind and type of its cue, and its notation."""
    return [f"{row['id']} {row['cue_kind']}:{row['cue_type']} {notation(row)}" for row in rows]


def columns(marked):
    """Return the columns of a row in this notation. Brackets and capitals mark whole words."""
    words = marked.split()
    tokens = [word.strip("[]").lower() for word in words]
    return {
        "tokens": tokens,
        "cue": [int(word[0] == "[") for word in words],
        "scope": [int(word.strip("[]").isupper()) for word in words],
    }


def shown(rows):
    """Return a line for each row of any task, such as `the/O cat/B-x`, or `context: wrong | [right]`."""
    return list(map(_shown, rows, [rows.features] * len(rows)))


def _shown(row, kinds):
    if "tokens" in row:
        pairs = (
            zip(row["tokens"], row["labels"], strict=True) if row["labels"] else ((word,) for word in row["tokens"])
        )
        return " ".join(map("/".join, pairs))
    if "choices" in row:
        right = row.get("label", -1)
        choices = (f"[{choice}]" if i == right else choice for i, choice in enumerate(row["choices"]))
        return f"{row['context']}: {' | '.join(choices)}"
    if "answers" in row:
        answers = zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
        asked = row.get("question", "-")
        return (
            f"{row['id']}: {row['context']} {asked} {' '.join(f'{text}@{start}' for text, start in answers)}".strip()
        )
    label, kind = row["label"], kinds["label"]
    if isinstance(label, list):
        label = [kind.feature.int2str(number) for number in label]
    elif label is not None and hasattr(kind, "int2str"):
        label = kind.int2str(label)
    return f"{' + '.join(row[name] for name in ('text', 'text_pair') if name in row)} = {label}"
