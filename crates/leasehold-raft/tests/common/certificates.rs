//! A certificate authority in memory, and the files and TLS sides that are made of its certificates.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use leasehold_raft::{NODE_NAME, PeerTls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use time::{Duration, OffsetDateTime};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Signs certificates.
pub(crate) struct Ca(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM form.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Ca {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Ca(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// One for a node.
    pub(crate) fn node(&self) -> Shown {
        self.issue(&[NODE_NAME, "n1.example"], 1)
    }

    /// One for these names that ends after so many days, or has ended.
    pub(crate) fn issue(&self, names: &[&str], days: i64) -> Shown {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = OffsetDateTime::now_utc() - Duration::days(10);
        params.not_after = OffsetDateTime::now_utc() + Duration::days(days);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        Shown { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// Writes the files of a node.
    pub(crate) fn write(&self, dir: &Path, shown: &Shown) -> PeerTls {
        let files = PeerTls { ca: dir.join("ca.pem"), cert: dir.join("n.pem"), key: dir.join("n-key.pem") };
        fs::write(&files.ca, self.pem()).unwrap();
        fs::write(&files.cert, &shown.cert).unwrap();
        fs::write(&files.key, &shown.key).unwrap();
        files
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        Arc::new(roots)
    }

    /// A side that connects, believes this CA, and shows this.
    pub(crate) fn connector(&self, shown: Option<&Shown>) -> TlsConnector {
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(self.roots());
        let config = match shown {
            Some(shown) => config.with_client_auth_cert(shown.chain(), shown.key()).unwrap(),
            None => config.with_no_client_auth(),
        };
        TlsConnector::from(Arc::new(config))
    }

    /// A side that is connected to, believes this CA, and shows this.
    pub(crate) fn acceptor(&self, shown: &Shown) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots(), provider.clone()).build().unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(shown.chain(), shown.key())
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

impl Shown {
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap()]
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }
}
