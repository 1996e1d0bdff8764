//! Cursors that show nothing.
//!
//! A list of leases goes on after a lease's id, and that id must not be shown. The cursor is the id under a key
//! of this process: nobody else can read it, and nobody else can make one for an id of their choice. It is
//! good on the node that gave it, until that node restarts. (A synthetic-IV construction over SHA-256: the tag
//! authenticates the id and masks it; all inputs have a fixed length.)

use leasehold_api::Invalid;
use leasehold_core::{LeaseId, Namespace};
use sha2::{Digest, Sha256};

const TAG: usize = 16;

/// A secret of this process.
#[derive(Clone, Copy)]
pub(crate) struct Seal([u8; 32]);

impl Seal {
    pub(crate) fn random() -> Seal {
        Seal(rand::random())
    }

    /// The cursor for `id`.
    pub(crate) fn close(&self, namespace: &Namespace, id: LeaseId) -> String {
        let plain = id.number();
        let tag = self.tag(namespace, plain);
        let masked = plain ^ self.mask(&tag);
        tag.iter().chain(&masked.to_be_bytes()).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The id of a cursor that this process made for this namespace.
    pub(crate) fn open(&self, namespace: &Namespace, cursor: &str) -> Result<LeaseId, Invalid> {
        self.try_open(namespace, cursor)
            .ok_or_else(|| Invalid::new("page", "it is not a `next` of this server; begin again without `page`"))
    }

    fn try_open(&self, namespace: &Namespace, cursor: &str) -> Option<LeaseId> {
        if cursor.len() != 2 * (TAG + 8) || !cursor.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let tag = u128::from_str_radix(&cursor[..2 * TAG], 16).ok()?.to_be_bytes();
        let plain = u64::from_str_radix(&cursor[2 * TAG..], 16).ok()? ^ self.mask(&tag);
        if self.tag(namespace, plain) != tag {
            return None;
        }
        LeaseId::new(plain)
    }

    fn tag(&self, namespace: &Namespace, plain: u64) -> [u8; TAG] {
        let place = Sha256::digest(namespace.as_str());
        let hash = Sha256::new().chain_update(self.0).chain_update([1]).chain_update(place);
        let hash = hash.chain_update(plain.to_be_bytes()).finalize();
        let mut tag = [0; TAG];
        tag.copy_from_slice(&hash[..TAG]);
        tag
    }

    fn mask(&self, tag: &[u8; TAG]) -> u64 {
        let hash = Sha256::new().chain_update(self.0).chain_update([2]).chain_update(tag).finalize();
        let mut mask = [0; 8];
        mask.copy_from_slice(&hash[..8]);
        u64::from_be_bytes(mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_opens_only_where_it_was_made() {
        let (seal, id) = (Seal::random(), LeaseId::new(0x05f3_1c09_a4e2_b7d8).unwrap());
        let (here, there) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
        let cursor = seal.close(&here, id);
        assert!(!cursor.contains("05f31c09a4e2b7d8"));
        assert_eq!(seal.open(&here, &cursor), Ok(id));
        assert!(seal.open(&there, &cursor).is_err());
        assert!(Seal::random().open(&here, &cursor).is_err());
        for bad in ["", "zz", "05f31c09a4e2b7d8", &"é".repeat(24)] {
            assert!(seal.open(&here, bad).is_err(), "{bad}");
        }
    }
}
