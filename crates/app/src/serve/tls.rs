//! From PEM files to what rustls serves NBD with.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use crate::error::{Failure, Outcome};

/// A chain has a few KiB; a file with every authority there is has less than half of this.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Serves with this certificate and key; with `client_ca` only clients whose certificate is
/// signed by one of those in it.
pub fn load(cert: &Path, key: &Path, client_ca: Option<&Path>) -> Outcome<Arc<ServerConfig>> {
    let chain = certificates(cert)?;
    let secret = private_key(key)?;
    let provider = Arc::new(ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::new("TLS", error))?;
    let verified = match client_ca {
        None => versions.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.map_err(|error| Failure::usage(path.display(), error))?;
            versions.with_client_cert_verifier(verifier)
        }
    };
    let mut config = verified.with_single_cert(chain, secret).map_err(|error| {
        let what = format!("does not go with the certificate {}: {error}", cert.display());
        Failure::usage(key.display(), what)
    })?;
    // Connections last; nothing is worth keeping for a client's next one.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn authorities(path: &Path) -> Outcome<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            Failure::usage(path.display(), format!("not a certificate of an authority: {error}"))
        })?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Outcome<Vec<CertificateDer<'static>>> {
    let bytes = read(path)?;
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(Failure::usage(path.display(), "has no certificate")
            .hint("it is a PEM file with -----BEGIN CERTIFICATE----- in it")),
        Err(error) => Err(not_pem(path, &error)),
    }
}

fn private_key(path: &Path) -> Outcome<PrivateKeyDer<'static>> {
    let found = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if found.mode() & 0o007 != 0 {
        return Err(Failure::usage(path.display(), "everybody may read or change the private key")
            .hint(format!("chmod o= {}", path.display())));
    }
    let bytes = read(path)?;
    match PrivateKeyDer::from_pem_slice(&bytes) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => Err(Failure::usage(path.display(), "has no private key")
            .hint("it is a PEM file with -----BEGIN PRIVATE KEY----- in it, without passphrase")),
        Err(error) => Err(not_pem(path, &error)),
    }
}

fn read(path: &Path) -> Outcome<Vec<u8>> {
    let found = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if found.len() > FILE_BYTES_MAX {
        let what = format!("longer than {FILE_BYTES_MAX} bytes, no PEM file");
        return Err(Failure::usage(path.display(), what));
    }
    fs::read(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(path.display(), format!("can't read it: {error}"))
}

fn not_pem(path: &Path, error: &pem::Error) -> Failure {
    Failure::usage(path.display(), format!("not a PEM file: {error:?}"))
}
