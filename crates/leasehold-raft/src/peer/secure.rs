//! Mutual TLS between nodes: who may connect, and to whom.
//!
//! Both sides show a certificate of the cluster's CA that is valid for the name [`NODE_NAME`]; a certificate of the same CA
//! without that name is not one of a node. TLS 1.3 only, and every connection proves itself anew: nothing is resumed. The
//! files are looked at again with every new connection, and what changed counts from then on. See decision 0014.

use std::fmt::Display;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore, ServerConfig};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use webpki::{EndEntityCert, KeyUsage};

use crate::error::{At as _, OpenError};

/// The DNS name that every certificate of a node carries, beside its own names.
pub const NODE_NAME: &str = "leasehold-node";

/// A certificate that ends sooner than this is told of at the start.
const ENDS_SOON: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long a refused connection is kept for the other side to read why.
const FAREWELL: Duration = Duration::from_secs(1);

/// The PEM files with which a node proves itself to others, and others to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTls {
    /// The certificates of the CAs whose nodes are believed.
    pub ca: PathBuf,
    /// The certificate of this node, and after it those between it and the CA, if any.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What makes connections secure; kept up to date with the files.
#[derive(Debug)]
pub(crate) struct Secure {
    files: PeerTls,
    loaded: Mutex<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    stamp: Stamp,
    sides: Sides,
    /// The complaint about newer files that was logged.
    said: Option<String>,
}

/// Which file each one is, how long, and when it changed: seconds and nanoseconds.
type Stamp = [Option<(u64, u64, i64, i64)>; 3];

#[derive(Clone)]
struct Sides {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl std::fmt::Debug for Sides {
    /// Shows nothing: a key is in there.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sides")
    }
}

impl Secure {
    /// Reads the files and checks that they fit together. Blocks.
    pub(crate) fn open(files: PeerTls) -> Result<Secure, OpenError> {
        let stamp = stamp(&files);
        let sides = load(&files)?;
        Ok(Secure { files, loaded: Mutex::new(Loaded { stamp, sides, said: None }) })
    }

    /// Makes a connection secure; returns once the other side has proved to be a node.
    pub(crate) async fn connect(self: &Arc<Self>, stream: TcpStream) -> Result<client::TlsStream<TcpStream>, String> {
        let sides = self.current().await?;
        let name = ServerName::try_from(NODE_NAME).expect("the constant is a DNS name");
        let connected = sides.connector.connect(name, stream).await;
        connected.map_err(insecure)
    }

    /// Makes a connection secure that another side has begun, and that shows a certificate of the CA.
    pub(crate) async fn accept(self: &Arc<Self>, stream: TcpStream) -> Result<server::TlsStream<TcpStream>, String> {
        let sides = self.current().await?;
        match sides.acceptor.accept(stream).into_fallible().await {
            Ok(stream) => Ok(stream),
            Err((error, stream)) => {
                part(stream).await;
                Err(insecure(error))
            }
        }
    }

    async fn current(self: &Arc<Self>) -> Result<Sides, String> {
        let secure = self.clone();
        crate::world::blocking(move || secure.reread()).await.map_err(|error| error.to_string())
    }

    /// Returns what the files say, or what they said when they could last be used.
    fn reread(&self) -> Sides {
        let mut loaded = self.loaded.lock();
        // Taken before the files are read: what is written meanwhile is read next time.
        let stamp = stamp(&self.files);
        if stamp != loaded.stamp {
            match load(&self.files) {
                Ok(sides) => {
                    tracing::info!(cert = %self.files.cert.display(), "the certificates were read anew");
                    *loaded = Loaded { stamp, sides, said: None };
                }
                // Half of the files may be written. The next connection looks again.
                Err(error) => {
                    let text = format!("{error}; what was read before stays in use");
                    if loaded.said.as_ref() != Some(&text) {
                        tracing::warn!("{text}");
                        loaded.said = Some(text);
                    }
                }
            }
        }
        loaded.sides.clone()
    }
}

