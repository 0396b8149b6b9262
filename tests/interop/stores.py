"""Certificates in the form that the Java system reads: PEM files converted to its stores with `keytool`.

The invariant: each side has both stores, because the Java system opens both, whatever is switched on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytubemq.server.trial_certificates import TrialFiles, key_of

from .fetch import run_tool, tool

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = "password-of-the-stores"


@dataclass(frozen=True)
class JavaStores:
    """The stores of one side: its certificate with its key, and the CA that it trusts."""

    keys: Path
    trust: Path

    def server_section(self, *, two_way: bool) -> dict[str, object]:
        """The section `tlsSetting` of a Java server, without the port."""
        return {
            "tlsEnable": "true",
            "tlsKeyStorePath": self.keys,
            "tlsKeyStorePassword": PASSWORD,
            "tlsTwoWayAuthEnable": str(two_way).lower(),
            "tlsTrustStorePath": self.trust,
            "tlsTrustStorePassword": PASSWORD,
        }

    def client_options(self, *, two_way: bool) -> dict[str, Any]:
        """What the driver of the official client takes as `tls`."""
        return {"keys": str(self.keys), "trust": str(self.trust), "password": PASSWORD, "two_way": two_way}


def java_stores(files: TrialFiles, certificate: Path) -> JavaStores:
    """Convert a certificate, its key and the CA; JKS, as the Java system asks for by name."""
    keys, trust = certificate.with_suffix(".jks"), certificate.with_suffix(".trust.jks")
    bundle = certificate.with_suffix(".p12")
    openssl = tool("openssl")
    run_tool(
        [
            openssl, "pkcs12", "-export", "-in", str(certificate), "-inkey", str(key_of(certificate)),
            "-name", "own", "-passout", f"pass:{PASSWORD}", "-out", str(bundle),
        ],
        certificate.parent,
    )  # fmt: skip
    run_tool(
        [
            tool("keytool"), "-importkeystore", "-noprompt", "-srckeystore", str(bundle), "-srcstoretype", "PKCS12",
            "-srcstorepass", PASSWORD, "-destkeystore", str(keys), "-deststoretype", "JKS",
            "-deststorepass", PASSWORD, "-destkeypass", PASSWORD,
        ],
        certificate.parent,
    )  # fmt: skip
    run_tool(
        [
            tool("keytool"), "-importcert", "-noprompt", "-alias", "ca", "-file", str(files.ca),
            "-keystore", str(trust), "-storetype", "JKS", "-storepass", PASSWORD,
        ],
        certificate.parent,
    )  # fmt: skip
    return JavaStores(keys, trust)
