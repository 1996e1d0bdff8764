//! Makes certificates for nodes: an authority of the cluster's own, and what it signs.
//!
//! Every certificate of a node carries the name by which nodes know each other, beside the node's own names. What was
//! made is verified as another node would before it is handed out. Files are left to `command/tls.rs`.

use std::time::{Duration, SystemTime};

use leasehold_server::NODE_NAME;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use time::OffsetDateTime;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an authority is believed.
const AUTHORITY_DAYS: u32 = 3652;
/// Clocks differ: what is made now is valid a little earlier.
const BEFORE: Duration = Duration::from_secs(60 * 60);

/// A certificate and its private key, in PEM form.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) cert: String,
    pub(crate) key: String,
}

/// Signs the certificates of nodes.
pub(crate) struct Authority {
    pub(crate) pair: Pair,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new one.
    pub(crate) fn make(now: SystemTime) -> Result<Authority, String> {
        let key = KeyPair::generate().map_err(failed)?;
        let params = authority_params(&key, now);
        let cert = params.self_signed(&key).map_err(failed)?;
        let pair = Pair { cert: cert.pem(), key: key.serialize_pem() };
        Ok(Authority { pair, issuer: Issuer::new(params, key) })
    }

    /// Takes up one that was made before.
    pub(crate) fn take_up(pair: Pair) -> Result<Authority, String> {
        let key = KeyPair::from_pem(&pair.key).map_err(|error| format!("its key cannot be used: {error}"))?;
        let params = authority_params(&key, SystemTime::UNIX_EPOCH);
        Ok(Authority { pair, issuer: Issuer::new(params, key) })
    }

    /// Signs a certificate for a node with these names, valid for so many days.
    pub(crate) fn issue(&self, names: &[String], days: u32, now: SystemTime) -> Result<Pair, String> {
        let key = KeyPair::generate().map_err(failed)?;
        let all: Vec<String> = [NODE_NAME.to_owned()].into_iter().chain(names.iter().cloned()).collect();
        let mut params = CertificateParams::new(all).map_err(failed)?;
        let common = names.first().map_or(NODE_NAME, String::as_str);
        valid(&mut params, common, now, days);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let cert = params.signed_by(&key, &self.issuer).map_err(failed)?;
        self.verify(&cert, now)?;
        Ok(Pair { cert: cert.pem(), key: key.serialize_pem() })
    }

    /// Verifies what was signed against the authority's certificate, as a node does.
    fn verify(&self, cert: &Certificate, now: SystemTime) -> Result<(), String> {
        let trusted: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.pair.cert.as_bytes()).collect();
        let trusted = trusted.map_err(|error| format!("its certificate cannot be read: {error}"))?;
        let anchors: Result<Vec<_>, _> = trusted.iter().map(anchor_from_trusted_cert).collect();
        let anchors = anchors.map_err(|error| format!("its certificate cannot be used: {error}"))?;
        let cert = EndEntityCert::try_from(cert.der()).map_err(failed)?;
        let now = UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        let algorithms = [webpki::ring::ECDSA_P256_SHA256];
        for usage in [KeyUsage::server_auth(), KeyUsage::client_auth()] {
            cert.verify_for_usage(&algorithms, &anchors, &[], now, usage, None, None)
                .map_err(|_| "its key does not fit its certificate, or it was not made by `lease tls init`")?;
        }
        let name = ServerName::try_from(NODE_NAME).map_err(failed)?;
        cert.verify_is_valid_for_subject_name(&name).map_err(failed)
    }
}

/// The day on which a certificate made now ends.
pub(crate) fn last_day(now: SystemTime, days: u32) -> String {
    OffsetDateTime::from(now + DAY * days).date().to_string()
}

/// The day on which an authority made now ends.
pub(crate) fn authority_last_day(now: SystemTime) -> String {
    last_day(now, AUTHORITY_DAYS)
}

