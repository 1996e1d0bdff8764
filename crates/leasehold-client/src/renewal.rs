//! When a lease is renewed: the strategies.

use std::time::Duration;

use crate::Error;

/// When a lease is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// When this part of its time has gone by, a little more or less so that many do not come at once.
    At(Fraction),
    /// When its holder was active ([`Guard::touch`](crate::Guard::touch)) and a third of its time has gone by.
    OnActivity,
    /// When its holder asks for it ([`Guard::renew`](crate::Guard::renew)).
    Manual,
    /// Never: it ends when its time is over.
    None,
    /// Again as soon as the last renewal was answered, at most ten times per ttl.
    Continuous,
}

/// A part of a whole: more than nothing, less than all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    parts: u32,
    of: u32,
}

impl Renewal {
    /// When half of its time has gone by.
    pub const HALF: Renewal = Renewal::At(Fraction { parts: 1, of: 2 });
    /// When a third of its time has gone by.
    pub const THIRD: Renewal = Renewal::At(Fraction { parts: 1, of: 3 });

    /// When `parts` of `of` equal parts of its time have gone by, as in `Renewal::at(1, 4)`.
    pub fn at(parts: u32, of: u32) -> Result<Renewal, Error> {
        Fraction::new(parts, of).map(Renewal::At)
    }

    /// Whether the client renews by itself.
    pub(crate) fn is_automatic(self) -> bool {
        match self {
            Renewal::At(_) | Renewal::Continuous => true,
            Renewal::OnActivity | Renewal::Manual | Renewal::None => false,
        }
    }
}

impl Default for Renewal {
    fn default() -> Self {
        Renewal::THIRD
    }
}

impl Fraction {
    /// `parts` of `of` equal parts: at least one, but not all of them.
    pub fn new(parts: u32, of: u32) -> Result<Fraction, Error> {
        if parts == 0 || parts >= of {
            return Err(Error::invalid("renewal", format!("{parts}/{of} is not a part of the ttl; take one like 1/3")));
        }
        Ok(Fraction { parts, of })
    }

    /// This part of a duration.
    pub(crate) fn part_of(self, whole: Duration) -> Duration {
        whole * self.parts / self.of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_lies_between_nothing_and_all() {
        assert!(Fraction::new(0, 3).is_err());
        assert!(Fraction::new(3, 3).is_err());
        assert!(Fraction::new(1, 0).is_err());
        let half = Fraction::new(2, 4).unwrap();
        assert_eq!(half.part_of(Duration::from_secs(10)), Duration::from_secs(5));
    }
}
