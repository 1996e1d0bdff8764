//! The protected side: what refuses a holder that does not know yet that it has lost its lease.
//!
//! No lease can stop a process that was paused just before it wrote. The token can: tokens of a resource rise with
//! every grant, so whoever is written to remembers the highest one it saw and refuses all below. [`Fence`] does
//! that in memory; [`sql`] has the statements for PostgreSQL. A fence is for resources held alone: those who share one
//! have different tokens at the same time.
//!
//! ```
//! use leasehold_client::Fence;
//!
//! let fence = Fence::new();
//! fence.check("orders/7", 12)?;
//! fence.check("orders/7", 15)?; // the next holder
//! let late = fence.check("orders/7", 12).unwrap_err();
//! assert_eq!((late.given, late.highest), (12, 15));
//! # Ok::<(), leasehold_client::fence::StaleToken>(())
//! ```

use std::collections::HashMap;

use parking_lot::Mutex;

/// The highest token seen of each resource, in memory.
#[derive(Debug, Default)]
pub struct Fence {
    highest: Mutex<HashMap<String, u64>>,
}

/// A token below one that was seen before: its holder has lost the lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token {given} on {resource} is stale, {highest} was seen; stop writing, claim again")]
pub struct StaleToken {
    /// On which resource.
    pub resource: String,
    /// The token that was shown.
    pub given: u64,
    /// The highest one seen.
    pub highest: u64,
}

impl Fence {
    /// A fence that has seen nothing.
    pub fn new() -> Fence {
        Fence::default()
    }

    /// Accepts a token that is not below the highest one seen, and remembers it.
    ///
    /// What follows the check may come too late all the same: use [`Fence::write`] for a write that must not.
    pub fn check(&self, resource: &str, token: u64) -> Result<(), StaleToken> {
        self.write(resource, token, || ())
    }

    /// Writes if the token is accepted; no later token is accepted before the write is done.
    pub fn write<T>(&self, resource: &str, token: u64, write: impl FnOnce() -> T) -> Result<T, StaleToken> {
        let mut highest = self.highest.lock();
        match highest.get_mut(resource) {
            Some(seen) if *seen > token => {
                return Err(StaleToken { resource: resource.to_owned(), given: token, highest: *seen });
            }
            Some(seen) => *seen = token,
            None => {
                highest.insert(resource.to_owned(), token);
            }
        }
        Ok(write())
    }

    /// The highest token seen of a resource.
    pub fn highest(&self, resource: &str) -> Option<u64> {
        self.highest.lock().get(resource).copied()
    }
}

/// Fencing in PostgreSQL: a table that remembers the highest token of each resource.
///
/// In the transaction that writes, run [`ADVANCE`](sql::ADVANCE) first. If it gives no row, the token is stale: roll
/// back; [`HIGHEST`](sql::HIGHEST) tells the one that was seen. If it gives one, the row stays locked until the
/// transaction ends, so no other holder writes in between, and a holder with a later token that waits for it comes after.
///
/// ```sql
/// BEGIN;
/// INSERT INTO lease_fence AS fence (resource, token) VALUES ('orders/7', 12) ...;  -- ADVANCE: one row, or stop
/// UPDATE orders SET state = 'shipped' WHERE id = 7;
/// COMMIT;
/// ```
///
/// Where what is protected is one row, the row itself can carry the token and no table is needed
/// ([`fenced_update`](sql::fenced_update)).
pub mod sql {
    /// Creates the table.
    pub const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS lease_fence (\
        resource text PRIMARY KEY, token bigint NOT NULL)";

    /// Accepts the token `$2` (bigint) on the resource `$1` (text) and remembers it: one row if it is accepted, none if
    /// it is stale.
    pub const ADVANCE: &str = "INSERT INTO lease_fence AS fence (resource, token) VALUES ($1, $2) \
        ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token \
        RETURNING token";

    /// The highest token seen of the resource `$1`.
    pub const HIGHEST: &str = "SELECT token FROM lease_fence WHERE resource = $1";

    /// Adds to a table the column that [`fenced_update`] needs.
    pub fn add_token_column(table: &str) -> String {
        format!("ALTER TABLE {} ADD COLUMN IF NOT EXISTS lease_token bigint NOT NULL DEFAULT 0", quoted(table))
    }

    /// An update of the row whose column `key` is `$1`, for the holder with the token `$2`: it sets `columns` to `$3`, `$4`
    /// and so on. It changes one row if the token is accepted, and none if it is stale or there is no such row.
    pub fn fenced_update(table: &str, key: &str, columns: &[&str]) -> String {
        let set = columns.iter().enumerate().map(|(at, column)| format!(", {} = ${}", quoted(column), at + 3));
        let (table, key, set) = (quoted(table), quoted(key), set.collect::<String>());
        format!("UPDATE {table} SET lease_token = $2{set} WHERE {key} = $1 AND lease_token <= $2")
    }

    /// A name as PostgreSQL takes it literally.
    fn quoted(name: &str) -> String {
        format!("\"{}\"", name.replace('"', "\"\""))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn names_are_quoted_and_values_are_numbered() {
            assert_eq!(
                fenced_update("orders", "id", &["state", "odd\"name"]),
                "UPDATE \"orders\" SET lease_token = $2, \"state\" = $3, \"odd\"\"name\" = $4 \
                 WHERE \"id\" = $1 AND lease_token <= $2"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_below_the_highest_is_refused_per_resource() {
        let fence = Fence::new();
        fence.check("a", 5).unwrap();
        fence.check("a", 5).unwrap();
        fence.check("a", 7).unwrap();
        fence.check("b", 1).unwrap();
        let stale = fence.check("a", 5).unwrap_err();
        assert_eq!(stale.to_string(), "token 5 on a is stale, 7 was seen; stop writing, claim again");
        assert_eq!(fence.highest("a"), Some(7));
        assert_eq!(fence.highest("c"), None);
    }

    #[test]
    fn a_refused_write_is_not_done() {
        let fence = Fence::new();
        let mut written = Vec::new();
        fence.write("a", 9, || written.push("new")).unwrap();
        fence.write("a", 8, || written.push("old")).unwrap_err();
        assert_eq!(written, ["new"]);
    }
}