/// The name of an authority is made of its key, so that it is known again from it, and no two have the same.
fn authority_params(key: &KeyPair, now: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    let digits: String = params.key_identifier(key).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    valid(&mut params, &format!("leasehold CA {digits}"), now, AUTHORITY_DAYS);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn valid(params: &mut CertificateParams, common_name: &str, now: SystemTime, days: u32) {
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = OffsetDateTime::from(now) - BEFORE;
    params.not_after = OffsetDateTime::from(now + DAY * days);
}

fn failed(error: impl std::fmt::Display) -> String {
    format!("a certificate could not be made: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn parsed(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    /// Verifies a certificate against an authority after so many days.
    fn verified(ca: &Pair, pair: &Pair, days: u32, name: &str) -> Result<(), webpki::Error> {
        let (ca, cert) = (parsed(&ca.cert), parsed(&pair.cert));
        let anchors = [anchor_from_trusted_cert(&ca).unwrap()];
        let cert = EndEntityCert::try_from(&cert).unwrap();
        let now = (SystemTime::now() + DAY * days).duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let now = UnixTime::since_unix_epoch(now);
        let algorithms = [webpki::ring::ECDSA_P256_SHA256];
        cert.verify_for_usage(&algorithms, &anchors, &[], now, KeyUsage::client_auth(), None, None)?;
        cert.verify_is_valid_for_subject_name(&ServerName::try_from(name.to_owned()).unwrap())
    }

    #[test]
    fn a_node_is_known_by_the_common_name_and_its_own_names_until_its_last_day() {
        let now = SystemTime::now();
        let ca = Authority::make(now).unwrap();
        let pair = ca.issue(&names(&["n1", "n1.example", "10.0.0.1", "fd00::1"]), 30, now).unwrap();
        for name in [NODE_NAME, "n1", "n1.example", "10.0.0.1", "fd00::1"] {
            verified(&ca.pair, &pair, 29, name).unwrap();
        }
        verified(&ca.pair, &pair, 29, "n2").unwrap_err();
        let error = verified(&ca.pair, &pair, 31, NODE_NAME).unwrap_err();
        assert!(matches!(error, webpki::Error::CertExpired { .. }), "{error}");
        let other = ca.issue(&names(&["n1"]), 30, now).unwrap();
        assert!(other.cert != pair.cert && other.key != pair.key);
    }

    #[test]
    fn an_authority_that_is_taken_up_signs_like_before() {
        let now = SystemTime::now();
        let made = Authority::make(now).unwrap();
        let again = Authority::take_up(made.pair.clone()).unwrap();
        let pair = again.issue(&names(&["n1"]), 30, now).unwrap();
        verified(&made.pair, &pair, 0, NODE_NAME).unwrap();
    }

    #[test]
    fn during_a_change_of_authorities_both_may_stand_in_one_file() {
        let now = SystemTime::now();
        let (old, new) = (Authority::make(now).unwrap(), Authority::make(now).unwrap());
        let cert = old.pair.cert.clone() + &new.pair.cert;
        let both = Authority::take_up(Pair { cert, key: new.pair.key.clone() }).unwrap();
        let pair = both.issue(&names(&["n1"]), 30, now).unwrap();
        verified(&new.pair, &pair, 0, NODE_NAME).unwrap();
        verified(&old.pair, &pair, 0, NODE_NAME).unwrap_err();
    }

    #[test]
    fn what_does_not_belong_together_signs_nothing() {
        let now = SystemTime::now();
        let (one, two) = (Authority::make(now).unwrap(), Authority::make(now).unwrap());
        let mixed = Authority::take_up(Pair { cert: one.pair.cert, key: two.pair.key.clone() }).unwrap();
        let reason = mixed.issue(&names(&["n1"]), 30, now).err().unwrap();
        assert!(reason.contains("its key does not fit its certificate"), "{reason}");
        let reason = Authority::take_up(Pair { cert: two.pair.cert, key: "no key".into() }).err().unwrap();
        assert!(reason.contains("its key cannot be used"), "{reason}");
    }
}
