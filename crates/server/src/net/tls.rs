//! TLS from PEM files.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Why TLS cannot be offered.
#[derive(Debug)]
pub struct TlsError {
    setting: &'static str,
    path: PathBuf,
    reason: String,
    remedy: &'static str,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, path, reason, remedy } = self;
        write!(f, "{setting}: {}: {reason}; {remedy}", path.display())
    }
}

impl std::error::Error for TlsError {}

impl TlsError {
    pub(crate) fn new(
        setting: &'static str,
        path: &Path,
        reason: &dyn fmt::Display,
        remedy: &'static str,
    ) -> Self {
        Self { setting, path: path.to_owned(), reason: reason.to_string(), remedy }
    }

    fn certificate(setting: &'static str, path: &Path, reason: &dyn fmt::Display) -> Self {
        let remedy = "give a readable PEM file with the certificate chain";
        Self::new(setting, path, reason, remedy)
    }

    fn key(setting: &'static str, path: &Path, reason: &dyn fmt::Display) -> Self {
        let remedy = "give a readable PEM file with the private key of the certificate";
        Self::new(setting, path, reason, remedy)
    }
}

/// Reads a certificate chain and its private key; the settings are what messages call them.
///
/// # Errors
/// Names the file and what to do about it.
pub(crate) fn chain_and_key(
    settings: (&'static str, &'static str),
    cert: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let cert_error = |reason: &dyn fmt::Display| TlsError::certificate(settings.0, cert, reason);
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| cert_error(&error))?;
    if chain.is_empty() {
        return Err(cert_error(&"no certificate in it"));
    }
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| TlsError::key(settings.1, key, &error))?;
    Ok((chain, private))
}

/// Reads the certificate chain and its key.
///
/// # Errors
/// Names the file and what to do about it.
pub(crate) fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let settings = ("TICKETING_TLS_CERT", "TICKETING_TLS_KEY");
    let (chain, private) = chain_and_key(settings, cert, key)?;
    let cert_error = |reason: &dyn fmt::Display| TlsError::certificate(settings.0, cert, reason);
    let key_error = |reason: &dyn fmt::Display| TlsError::key(settings.1, key, reason);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| cert_error(&error))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| key_error(&error))?;
    // Connections live long, so resuming one saves nothing; not offering it keeps memory flat.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
