"""The page of JSON documents, from docs/schema.json."""

import json

from pages import ROOT

HEAD = """# Documents

<!-- Written from docs/schema.json by `python3 tests/book reference --write` -->

Every document that a command prints with `--format json`, from [schema.json](../schema.json), against which tests check
the output. [JSON of the commands](../json.md) has the rules. A field in *italics* may be missing.
"""


def page() -> str:
    """The page, with a heading for each document."""
    schema = json.loads((ROOT / "docs/schema.json").read_text())
    parts = [HEAD]
    for name in (alternative["$ref"].rsplit("/", 1)[1] for alternative in schema["anyOf"]):
        document = schema["$defs"][name]
        parts.append(
            f"## {document['title']}\n\n| field | type |\n| --- | --- |\n" + "\n".join(rows(document, "")) + "\n"
        )
    return "\n".join(parts)


def rows(schema: dict, prefix: str) -> list[str]:
    """A row for each field, and for those of objects in it."""
    found = []
    required = set(schema.get("required", ()))
    for name, field in sorted(schema.get("properties", {}).items()):
        path = f"{prefix}{name}"
        shown = f"`{path}`" if name in required else f"*`{path}`*"
        found.append(f"| {shown} | {kind(field)} |")
        inner, step = (field, ".") if "properties" in field else (field.get("items", {}), "[].")
        found += rows(inner, path + step)
    return found


def kind(field: dict) -> str:
    """The type of a field in words."""
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    types = field.get("type", "any")
    names = types if isinstance(types, list) else [types]
    text = " or ".join("null" if name == "null" else name for name in names)
    items = field.get("items", {})
    if "array" in names and items:
        text = text.replace("array", f"array of {kind(items)}")
    if "maximum" in field:
        return f"{text}, {field.get('minimum', '')} to {field['maximum']}"
    return text