/// Lets the other side read why it is refused: closing with bytes unread would take the words back.
async fn part(mut stream: TcpStream) {
    let farewell = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = timeout(FAREWELL, farewell).await;
}

fn stamp(files: &PeerTls) -> Stamp {
    [&files.ca, &files.cert, &files.key].map(|file| {
        let found = std::fs::metadata(file).ok()?;
        Some((found.ino(), found.len(), found.ctime(), found.ctime_nsec()))
    })
}

fn load(files: &PeerTls) -> Result<Sides, OpenError> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    for ca in certificates(&files.ca)? {
        roots.add(ca).map_err(|error| unusable(&files.ca, error))?;
    }
    let chain = certificates(&files.cert)?;
    let key = private_key(&files.key)?;
    check_own(files, &chain, &roots, &provider)?;

    let roots = Arc::new(roots);
    let no_pair = |error: rustls::Error| {
        let problem =
            format!("it is not the key of {}: {error}; put back the two that belong together", files.cert.display());
        unusable(&files.key, problem)
    };
    let no_tls = |error: rustls::Error| OpenError::Options(error.to_string());
    let mut connecting = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(no_tls)?
        .with_root_certificates(roots.clone())
        .with_client_auth_cert(chain.clone(), key.clone_key())
        .map_err(no_pair)?;
    connecting.resumption = Resumption::disabled();

    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
    let mut accepting = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(no_tls)?
        .with_client_cert_verifier(verifier.map_err(|error| unusable(&files.ca, error))?)
        .with_single_cert(chain, key)
        .map_err(no_pair)?;
    accepting.session_storage = Arc::new(NoServerSessionStorage {});
    accepting.send_tls13_tickets = 0;
    Ok(Sides { connector: Arc::new(connecting).into(), acceptor: Arc::new(accepting).into() })
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let bytes = std::fs::read(file).at("read", file)?;
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(unusable(file, "it holds no certificate in PEM form")),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(file, error)),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, OpenError> {
    let bytes = std::fs::read(file).at("read", file)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        let nothing = matches!(error, pem::Error::NoItemsFound);
        unusable(file, if nothing { "it holds no private key in PEM form".into() } else { error.to_string() })
    })
}

/// Others would refuse what does not pass here. The clock alone stops no node: a certificate that has ended is told of.
fn check_own(
    files: &PeerTls,
    chain: &[CertificateDer<'_>],
    roots: &RootCertStore,
    provider: &CryptoProvider,
) -> Result<(), OpenError> {
    let cert = &files.cert;
    let own = chain.first().expect("a file without certificates is refused");
    is_of_node(Some(chain)).map_err(|problem| unusable(cert, problem))?;
    let own = EndEntityCert::try_from(own).map_err(|error| unusable(cert, error))?;
    let verify = |at: Duration, usage: KeyUsage| {
        let algorithms = provider.signature_verification_algorithms.all;
        let at = UnixTime::since_unix_epoch(at);
        own.verify_for_usage(algorithms, &roots.roots, &chain[1..], at, usage, None, None).map(drop)
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for usage in [KeyUsage::server_auth(), KeyUsage::client_auth()] {
        match verify(now, usage) {
            Ok(()) => {}
            Err(webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. }) => {}
            Err(webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey) => {
                let problem = format!("it is not of a CA in {}; put back what belongs together", files.ca.display());
                return Err(unusable(cert, problem));
            }
            Err(error) => return Err(unusable(cert, error)),
        }
    }
    let valid = |at| verify(at, KeyUsage::client_auth());
    if let Some(problem) = time_problem(valid(now), valid(now + ENDS_SOON)) {
        tracing::warn!("{} {problem}", cert.display());
    }
    Ok(())
}

/// What the clock has against a certificate, now and soon.
fn time_problem(now: Result<(), webpki::Error>, soon: Result<(), webpki::Error>) -> Option<&'static str> {
    use webpki::Error::{CertExpired, CertNotValidYet};
    match (now, soon) {
        (Err(CertExpired { .. }), _) => {
            Some("has expired, other nodes refuse it; make a new one with `lease tls init`")
        }
        (Err(CertNotValidYet { .. }), _) => Some("is not valid yet, other nodes refuse it; compare the clocks"),
        (_, Err(CertExpired { .. })) => Some("expires within 30 days; make a new one with `lease tls init`"),
        (Ok(()) | Err(_), Ok(()) | Err(_)) => None,
    }
}

