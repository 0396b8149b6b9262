"""A CA and certificates for a trial cluster, made by the library `cryptography` of the extra [secure].

The invariants: nothing is overwritten; a key is readable by its owner alone from its first moment on; the library is
loaded when certificates are made, and at no other time.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import AlreadyExistsError, ConfigError, MissingExtraError
from pytubemq.model.names import is_host

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OWN_HOSTS: Final = ("localhost", "127.0.0.1")
"""The names that every server's certificate has, beside the machine's and those that are given."""
DEFAULT_DAYS: Final = 365
MAX_DAYS: Final = 3_650
_EARLIER: Final = datetime.timedelta(hours=1)
"""The time by which a certificate is valid before now, for machines whose clocks are behind."""


@dataclass(frozen=True, slots=True)
class TrialFiles:
    """The files in the directory, each with its key beside it."""

    directory: Path

    @property
    def ca(self) -> Path:
        """The CA's certificate, which all others trust."""
        return self.directory / "ca.pem"

    @property
    def server(self) -> Path:
        """The certificate of servers; also good for a Broker that shows it to its Master."""
        return self.directory / "server.pem"

    @property
    def client(self) -> Path:
        """The certificate of clients, for servers that demand one."""
        return self.directory / "client.pem"

    @property
    def all(self) -> tuple[Path, ...]:
        """Every file."""
        certificates = (self.ca, self.server, self.client)
        return (*certificates, *(key_of(certificate) for certificate in certificates))


def key_of(certificate: Path) -> Path:
    """Return the file of a certificate's key."""
    return certificate.with_suffix(".key")


def make_trial_certificates(
    directory: Path, *, hosts: Sequence[str] = (), client_name: str = "client", days: int = DEFAULT_DAYS
) -> TrialFiles:
    """Write a CA, a server's certificate and a client's into a directory, which is created if needed.

    Args:
        directory: where they go.
        hosts: names and addresses of servers, beside this machine's.
        client_name: the common name of the client's certificate.
        days: how long they are valid.

    Raises:
        MissingExtraError: the library is not installed.
        AlreadyExistsError: one of the files exists; nothing is written.
        ConfigError: a host is none, or the directory cannot be written to.
    """
    names = _names(hosts)
    files = TrialFiles(directory)
    there = [path.name for path in files.all if path.exists()]
    if there:
        raise AlreadyExistsError(
            f"{directory} has {', '.join(there)} already, and nothing is overwritten",
            hint="name another directory, or move these files away",
        )
    contents = _contents(files, names, client_name, days)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path, content in contents.items():
            _write(path, content, mode=0o600 if path.suffix == ".key" else 0o644)
    except OSError as error:
        raise ConfigError(
            f"the certificates cannot be written to {directory}: {error.strerror or error}",
            hint="name a directory that can be written to",
        ) from error
    return files


# --- inside -----------------------------------------------------------------------------------------------------------


def _names(hosts: Sequence[str]) -> list[str]:
    for host in hosts:
        if not is_host(host):
            raise ConfigError(f"{host!r} is not the name or the address of a host", hint="write it without a port")
    own = platform.node()
    return list(dict.fromkeys((*OWN_HOSTS, *((own,) if own and is_host(own) else ()), *hosts)))


def _write(path: Path, content: bytes, *, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _contents(files: TrialFiles, names: list[str], client_name: str, days: int) -> dict[Path, bytes]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    except ImportError as error:
        raise MissingExtraError("secure", "making certificates") from error

    def name_of(text: str) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def alternative(name: str) -> Any:
        try:
            return x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            return x509.DNSName(name)

    usages = ExtendedKeyUsageOID
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = name_of("pytubemq trial CA")
    ca = _signed(_builder(ca_name, ca_name, ca_key, days), ca_key, ca_key, path_length=0)
    found = {files.ca: _pem(ca), key_of(files.ca): _key_pem(ca_key)}
    for path, common_name, others, purposes in (
        (files.server, "pytubemq trial server", names, [usages.SERVER_AUTH, usages.CLIENT_AUTH]),
        (files.client, client_name, [], [usages.CLIENT_AUTH]),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(name_of(common_name), ca_name, key, days)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        if others:
            builder = builder.add_extension(x509.SubjectAlternativeName(map(alternative, others)), critical=False)
        found[path] = _pem(_signed(builder, key, ca_key, path_length=None))
        found[key_of(path)] = _key_pem(key)
    return found


def _builder(subject: Any, issuer: Any, key: Any, days: int) -> Any:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _signed(builder: Any, key: Any, ca_key: Any, *, path_length: int | None) -> Any:
    """Return the certificate; `path_length` None makes one that can sign no other."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    is_ca = path_length is not None
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    made = (
        builder.add_extension(x509.BasicConstraints(ca=is_ca, path_length=path_length), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return made.add_extension(issuer, critical=False).sign(ca_key, hashes.SHA256())


def _pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    content: bytes = certificate.public_bytes(Encoding.PEM)
    return content


def _key_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    content: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return content
