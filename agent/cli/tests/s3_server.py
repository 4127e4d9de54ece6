"""An S3 server over TLS, by moto, with the files of a folder in its bucket `models`.

    python s3_server.py CONTENT WORK

All are public. Files below `sha256` have their SHA-256 as the checksum, files below `damaged` the CRC32 of other bytes,
all others their own CRC32.

Writes the certificate of its authority to WORK/ca.pem, and prints its port when it is ready.
"""

import datetime
import pathlib
import sys
import threading

import boto3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

CHECKSUMS = {
    "sha256": {"ChecksumAlgorithm": "SHA256"},
    "damaged": {"ChecksumAlgorithm": "CRC32", "ChecksumCRC32": "AAAAAA=="},
}


def certificate(name, key, issuer_name, issuer_key, authority):
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    )
    return builder.sign(issuer_key, hashes.SHA256())


def name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def main(content, work):
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = name("authority of a test")
    authority_path = work / "ca.pem"
    authority_path.write_bytes(pem(certificate(authority, authority_key, authority, authority_key, True)))
    server_certificate = certificate(name("localhost"), key, authority, authority_key, False)
    (work / "server.pem").write_bytes(pem(server_certificate))
    (work / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    application = DomainDispatcherApplication(create_backend_app)
    context = (str(work / "server.pem"), str(work / "server.key"))
    server = make_server("localhost", 0, application, threaded=True, ssl_context=context)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    s3 = boto3.client(
        "s3",
        endpoint_url=f"https://localhost:{server.port}",
        verify=str(authority_path),
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    s3.create_bucket(Bucket="models")
    # The latest last: a sidecar is later than its model.
    files = (path for path in content.rglob("*") if path.is_file())
    for path in sorted(files, key=lambda path: path.stat().st_mtime_ns):
        key = path.relative_to(content)
        checksum = CHECKSUMS.get(key.parts[0], {"ChecksumAlgorithm": "CRC32"})
        s3.put_object(Bucket="models", Key=str(key), Body=path.read_bytes(), ACL="public-read", **checksum)
    print(server.port, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