/// Checks that a certificate is one of a node. TLS itself checks that of the side that is connected to, not the other's.
pub(super) fn is_of_node(chain: Option<&[CertificateDer<'_>]>) -> Result<(), String> {
    let Some(shown) = chain.and_then(<[_]>::first) else { return Err("no certificate was shown".into()) };
    let name = ServerName::try_from(NODE_NAME).expect("the constant is a DNS name");
    let certificate = EndEntityCert::try_from(shown).map_err(|error| error.to_string())?;
    certificate.verify_is_valid_for_subject_name(&name).map_err(|_| not_of_node("the certificate"))
}

fn not_of_node(whose: &str) -> String {
    format!("{whose} lacks the name {NODE_NAME} and is not one of a node; make one with `lease tls init`")
}

fn unusable(file: &Path, problem: impl Display) -> OpenError {
    OpenError::Certificates { file: file.to_path_buf(), problem: problem.to_string() }
}

/// Says why a connection could not be made secure.
fn insecure(error: io::Error) -> String {
    if is_end(&error) {
        return "it closed the connection instead of securing it; see its log, and start all nodes of a cluster with \
                certificates"
            .into();
    }
    explained(error).to_string()
}

/// Says what a failure of TLS means for those who run the nodes; other failures stay as they are.
pub(super) fn explained(error: io::Error) -> io::Error {
    let words = match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(problem)) => refusing(problem),
        Some(rustls::Error::AlertReceived(alert)) => refused(*alert),
        Some(rustls::Error::NoCertificatesPresented) => {
            "it showed no certificate; give it one of the cluster's CA".into()
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "it does not speak TLS; start all nodes of a cluster with certificates".into()
        }
        Some(other) => format!("TLS failed: {other}"),
        None => return error,
    };
    io::Error::new(error.kind(), words)
}

/// Says whether the other side closed the connection.
pub(super) fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof].contains(&error.kind())
}

/// What this node has against the other's certificate.
fn refusing(problem: &CertificateError) -> String {
    use CertificateError as Is;
    if matches!(problem, Is::UnknownIssuer | Is::BadSignature) {
        "its certificate is not of a CA that this node knows; give both nodes certificates of one CA".into()
    } else if matches!(problem, Is::Expired | Is::ExpiredContext { .. }) {
        "its certificate has expired; make it a new one with `lease tls init`".into()
    } else if matches!(problem, Is::NotValidYet | Is::NotValidYetContext { .. }) {
        "its certificate is not valid yet; compare the clocks of the nodes".into()
    } else if matches!(problem, Is::NotValidForName | Is::NotValidForNameContext { .. }) {
        not_of_node("its certificate")
    } else {
        format!("its certificate cannot be used: {problem}")
    }
}

/// What the other side has against this node's certificate.
fn refused(alert: AlertDescription) -> String {
    let why = if alert == AlertDescription::UnknownCA || alert == AlertDescription::DecryptError {
        "is not of a CA that it knows; give both nodes certificates of one CA"
    } else if alert == AlertDescription::CertificateExpired {
        "has expired or is not valid yet; make a new one with `lease tls init`, or compare the clocks"
    } else if alert == AlertDescription::BadCertificate {
        "is not one of a node; make one with `lease tls init`"
    } else if alert == AlertDescription::CertificateRequired {
        "is missing; give this node one of the cluster's CA"
    } else {
        return format!("it ended TLS with {alert:?}; see its log");
    };
    format!("it refuses the certificate of this node, which {why}")
}
