//! TLS for the whole connection, verified by default.

use crate::address::Address;
use crate::error::Error;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// Whether and how connections use TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tls {
    /// TLS 1.2 or 1.3. The server's certificate must come from an authority in this PEM file and
    /// be valid for the server name.
    CaFile(PathBuf),
    /// TLS 1.2 or 1.3 that accepts **any** certificate: whoever sits in between can read and
    /// change everything. For experiments only.
    InsecureAcceptAnyCertificate,
    /// No TLS.
    #[default]
    Off,
    /// TLS 1.2 or 1.3. The server's certificate must come from an authority that the operating
    /// system trusts and be valid for the server name.
    SystemRoots,
}

/// TLS towards one address.
#[derive(Clone)]
pub(crate) struct TlsTarget {
    pub(crate) connector: TlsConnector,
    pub(crate) server_name: ServerName<'static>,
}

/// The connector for these settings; `None` without TLS. Reads files.
pub(crate) fn connector(tls: &Tls) -> Result<Option<TlsConnector>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::invalid(format!("TLS: {error}")))?;
    let config = match tls {
        Tls::Off => return Ok(None),
        Tls::SystemRoots => builder.with_root_certificates(system_roots()?).with_no_client_auth(),
        Tls::CaFile(path) => {
            builder.with_root_certificates(file_roots(path)?).with_no_client_auth()
        }
        Tls::InsecureAcceptAnyCertificate => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAny { provider }))
            .with_no_client_auth(),
    };
    Ok(Some(TlsConnector::from(Arc::new(config))))
}

/// A failed TLS handshake, with what to do about it.
pub(crate) fn explain(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let remedy = match tls {
        Some(rustls::Error::InvalidMessage(_)) => "; check that the server uses TLS",
        Some(rustls::Error::InvalidCertificate(reason)) => match reason {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => {
                "; check this machine's clock, or give the server a new certificate"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "; connect by a name in the certificate, or set the TLS server name"
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "; give the certificate of the authority that signed the server's"
            }
            // The library has no kind of its own for it, only this text.
            CertificateError::Other(other)
                if format!("{other:?}").contains("CaUsedAsEndEntity") =>
            {
                "; the server shows an authority's certificate: make one with \
                 basicConstraints=CA:FALSE"
            }
            _ => "; give the server another certificate",
        },
        // Not a word in TLS: the connection itself ended.
        None => "; check that both sides use TLS or neither",
        _ => "; check that both sides know a common version of TLS, 1.2 or 1.3",
    };
    format!("TLS: {error}{remedy}")
}

/// The name that the certificate has to carry: the one set, otherwise the address's host.
pub(crate) fn server_name(
    set: Option<&str>,
    address: &Address,
) -> Result<ServerName<'static>, Error> {
    let name = set.unwrap_or(&address.host);
    ServerName::try_from(name.to_owned()).map_err(|_| {
        Error::invalid(format!("TLS server name {name:?}: it must be a host name or IP address"))
    })
}

fn system_roots() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(Error::invalid(format!(
            "TLS: the operating system has no certificate authorities ({}); install them or give \
             a CA file",
            reasons.join("; ")
        )));
    }
    Ok(roots)
}

fn file_roots(path: &Path) -> Result<RootCertStore, Error> {
    let invalid = |why: String| {
        Error::invalid(format!(
            "TLS CA file {}: {why}; give a PEM file of CA certificates",
            path.display()
        ))
    };
    let mut roots = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| invalid(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
        roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
    }
    if roots.is_empty() { Err(invalid("it holds no certificate".into())) } else { Ok(roots) }
}

/// Accepts any certificate, but still checks that the server has its key.
#[derive(Debug)]
struct AcceptAny {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
