//! What is written to in a demonstration: one number, with or without a look at tokens.

/// A register that holds a balance.
#[derive(Clone, Debug)]
pub(crate) struct Register {
    balance: u64,
    /// The newest token seen; none if tokens are not looked at.
    newest: Option<u64>,
}

/// A write that came too late: a newer holder has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    /// The token of the newer holder.
    pub(crate) newest: u64,
}

impl Register {
    /// A register that takes every write.
    pub(crate) fn trusting(balance: u64) -> Register {
        Register { balance, newest: None }
    }

    /// A register that refuses tokens older than the newest it has seen.
    pub(crate) fn fenced(balance: u64) -> Register {
        Register { balance, newest: Some(0) }
    }

    /// Writes a balance with the token of the writer.
    pub(crate) fn write(&mut self, token: u64, balance: u64) -> Result<(), Stale> {
        if let Some(newest) = &mut self.newest {
            if token < *newest {
                return Err(Stale { newest: *newest });
            }
            *newest = token;
        }
        self.balance = balance;
        Ok(())
    }

    /// What it holds.
    pub(crate) fn balance(&self) -> u64 {
        self.balance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fenced_register_refuses_an_old_token() {
        let (mut trusting, mut fenced) = (Register::trusting(100), Register::fenced(100));
        for register in [&mut trusting, &mut fenced] {
            assert_eq!(register.write(1, 110), Ok(()));
            assert_eq!(register.write(5, 250), Ok(()));
            assert_eq!(register.write(5, 260), Ok(()), "the newest may write again");
        }
        assert_eq!((trusting.write(1, 120), trusting.balance()), (Ok(()), 120));
        assert_eq!((fenced.write(1, 120), fenced.balance()), (Err(Stale { newest: 5 }), 260));
    }
}
