"""Pushes the files of a folder to a registry as an artifact, one layer for each, as ORAS does.

python push_artifact.py REGISTRY USER:PASSWORD REPO TAG FOLDER MEDIA_TYPE ANNOTATION

With `image` in place of the annotation: as an image that has them in one layer, below /models.
"""

import base64
import hashlib
import io
import json
import pathlib
import sys
import tarfile
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


def push_files(base, login, folder, media_type, annotation):
    layers = []
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file():
            name = str(path.relative_to(folder))
            layer = {"mediaType": media_type, "annotations": {annotation: name}}
            layers.append(layer | push_blob(base, login, path.read_bytes()))
    return layers


def push_image(base, login, folder, media_type):
    archive = io.BytesIO()
    mode = "w:gz" if media_type.endswith("gzip") else "w"
    with tarfile.open(fileobj=archive, mode=mode, format=tarfile.PAX_FORMAT) as members:
        members.add(folder, arcname="models")
    return [{"mediaType": media_type} | push_blob(base, login, archive.getvalue())]


def main(registry, login, repo, tag, folder, media_type, annotation):
    base = f"http://{registry}/v2/{repo}"
    is_image = annotation == "image"
    kind = "application/vnd.oci.image.config.v1+json" if is_image else "application/vnd.oci.empty.v1+json"
    config = push_blob(base, login, b"{}") | {"mediaType": kind}
    if is_image:
        layers = push_image(base, login, folder, media_type)
    else:
        layers = push_files(base, login, folder, media_type, annotation)
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
    answer = request("PUT", f"{base}/manifests/{tag}", login, json.dumps(manifest).encode(), MANIFEST)
    print(answer.headers["Docker-Content-Digest"])


if __name__ == "__main__":
    main(*sys.argv[1:])
