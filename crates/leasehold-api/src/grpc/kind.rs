//! Modes, classes and times, between the contract and us.

use leasehold_core::{Patience, Remaining, Span, Ttl};

use super::{Class, Mode};

impl From<crate::Mode> for Mode {
    fn from(mode: crate::Mode) -> Mode {
        match mode {
            crate::Mode::Exclusive => Mode::Exclusive,
            crate::Mode::Shared => Mode::Shared,
        }
    }
}

impl From<Mode> for crate::Mode {
    fn from(mode: Mode) -> crate::Mode {
        match mode {
            Mode::Unspecified | Mode::Exclusive => crate::Mode::Exclusive,
            Mode::Shared => crate::Mode::Shared,
        }
    }
}

impl From<crate::Class> for Class {
    fn from(class: crate::Class) -> Class {
        match class {
            crate::Class::Lock => Class::Lock,
            crate::Class::Election => Class::Election,
            crate::Class::Session => Class::Session,
            crate::Class::Reservation => Class::Reservation,
            crate::Class::Cache => Class::Cache,
        }
    }
}

impl From<Class> for Option<crate::Class> {
    fn from(class: Class) -> Option<crate::Class> {
        match class {
            Class::Unspecified => None,
            Class::Lock => Some(crate::Class::Lock),
            Class::Election => Some(crate::Class::Election),
            Class::Session => Some(crate::Class::Session),
            Class::Reservation => Some(crate::Class::Reservation),
            Class::Cache => Some(crate::Class::Cache),
        }
    }
}

/// A ttl as its two fields: milliseconds, and whether it has no end.
pub fn ttl_fields(ttl: Ttl) -> (u64, bool) {
    match ttl {
        Ttl::For(span) => (span.0, false),
        Ttl::Endless => (0, true),
    }
}

/// The ttl of two fields.
pub fn ttl_of(millis: u64, endless: bool) -> Ttl {
    if endless { Ttl::Endless } else { Ttl::For(Span(millis)) }
}

/// A remaining time as its two fields: milliseconds, and whether it has no end.
pub fn remaining_fields(remaining: Remaining) -> (u64, bool) {
    match remaining {
        Remaining::For(span) => (span.0, false),
        Remaining::Endless => (0, true),
    }
}

/// The remaining time of two fields.
pub fn remaining_of(millis: u64, endless: bool) -> Remaining {
    if endless { Remaining::Endless } else { Remaining::For(Span(millis)) }
}

/// A patience as its two fields: milliseconds, and whether it has no end.
pub fn wait_fields(patience: Patience) -> (u64, bool) {
    match patience {
        Patience::None => (0, false),
        Patience::For(span) => (span.0, false),
        Patience::Endless => (0, true),
    }
}

/// The patience of two fields.
pub fn wait_of(millis: u64, forever: bool) -> Patience {
    match (millis, forever) {
        (_, true) => Patience::Endless,
        (0, false) => Patience::None,
        (1.., false) => Patience::For(Span(millis)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back_as_they_were_written() {
        for ttl in [Ttl::For(Span(1)), Ttl::Endless] {
            let (millis, endless) = ttl_fields(ttl);
            assert_eq!(ttl_of(millis, endless), ttl);
        }
        for remaining in [Remaining::For(Span::ZERO), Remaining::For(Span(9)), Remaining::Endless] {
            let (millis, endless) = remaining_fields(remaining);
            assert_eq!(remaining_of(millis, endless), remaining);
        }
        for patience in [Patience::None, Patience::For(Span(3)), Patience::Endless] {
            let (millis, forever) = wait_fields(patience);
            assert_eq!(wait_of(millis, forever), patience);
        }
    }

    #[test]
    fn kinds_read_back_and_may_be_left_out() {
        for mode in [crate::Mode::Exclusive, crate::Mode::Shared] {
            assert_eq!(crate::Mode::from(Mode::from(mode)), mode);
        }
        let classes = [crate::Class::Lock, crate::Class::Election, crate::Class::Session, crate::Class::Cache];
        for class in classes.into_iter().chain([crate::Class::Reservation]) {
            assert_eq!(Option::from(Class::from(class)), Some(class));
        }
        assert_eq!(crate::Mode::from(Mode::Unspecified), crate::Mode::Exclusive);
        assert_eq!(Option::<crate::Class>::from(Class::Unspecified), None);
    }
}
