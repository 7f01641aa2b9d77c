//! TLS between nodes: both sides show a certificate of one authority.

use crate::net::tls::{TlsError, chain_and_key};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, RootCertStore, ServerConfig,
};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Both directions.
pub(crate) struct PeerTls {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

impl PeerTls {
    /// From PEM files: this node's certificate chain and key, and the authority of all nodes.
    pub(crate) fn new(cert: &Path, key: &Path, authority: &Path) -> Result<Self, TlsError> {
        let settings = ("TICKETING_PEER_TLS_CERT", "TICKETING_PEER_TLS_KEY");
        let (chain, private) = chain_and_key(settings, cert, key)?;
        let bad = |reason: &dyn fmt::Display| {
            let remedy = "give a readable PEM file with the authority's certificate";
            TlsError::new("TICKETING_PEER_TLS_CA", authority, reason, remedy)
        };
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(authority)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| bad(&error))?;
        for certificate in certificates {
            roots.add(certificate).map_err(|error| bad(&error))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| bad(&error))?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| bad(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), private.clone_key())
            .map_err(|error| bad(&error))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| bad(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, private)
            .map_err(|error| bad(&error))?;
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
        })
    }

    /// Opens TLS to the host of `address`, which its certificate has to name.
    pub(super) async fn connect(
        &self,
        address: &str,
        stream: TcpStream,
    ) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "no host to verify"))?;
        self.connector.connect(name, stream).await
    }

    /// Accepts TLS.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }
}

/// What a failed handshake says about a certificate, and what to compare; `None` when it failed
/// for another reason.
pub(super) fn certificate_fault(error: &io::Error) -> Option<String> {
    let peer = "the peer's certificate";
    Some(match error.get_ref()?.downcast_ref::<Error>()? {
        // The second: an authority of the same name with another key.
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => format!("{peer} is of another authority (compare TICKETING_PEER_TLS_CA)"),
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!(
            "{peer} names another host (compare its peer address in TICKETING_CLUSTER_SLOTS with \
             its TICKETING_PEER_TLS_CERT)"
        ),
        Error::InvalidCertificate(fault) => {
            format!("{peer} is refused: {fault:?} (replace its TICKETING_PEER_TLS_CERT)")
        }
        Error::NoCertificatesPresented => {
            format!("{peer} is missing (set TICKETING_PEER_TLS_CERT there too)")
        }
        Error::AlertReceived(
            alert @ (AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate),
        ) => format!(
            "the peer refuses this node's certificate: {alert:?} (compare TICKETING_PEER_TLS_CERT \
             with the peer's TICKETING_PEER_TLS_CA)"
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_about_a_certificate_is_called_so() {
        let fault = |error: Error| certificate_fault(&io::Error::other(error));
        let contains = |error: Error, part: &str| {
            let fault = fault(error).expect("about a certificate");
            assert!(fault.contains(part) && fault.contains("TICKETING_PEER_TLS_"), "{fault}");
        };
        contains(CertificateError::UnknownIssuer.into(), "another authority");
        contains(CertificateError::BadSignature.into(), "another authority");
        contains(CertificateError::NotValidForName.into(), "another host");
        contains(CertificateError::Expired.into(), "Expired");
        contains(Error::NoCertificatesPresented, "is missing");
        contains(Error::AlertReceived(AlertDescription::UnknownCA), "refuses this node's");
        assert_eq!(fault(Error::AlertReceived(AlertDescription::InternalError)), None);
        assert_eq!(fault(Error::DecryptError), None);
        assert_eq!(certificate_fault(&io::ErrorKind::ConnectionReset.into()), None);
    }
}
