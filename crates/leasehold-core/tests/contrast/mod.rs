//! A scenario without a mistake, and with it.
//!
//! What is planted holds for a whole process, so the test starts itself again: the new process plants the mistake and
//! runs the scenario, and must come to the other result. A test has the name of its mistake, which no other has in its own.

use std::fmt::Debug;
use std::process::Command;

use leasehold_core::planted::{Bug, is, plant, planted};

/// Tells the process that was started again which mistake is its own.
const PLANT: &str = "LEASEHOLD_TEST_PLANT";

/// Checks what a scenario comes to, without a mistake and with it.
pub(crate) fn contrast<T: Debug + PartialEq>(bug: Bug, scenario: impl FnOnce() -> T, well: T, mistaken: T) {
    assert_ne!(well, mistaken, "a mistake makes a difference");
    if std::env::var_os(PLANT).is_some_and(|name| name == bug.name()) {
        plant(bug);
        assert!(is(bug) && planted() == Some(bug));
        assert_eq!(scenario(), mistaken, "with {} planted", bug.name());
        return;
    }
    assert_eq!(planted(), None);
    assert_eq!(scenario(), well, "with nothing planted");
    let test = bug.name().replace('-', "_");
    let mut again = Command::new(std::env::current_exe().expect("a test knows its file"));
    let output = again.env(PLANT, bug.name()).arg(&test).output().expect("a test can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
