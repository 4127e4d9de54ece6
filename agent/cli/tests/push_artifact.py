"""Pushes the files of a folder to a registry as an artifact, one layer for each, as ORAS does.

python push_artifact.py REGISTRY USER:PASSWORD REPO TAG FOLDER MEDIA_TYPE ANNOTATION
"""

import base64
import hashlib
import json
import pathlib
import sys
import urllib.parse
import urllib.request

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def request(method, url, login, data=b"", kind="application/octet-stream"):
    sent = urllib.request.Request(url, data=data, method=method)
    sent.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    sent.add_header("Content-Type", kind)
    return urllib.request.urlopen(sent)


def push_blob(base, login, data):
    begun = request("POST", f"{base}/blobs/uploads/", login)
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    place = urllib.parse.urljoin(base, begun.headers["Location"])
    sign = "&" if "?" in place else "?"
    request("PUT", f"{place}{sign}digest={urllib.parse.quote(digest)}", login, data)
    return {"digest": digest, "size": len(data)}


def main(registry, login, repo, tag, folder, media_type, annotation):
    base = f"http://{registry}/v2/{repo}"
    config = push_blob(base, login, b"{}") | {"mediaType": "application/vnd.oci.empty.v1+json"}
    layers = []
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file():
            name = str(path.relative_to(folder))
            layer = {"mediaType": media_type, "annotations": {annotation: name}}
            layers.append(layer | push_blob(base, login, path.read_bytes()))
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
    answer = request("PUT", f"{base}/manifests/{tag}", login, json.dumps(manifest).encode(), MANIFEST)
    print(answer.headers["Docker-Content-Digest"])


if __name__ == "__main__":
    main(*sys.argv[1:])
