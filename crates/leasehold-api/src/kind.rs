//! The kinds of claims and leases: mode and class.

use leasehold_core as core;
use leasehold_core::{Span, Ttl};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether a resource is held alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nobody else holds it.
    #[default]
    Exclusive,
    /// Others may hold it in the same mode.
    Shared,
}

/// What kind of use a lease serves; it sets the ttl where none is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Exclusive work for seconds: 15 s.
    #[default]
    Lock,
    /// Leadership: 10 s.
    Election,
    /// Presence of a user or client: 15 min.
    Session,
    /// Something set aside for hours: 8 h.
    Reservation,
    /// A copy that may be used for a while: 10 min.
    Cache,
}

impl Class {
    /// The ttl of a lease of this class that names none.
    pub fn default_ttl(self) -> Ttl {
        Ttl::For(Span::seconds(match self {
            Class::Lock => 15,
            Class::Election => 10,
            Class::Session => 15 * 60,
            Class::Reservation => 8 * 3600,
            Class::Cache => 10 * 60,
        }))
    }
}

impl From<core::Mode> for Mode {
    fn from(mode: core::Mode) -> Mode {
        match mode {
            core::Mode::Exclusive => Mode::Exclusive,
            core::Mode::Shared => Mode::Shared,
        }
    }
}

impl From<Mode> for core::Mode {
    fn from(mode: Mode) -> core::Mode {
        match mode {
            Mode::Exclusive => core::Mode::Exclusive,
            Mode::Shared => core::Mode::Shared,
        }
    }
}

impl From<core::Class> for Class {
    fn from(class: core::Class) -> Class {
        match class {
            core::Class::Lock => Class::Lock,
            core::Class::Election => Class::Election,
            core::Class::Session => Class::Session,
            core::Class::Reservation => Class::Reservation,
            core::Class::Cache => Class::Cache,
        }
    }
}

impl From<Class> for core::Class {
    fn from(class: Class) -> core::Class {
        match class {
            Class::Lock => core::Class::Lock,
            Class::Election => core::Class::Election,
            Class::Session => core::Class::Session,
            Class::Reservation => core::Class::Reservation,
            Class::Cache => core::Class::Cache,
        }
    }
}
