"""Checks manifests against the schemas that the package kubernetes-validate brings. Started by `validate`."""

from __future__ import annotations

import argparse
import sys

import kubernetes_validate
import yaml


def problems(path: str, versions: list[str], skip: set[str]) -> list[str]:
    """Return what is wrong in a file, and say what is left out."""
    found = []
    with open(path, encoding="utf-8") as file:
        documents = [document for document in yaml.safe_load_all(file) if document is not None]
    if not documents:
        return [f"{path}: no objects"]
    for document in documents:
        name = f"{path}: {document.get('kind')} {document.get('metadata', {}).get('name')}"
        if document.get("kind") in skip:
            print(f"{name}: left out, not Kubernetes' own", file=sys.stderr)
            continue
        for version in versions:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                found.append(f"{name}: {version}: {error.message}")
            except (kubernetes_validate.SchemaNotFoundError, kubernetes_validate.InvalidSchemaError) as error:
                found.append(f"{name}: {version}: no schema: {error}")
    return found


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--versions", required=True)
    parser.add_argument("--skip", required=True)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    versions, skip = arguments.versions.split(), set(arguments.skip.split())
    found = [problem for path in arguments.files for problem in problems(path, versions, skip)]
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
