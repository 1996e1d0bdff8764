//! What happened, line by line, in true time: the same for the same seed, and summed up in one number.

use std::fmt::Arguments;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::time::TrueTime;

/// A trace. Clones write to the same one.
#[derive(Clone)]
pub(crate) struct Trace {
    time: TrueTime,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    failures: Vec<String>,
    sum: u64,
    aloud: bool,
}

impl Trace {
    pub(crate) fn new(time: TrueTime, aloud: bool) -> Trace {
        // FNV's offset; any fixed number serves.
        let inner = Inner { failures: Vec::new(), sum: 0xcbf2_9ce4_8422_2325, aloud };
        Trace { time, inner: Arc::new(Mutex::new(inner)) }
    }

    /// Writes a line.
    pub(crate) fn say(&self, words: Arguments<'_>) {
        let line = format!("{:>8.3} {words}", self.time.elapsed().as_secs_f64());
        let mut inner = self.inner.lock();
        for byte in line.bytes() {
            inner.sum = (inner.sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if inner.aloud {
            eprintln!("{line}");
        }
    }

    /// Writes a line that must not be there.
    pub(crate) fn fail(&self, words: Arguments<'_>) {
        self.say(words);
        self.inner.lock().failures.push(words.to_string());
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        self.inner.lock().failures.clone()
    }

    /// One number for all lines.
    pub(crate) fn sum(&self) -> u64 {
        self.inner.lock().sum
    }
}
