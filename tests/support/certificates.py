"""Certificates for tests, good ones and such as must be refused."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pytubemq.model.tls_options import TlsOptions
from pytubemq.net.tls.contexts import ServerFiles

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = ("localhost", "127.0.0.1")
LONG_AGO = datetime.datetime(2019, 1, 1, tzinfo=datetime.UTC)
EXPIRED = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Pair:
    """The files of a certificate and its key."""

    cert: str
    key: str


class Authority:
    """A CA in a directory of its own."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._authority = trustme.CA()
        self._directory = directory / name
        self._directory.mkdir()
        self.path = str(self._directory / "ca.pem")
        self._authority.cert_pem.write_to_path(self.path)

    def issue(
        self,
        name: str = "server",
        *hosts: str,
        expired: bool = False,
        common_name: str | None = None,
        until: datetime.datetime | None = None,
    ) -> Pair:
        """A certificate for these hosts, or this machine; as the file of another one with the same name."""
        issued = self._authority.issue_cert(
            *(hosts or HOSTS),
            common_name=common_name,
            not_before=LONG_AGO if expired else None,
            not_after=EXPIRED if expired else until,
        )
        chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
        return self._write(name, chain, issued.private_key_pem.bytes())

    def issue_for(self, usage: x509.ObjectIdentifier, name: str) -> Pair:
        """A certificate for one usage only; trustme makes those for both."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=10))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), _loopback()]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                    self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
                ),
                critical=False,
            )
        )
        signed = builder.sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self._write(name, signed.public_bytes(serialization.Encoding.PEM), private)

    def options(self, pair: Pair | None = None, *, server_name: str | None = None) -> TlsOptions:
        """A client's options, which trust this CA."""
        return TlsOptions(
            self.path, None if pair is None else pair.cert, None if pair is None else pair.key, server_name=server_name
        )

    @property
    def _certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self._authority.cert_pem.bytes())

    @property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key

    def _write(self, name: str, chain: bytes, key: bytes) -> Pair:
        pair = Pair(str(self._directory / f"{name}.pem"), str(self._directory / f"{name}.key"))
        for path, content in ((pair.cert, chain), (pair.key, key)):
            with open(f"{path}.new", "wb") as file:
                file.write(content)
            os.replace(f"{path}.new", path)
        return pair


def _loopback() -> x509.IPAddress:
    import ipaddress

    return x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))


def server_files(pair: Pair, client_ca: Authority | None = None) -> ServerFiles:
    """The files of a server that shows this certificate, and demands one if there is a CA of clients."""
    return ServerFiles(pair.cert, pair.key, None if client_ca is None else client_ca.path)


SERVER_ONLY = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT_ONLY = ExtendedKeyUsageOID.CLIENT_AUTH
