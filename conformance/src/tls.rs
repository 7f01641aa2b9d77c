//! A throwaway certificate authority, and TLS for played servers.

use crate::failure::{Check, Failure, fail};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, SupportedProtocolVersion};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

/// An authority made for one run; its certificate lies in a file for the clients.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    /// Makes one.
    ///
    /// # Errors
    /// When keys cannot be made or the file not written.
    pub fn new() -> Check<Self> {
        let mut params = CertificateParams::new(Vec::new()).map_err(trouble)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "Ticketing conformance CA");
        params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().map_err(trouble)?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(trouble)?;
        let directory = TempDir::new()?;
        let authority = Self { issuer, directory };
        std::fs::write(authority.ca_file(), authority.issuer.pem())?;
        Ok(authority)
    }

    /// The PEM file of its certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// TLS with a certificate of this authority for `names`, in one version of the protocol.
    ///
    /// # Errors
    /// When keys cannot be made.
    pub fn acceptor(
        &self,
        names: &[&str],
        version: &'static SupportedProtocolVersion,
    ) -> Check<TlsAcceptor> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(trouble)?;
        params.distinguished_name.push(rcgen::DnType::CommonName, "Ticketing conformance");
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(trouble)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(trouble)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .and_then(|builder| {
                builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key)
            });
        match config {
            Ok(config) => Ok(TlsAcceptor::from(Arc::new(config))),
            Err(error) => fail("TLS for a played server", error.to_string()),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
fn trouble(error: rcgen::Error) -> Failure {
    Failure { expected: "certificates for a run".into(), seen: error.to_string() }
}
